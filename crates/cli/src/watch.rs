//! While the command runs: its minder is told of each renewal and of a loss, and signals are passed on.

use std::pin::pin;
use std::time::Duration;

use leasehold::{Held, Loss};
use rustix::process::Signal;
use tokio::time::Instant;

use crate::command::{Command, ProcessGroup};
use crate::minder::{self, Order, Outcome};
use crate::signals::Signals;

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
    /// Somebody killed the minder.
    Unminded,
}

/// A second wish to end within this time is meant: whoever presses Ctrl-C twice has seen that once was not enough.
const IMPATIENCE: Duration = Duration::from_secs(2);

/// Waits until the command has ended.
///
/// A lease that is about to end gives it the grace from SIGTERM to SIGKILL, so that it is gone by then; the minder sees to
/// that by itself. One that was lost without notice (deleted, taken) gives it that time too: the lock is gone in any case, and
/// work ended in good order leaves less to mend.
pub(crate) async fn watch(command: &mut Command, held: &Held, signals: &mut Signals) -> Ended {
    let mut lost = pin!(held.lost());
    let mut loss = None;
    let mut last_wish = None;
    let report = loop {
        // Asked for before the end is read, so that none is missed in between.
        let renewed = held.renewed();
        let now = minder::now();
        let left = held.remaining();
        if !left.is_zero() {
            command.may_last(now, left);
        }
        tokio::select! {
            biased;
            report = command.ended() => break report,
            why = &mut lost, if loss.is_none() => {
                let without_notice = matches!(why, Loss::Gone { .. } | Loss::TakenByOther { .. });
                command.order(if without_notice { Order::Lost } else { Order::Kill });
                loss = Some(why);
            }
            () = renewed => {}
            signal = signals.next() => pass_on(command, signal, &mut last_wish),
        }
    };
    let doom = match (report, loss) {
        (_, Some(loss)) => Some(Doom::Lost(loss)),
        (None, None) => Some(Doom::Unminded),
        (Some(report), None) => report.doomed.then_some(Doom::Foreseen),
    };
    Ended { outcome: report.map(|report| report.outcome), doom }
}

fn pass_on(command: &Command, signal: Signal, last_wish: &mut Option<Instant>) {
    if command.place() == ProcessGroup::Terminal && matches!(signal, Signal::INT | Signal::QUIT) {
        return;
    }
    let now = Instant::now();
    if matches!(signal, Signal::INT | Signal::TERM) {
        if last_wish.is_some_and(|last| now - last < IMPATIENCE) {
            return command.order(Order::Kill);
        }
        *last_wish = Some(now);
    }
    command.signal(signal);
}
