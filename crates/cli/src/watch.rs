//! Watches the running command: tells its supervisor of each renewal and of a loss, and passes
//! signals on.

use std::pin::pin;
use std::time::Duration;

use leasehold::{Held, Loss};
use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use crate::command::Command;
use crate::signals::{Event, Sender, Signals};
use crate::supervisor::{self, Order, Outcome};

/// Why the command had to end.
#[derive(Clone, Debug)]
pub(crate) enum EndReason {
    Lost(Loss),
    /// The lease was about to end: renewals failed, or took too long.
    Foreseen,
    /// The lease was about to end, and we were stopped so long that the supervisor ended the command.
    Stopped,
    /// It held the lock for this long, which is the limit.
    HeldTooLong(Duration),
    /// Somebody killed the supervisor.
    Unminded,
}

/// A second request to end within this time is deliberate: once was not enough.
const IMPATIENCE: Duration = Duration::from_secs(2);

/// Timers use a clock that stops while the machine sleeps, and a lease does not.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// In nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// How often to check whether the supervisor was stopped while it kills.
const SHORT_NAP: Duration = Duration::from_millis(5);

/// Waits until the command has ended. Returns how, if that is known, and why, if it had to end.
///
/// The supervisor ends the command within the grace period before the end of its lease. If the lease
/// was lost without notice (deleted, taken), the command gets that time too: work that ends cleanly
/// leaves less to repair. So does one that has held the lock for `max_hold`; its lease is renewed
/// until all of it is gone, as a process that cannot be killed must not run next to the next holder.
///
/// If the supervisor was stopped, we do its work in half of the time for killing.
pub(crate) async fn watch(
    command: &mut Command,
    held: &Held,
    signals: &mut Signals,
    max_hold: Option<Duration>,
) -> (Option<Outcome>, Option<EndReason>) {
    let mut lost = pin!(held.lost());
    let mut loss = None;
    let mut held_too_long = None;
    let mut last_wish = None;
    let mut asked = false;
    let mut stopped_too_long = false;
    let mut unminded_by_us = false;
    let mut gone_by = u64::MAX;
    // A renewal does not extend the time of a command that was told to end.
    let mut told_by = u64::MAX;
    let report = loop {
        // Created before the end is read, so that no renewal is missed in between.
        let renewed = held.renewed();
        // Before a renewal that comes too late for the command, as one may just after a stop.
        asked |= command.is_asked_to_end(gone_by);
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
            // Most processes are killed within milliseconds; those that cannot be may take hours.
            Duration::ZERO if now - overdue > SECOND => LONGEST_NAP,
            rest => rest.max(SHORT_NAP),
        };
        let nap = if held_too_long.is_none() { rest.min(allowed) } else { rest }.min(LONGEST_NAP);
        let was_stopped = tokio::select! {
            biased;
            report = command.report() => match report {
                Ok(stop) => command.follow(stop, signals),
                Err(report) => break report,
            },
            why = &mut lost, if loss.is_none() => {
                let without_notice = matches!(why, Loss::Broken { .. } | Loss::Gone { .. } | Loss::TakenByOther { .. });
                let order = if without_notice { Order::Lost } else { Order::Kill };
                told_by = told_by.min(command.must_end(order));
                loss = Some(why);
                false
            }
            () = renewed => false,
            event = signals.next_event() => attend(command, event, signals, &mut last_wish),
            () = sleep(nap) => {
                unminded_by_us |= supervisor::now() >= overdue && command.kill_if_unminded();
                false
            }
        };
        stopped_too_long |= was_stopped && (asked || command.is_asked_to_end(gone_by));
    };
    stopped_too_long |= signals.forget() && (asked || command.is_asked_to_end(gone_by));
    let doom = match report {
        None if !unminded_by_us => Some(loss.map_or(EndReason::Unminded, EndReason::Lost)),
        report => {
            let doomed = report.is_none_or(|report| report.doomed);
            reason(doomed, loss, held_too_long, stopped_too_long)
        }
    };
    if doom.is_some() {
        command.mend_terminal();
    }
    (report.map(|report| report.outcome), doom)
}

/// Why the command had to end, if it had to. After a stop that was too long, the supervisor has
/// asked it to, in whatever order we learn of that and of the end of the lease, and even if that
/// can still be renewed.
fn reason(
    doomed: bool,
    loss: Option<Loss>,
    held_too_long: Option<Duration>,
    stopped_too_long: bool,
) -> Option<EndReason> {
    match (loss, held_too_long) {
        (Some(Loss::Expired { fault: None }), None) if stopped_too_long => Some(EndReason::Stopped),
        (Some(loss), _) => Some(EndReason::Lost(loss)),
        _ if !doomed => None,
        (None, Some(max_hold)) => Some(EndReason::HeldTooLong(max_hold)),
        (None, None) if stopped_too_long => Some(EndReason::Stopped),
        (None, None) => Some(EndReason::Foreseen),
    }
}

fn attend(command: &Command, event: Event, signals: &Signals, last_wish: &mut Option<Instant>) -> bool {
    let has_it = |from| command.shares_the_terminal() && from == Sender::Terminal;
    match event {
        Event::Action { signal: Signal::INT | Signal::QUIT, from } if has_it(from) => {}
        Event::Action { signal: Signal::INT | Signal::TERM, .. } if signals.is_repeated() => {}
        Event::Action { signal, .. } => pass_on(command, signal, last_wish),
        // We stop after the command, which may have to restore the screen first, or not mean to stop.
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
            command.must_end(Order::Kill);
            return;
        }
        *last_wish = Some(now);
    }
    command.order(Order::Signal(signal));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_that_ended_during_a_stop_ended_because_of_it_whichever_news_comes_first() {
        let expired = || Some(Loss::Expired { fault: None });
        assert!(matches!(reason(true, None, None, true), Some(EndReason::Stopped)));
        assert!(matches!(reason(true, expired(), None, true), Some(EndReason::Stopped)));
        assert!(matches!(reason(true, expired(), None, false), Some(EndReason::Lost(_))));
        assert!(matches!(reason(true, Some(Loss::Transferred), None, true), Some(EndReason::Lost(_))));
    }

    #[test]
    fn a_command_that_was_told_to_end_says_why_and_one_that_ended_by_itself_needs_no_reason() {
        let limit = Some(Duration::from_secs(1));
        assert!(matches!(reason(true, None, limit, true), Some(EndReason::HeldTooLong(_))));
        assert!(matches!(reason(true, None, None, false), Some(EndReason::Foreseen)));
        assert!(reason(false, None, limit, true).is_none());
    }
}
