//! Reports while waiting: to people the holder and the time, to programs an event for each holder.

use std::convert::Infallible;
use std::future::pending;
use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use leasehold::{Event as Change, Events, Fault, FaultKind, Holder, HolderInfo, Key, KeyState, Locks, Owner};
use rustix::process::getpgrp;
use rustix::termios::{tcgetpgrp, tcgetwinsize};
use tokio::time::{sleep_until, timeout};

use crate::cut::cut_amid;
use crate::json::millis;
use crate::lock_request::LockRequest;
use crate::say::{self, plain};
use crate::status::Event;
use crate::store_location::SILENCE;
use crate::terminal::is_dumb;
use crate::time;

/// How often the line on a terminal is rewritten, and the store is looked at for it.
const FRAME: Duration = Duration::from_secs(1);

/// How often a line is written without a terminal, and the store is looked at for it.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
struct Wait {
    holder: Holder,
    held_by: HolderInfo,
    held_for: Option<Duration>,
    place: Option<u64>,
    /// The number of waiters, if they were looked at and this one is among them.
    length: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct WaitReporter<'a> {
    request: &'a LockRequest,
    locks: Locks,
    events: Events,
    began: Instant,
    /// How long a silent store is asked; `None`: without a limit.
    outage_limit: Option<Duration>,
    wait: Option<Wait>,
    told: Option<(Key, Owner)>,
    /// When the last line was written, and for which key.
    written: Option<(Instant, Key)>,
    silent_since: Option<Instant>,
    /// The last fault of the store since then.
    fault: Option<Fault>,
    silence_told: bool,
    may_rewrite: bool,
}

impl<'a> WaitReporter<'a> {
    /// Created before the request, so that nothing is missed.
    pub(crate) fn of(
        request: &'a LockRequest,
        locks: &Locks,
        began: Instant,
        outage_limit: Option<Duration>,
    ) -> Self {
        Self {
            request,
            locks: locks.clone(),
            events: locks.events(),
            began,
            outage_limit,
            wait: None,
            told: None,
            written: None,
            silent_since: Some(Instant::now()),
            fault: None,
            silence_told: false,
            may_rewrite: !request.quiet && !is_dumb() && io::stderr().is_terminal(),
        }
    }

    pub(crate) async fn go_on(mut self) -> Infallible {
        let mut frame = Instant::now() + FRAME;
        loop {
            tokio::select! {
                biased;
                happened = self.events.next() => match happened {
                    Some(happened) => self.learn(happened),
                    None => return pending().await,
                },
                () = sleep_until(frame.into()) => {
                    frame = Instant::now() + FRAME;
                    self.look().await;
                    self.tell_silence();
                    self.write();
                }
            }
        }
    }

    fn learn(&mut self, happened: Change) {
        match happened {
            Change::Waiting { request, held_by, place, .. } => {
                let held_for = held_by.fence.and_then(|fence| since(fence.get()));
                self.wait = Some(Wait { holder: request.holder, held_by, held_for, place, length: None });
                self.heard();
                self.tell_programs();
                self.write();
            }
            Change::StoreFault { fault, .. } => {
                self.silent_since.get_or_insert_with(Instant::now);
                self.fault = Some(fault);
            }
            // A job reads its mark once more after it has the lock.
            Change::StoreBack { .. } | Change::Acquired { .. } => self.heard(),
            // The first try at several stores has ended, and the request goes on without its limit.
            Change::GaveUp { .. } => self.outage_limit = self.request.outage_limit(),
            _ => {}
        }
    }

    fn heard(&mut self) {
        (self.silent_since, self.fault) = (None, None);
        if std::mem::take(&mut self.silence_told) {
            say::line(format_args!("{} answers again", self.locks.store()));
        }
    }

    /// Looks at the lock, if somebody wants to know: a queued waiter is notified only of its turn.
    async fn look(&mut self) {
        let wanted = self.rewrites() || self.request.status.is_heard() || self.is_line_due();
        let Some(wait) = self.wait.as_mut().filter(|_| wanted) else { return };
        let looked = timeout(FRAME, self.locks.inspect(wait.held_by.key.as_bytes())).await;
        let Ok(Ok(state)) = looked else { return };
        wait.see(&state);
        self.tell_programs();
    }

    fn tell_programs(&mut self) {
        let Some(Wait { holder, held_by, place, held_for, .. }) = &self.wait else { return };
        let is_told = |(key, owner): &(Key, Owner)| *key == held_by.key && owner.is_same(&held_by.owner);
        if self.told.as_ref().is_some_and(is_told) {
            return;
        }
        self.told = Some((held_by.key.clone(), held_by.owner.clone()));
        self.request.status.asks_as(*holder);
        self.request.status.tell(Event::Waiting {
            key: &held_by.key,
            held_by: &held_by.owner.to_string(),
            held_ms: held_for.map(millis),
            place: *place,
            remaining_ms: held_by.remaining.map(millis),
        });
    }

    fn tell_silence(&mut self) {
        let silent = self.silent_since.is_some_and(|since| since.elapsed() >= SILENCE);
        if silent && !self.silence_told && !self.request.quiet {
            self.silence_told = true;
            match &self.fault {
                // The store answers but does not vote yet.
                Some(fault) if fault.kind == FaultKind::Quarantined => {
                    say::abstention(self.locks.store(), fault);
                }
                fault => say::silence(self.locks.store(), fault.as_ref(), self.outage_limit),
            }
        }
    }

    fn write(&mut self) {
        let Some(wait) = &self.wait else { return };
        if self.rewrites() {
            // Some terminals have no size: they report zero columns.
            let columns = tcgetwinsize(io::stderr()).map_or(0, |size| size.ws_col);
            let width = if columns == 0 { 80 } else { usize::from(columns.max(20)) };
            // In the last column, a terminal begins a new line.
            return say::rewrite(wait.line(self.began.elapsed(), width - 1 - say::PREFIX.len()));
        }
        if self.is_line_due() {
            say::line(wait.line(self.began.elapsed(), usize::MAX));
            self.written = Some((Instant::now(), wait.held_by.key.clone()));
        }
    }

    /// Returns true if the line on the terminal may be rewritten. In the background it is the shell's, and
    /// somebody may be typing on it.
    fn rewrites(&self) -> bool {
        self.may_rewrite && tcgetpgrp(io::stderr()).map_or(true, |group| group == getpgrp())
    }

    fn is_line_due(&self) -> bool {
        let Some(wait) = self.wait.as_ref().filter(|_| !self.rewrites() && !self.request.quiet) else {
            return false;
        };
        let last = self.written.as_ref().map(|(at, last)| (at.elapsed(), *last == wait.held_by.key));
        is_due(self.request.is_aloud(), self.began.elapsed(), last)
    }
}

/// True if a line is due in a log after this wait, and this long after a last line about this or
/// another key. With `aloud`, even a short wait is logged.
fn is_due(aloud: bool, waited: Duration, last: Option<(Duration, bool)>) -> bool {
    match last {
        None => aloud || waited >= FRAME,
        Some((_, false)) if aloud => true,
        Some((ago, _)) => ago >= BETWEEN_LINES,
    }
}

impl Drop for WaitReporter<'_> {
    fn drop(&mut self) {
        say::clear();
    }
}

impl Wait {
    fn see(&mut self, state: &KeyState) {
        let same = state.holders.iter().find(|holding| holding.owner.is_same(&self.held_by.owner));
        // The lock may be ours already, while replicas have still to confirm it.
        let is_ours = |holder: Holder| holder.is_same_attempt(self.holder);
        let mut others = state.holders.iter().filter(|held| !held.owner.holder().is_some_and(is_ours));
        if let Some(holding) = same.or_else(|| others.next()) {
            self.held_by = holding.clone();
            self.held_for = state.held_for(holding);
        }
        let place = state.waiters.iter().zip(1..).find(|(waiter, _)| is_ours(waiter.holder));
        // It may just have left the queue, because the lock was handed to it.
        self.length = place.map(|_| state.waiters.len());
        self.place = place.map(|(_, place)| place).or(self.place);
    }

    /// The text for people. The holder is shortened to fit the width, so nothing is left to escape.
    fn line(&self, waited: Duration, width: usize) -> String {
        let held_for =
            self.held_for.map_or_else(String::new, |held_for| format!(" for {}", time::shown(held_for)));
        let place = match (self.place, self.length) {
            (Some(place), Some(length)) => format!("place {place} of {length}, "),
            (Some(place), None) => format!("place {place} in the queue, "),
            (None, _) => String::new(),
        };
        let key = plain(&self.held_by.key.to_string());
        let before = format!("waiting for {key}, held by ");
        let behind = format!("{held_for}; {place}waited {}", time::shown(waited));
        let room = width.saturating_sub(before.chars().count() + behind.chars().count()).max(10);
        let owner = plain(&self.held_by.owner.to_string());
        cut_amid(&(before + &cut_amid(&owner, room) + &behind), width)
    }
}

/// The time since a reading of the store's clock, by our clock, because the store's is unknown.
pub(crate) fn since(micros: u64) -> Option<Duration> {
    SystemTime::now().duration_since(UNIX_EPOCH).ok()?.checked_sub(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use leasehold::{Label, Waiter};

    use super::*;

    const US: Holder = Holder::from_bits(2 << 96);

    fn wait() -> Wait {
        let key = Key::new("deploy").unwrap();
        let label = Label::new("ada@web-3:4711 deploy").ok();
        let owner = Owner::Holder { holder: Holder::from_bits(1 << 96), label };
        let held_by = HolderInfo::exclusive(key, owner, None, None);
        Wait { holder: US, held_by, held_for: None, place: Some(3), length: None }
    }

    #[test]
    fn a_log_has_a_line_once_a_wait_is_long_and_then_one_each_half_minute() {
        let seconds = Duration::from_secs;
        assert!(!is_due(false, Duration::from_millis(999), None) && is_due(false, seconds(1), None));
        assert!(is_due(true, Duration::ZERO, None));
        for aloud in [false, true] {
            assert!(!is_due(aloud, seconds(31), Some((seconds(29), true))));
            assert!(is_due(aloud, seconds(31), Some((seconds(30), true))));
        }
        assert!(is_due(true, seconds(3), Some((seconds(2), false))), "another key is in the way");
        assert!(!is_due(false, seconds(3), Some((seconds(2), false))));
    }

    #[test]
    fn the_status_shows_the_holder_the_time_and_the_number_of_waiters_ahead() {
        let mut wait = wait();
        let waited = Duration::from_secs(64);
        assert_eq!(
            wait.line(waited, usize::MAX),
            "waiting for deploy, held by ada@web-3:4711 deploy (00000001); place 3 in the queue, waited 1m04s"
        );
        let line =
            [1, 3, 2].map(|bits| Waiter::exclusive(Holder::from_bits(bits << 96), None, Duration::ZERO));
        wait.see(&KeyState::new(wait.held_by.key.clone(), vec![wait.held_by.clone()], line.to_vec()));
        wait.held_for = Some(Duration::from_secs(724));
        let shown = wait.line(waited, usize::MAX);
        assert!(shown.ends_with("(00000001) for 12m04s; place 3 of 3, waited 1m04s"), "{shown}");
        let narrow = wait.line(waited, 79);
        assert_eq!(narrow.chars().count(), 79, "{narrow}");
        assert!(
            narrow.ends_with(" for 12m04s; place 3 of 3, waited 1m04s") && narrow.contains('…'),
            "{narrow}"
        );
        assert_eq!(wait.line(waited, 10).chars().count(), 10);
        // What is escaped needs its room too.
        let mut hidden = wait.clone();
        hidden.held_by.key = Key::new("\u{202e}".repeat(30)).unwrap();
        let line = hidden.line(waited, 79);
        assert!(line.chars().count() <= 79 && !line.contains('\u{202e}'), "{line}");
        // Regression: a log said `place 3 of 0` of a waiter that had just been handed the lock.
        wait.see(&KeyState::new(wait.held_by.key.clone(), vec![wait.held_by.clone()], Vec::new()));
        assert!(wait.line(waited, usize::MAX).contains("; place 3 in the queue, "));
        // Regression: a waiter whose grant was not confirmed by replicas yet waited for itself.
        let us = Owner::Holder { holder: US, label: None };
        let ours = HolderInfo::exclusive(wait.held_by.key.clone(), us, None, None);
        wait.see(&KeyState::new(wait.held_by.key.clone(), vec![ours], Vec::new()));
        assert!(wait.line(waited, usize::MAX).contains("held by ada@web-3"));
    }

    /// Regression: a waiter in the queue of another member, with another id, was not found.
    #[test]
    fn a_waiter_of_a_quorum_is_found_by_its_id_at_any_member() {
        let mut wait = wait();
        let us = Waiter::exclusive(Holder::from_bits(US.bits() + 1), None, Duration::ZERO);
        let other = Waiter::exclusive(Holder::from_bits(3 << 96), None, Duration::ZERO);
        wait.see(&KeyState::new(wait.held_by.key.clone(), vec![wait.held_by.clone()], vec![us, other]));
        assert_eq!((wait.place, wait.length), (Some(1), Some(2)));
    }
}
