//! While the command runs: its supervisor is told of each renewal and of a loss, and signals are passed on.

use std::pin::pin;
use std::time::Duration;

use leasehold::{Held, Loss};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::command::Command;
use crate::signals::{Event, Sender, Signals};
use crate::supervisor::{self, Order, Outcome};

/// How the command ended, and why it had to, if it had to.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if nobody can tell.
    pub(crate) outcome: Option<Outcome>,
    pub(crate) doom: Option<Doom>,
}

/// Why the command had to end.
#[derive(Clone, Debug)]
pub(crate) enum Doom {
    /// The lease was lost.
    Lost(Loss),
    /// The lease was about to end: renewals failed, or took too long.
    Foreseen,
    /// The lease was about to end: we were stopped.
    Stopped,
    /// It held the lock for so long, which was all that it was allowed.
    HeldTooLong(Duration),
    /// Somebody killed the supervisor.
    Unminded,
}

/// A second wish to end within this time is meant: whoever presses Ctrl-C twice has seen that once was not enough.
const IMPATIENCE: Duration = Duration::from_secs(2);

/// Timers count on a clock that stands still while the machine sleeps, and a lease does not: so look each second.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// How often to look whether the supervisor was stopped while it kills.
const SHORT_NAP: Duration = Duration::from_millis(5);

/// Waits until the command has ended.
///
/// A lease that is about to end gives it the grace from SIGTERM to SIGKILL, so that it is gone by then; the supervisor sees to
/// that by itself. One that was lost without notice (deleted, taken) gives it that time too: the lock is gone in any case, and
/// work ended in good order leaves less to mend.
///
/// One that has held the lock for `max_hold` is told to end as well, and the lease is renewed until all of it is gone: what cannot be
/// killed must not run beside the next holder.
///
/// A supervisor that does nothing, because somebody stopped it, is given half of the time that was meant for dying; then we do
/// its work.
pub(crate) async fn watch(
    command: &mut Command,
    held: &Held,
    signals: &mut Signals,
    max_hold: Option<Duration>,
) -> Ended {
    let mut lost = pin!(held.lost());
    let mut loss = None;
    let mut held_too_long = None;
    let mut last_wish = None;
    let mut stopped = false;
    let mut unminded_by_us = false;
    let mut gone_by = u64::MAX;
    // What was told to end by then is not given longer by a renewal.
    let mut told_by = u64::MAX;
    let report = loop {
        // Asked for before the end is read, so that none is missed in between.
        let renewed = held.renewed();
        let now = supervisor::now();
        let left = held.remaining();
        if !left.is_zero() {
            gone_by = command.may_last(now, left);
        }
        let allowed = max_hold.map_or(Duration::MAX, |max_hold| max_hold.saturating_sub(held.held_for()));
        if allowed.is_zero() && held_too_long.is_none() {
            told_by = command.must_end(Order::Lost);
            held_too_long = max_hold;
        }
        let overdue = gone_by.min(told_by).saturating_add(command.dying() / 2);
        let rest = match Duration::from_nanos(overdue.saturating_sub(now)) {
            // Its supervisor kills what can be killed within milliseconds. What cannot be may take hours.
            Duration::ZERO if now - overdue > SECOND => LONGEST_NAP,
            rest => rest.max(SHORT_NAP),
        };
        let nap = if held_too_long.is_none() { rest.min(allowed) } else { rest }.min(LONGEST_NAP);
        tokio::select! {
            biased;
            news = command.news() => match news {
                Ok(stop) => stopped |= command.follow(stop, signals),
                Err(report) => break report,
            },
            why = &mut lost, if loss.is_none() => {
                let without_notice = matches!(why, Loss::Broken { .. } | Loss::Gone { .. } | Loss::TakenByOther { .. });
                let order = if without_notice { Order::Lost } else { Order::Kill };
                told_by = told_by.min(command.must_end(order));
                loss = Some(why);
            }
            () = renewed => stopped = false,
            event = signals.next_event() => stopped |= attend(command, event, signals, &mut last_wish),
            () = sleep(nap) => if supervisor::now() >= overdue && command.kill_if_unminded() {
                unminded_by_us = true;
                break None;
            },
        }
    };
    signals.forget();
    let doom = match (report, loss, held_too_long) {
        (_, Some(loss), _) => Some(Doom::Lost(loss)),
        (None, None, _) if !unminded_by_us => Some(Doom::Unminded),
        (Some(report), None, _) if !report.doomed => None,
        (_, None, Some(max_hold)) => Some(Doom::HeldTooLong(max_hold)),
        (_, None, None) if stopped => Some(Doom::Stopped),
        (_, None, None) => Some(Doom::Foreseen),
    };
    if doom.is_some() {
        command.mend_terminal();
    }
    Ended { outcome: report.map(|report| report.outcome), doom }
}

/// Does what a signal is for. Says whether we were stopped.
fn attend(command: &Command, event: Event, signals: &Signals, last_wish: &mut Option<Instant>) -> bool {
    let has_it = |from| command.shares_the_terminal() && from == Sender::Terminal;
    match event {
        Event::Wish { signal: Signal::INT | Signal::QUIT, from } if has_it(from) => {}
        Event::Wish { signal, .. } => pass_on(command, signal, last_wish),
        // We stop when it has: it may have to put the screen in order first, or not mean to stop at all.
        Event::Stop { from } if has_it(from) || command.stops_itself(from) => {}
        Event::Stop { .. } if command.shares_the_terminal() => command.suspend(),
        Event::Stop { .. } => {
            command.stop(signals);
            return true;
        }
        Event::Continued => {
            command.go_on();
            return true;
        }
    }
    false
}

fn pass_on(command: &Command, signal: Signal, last_wish: &mut Option<Instant>) {
    let now = Instant::now();
    if matches!(signal, Signal::INT | Signal::TERM) {
        if last_wish.is_some_and(|last| now - last < IMPATIENCE) {
            return command.order(Order::Kill);
        }
        *last_wish = Some(now);
    }
    command.order(Order::Signal(signal));
}
