//! While the command runs: signals are passed on to it, and it is ended when the lease is.

use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use leasehold::{Held, Loss};
use rustix::process::Signal;
use tokio::time::{Instant, sleep, sleep_until};

use crate::command::{Command, ProcessGroup};
use crate::signals::Signals;

/// How the command ended, and why it had to, if it had to.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) doom: Option<Doom>,
}

/// Why the command had to end.
#[derive(Clone, Debug)]
pub(crate) enum Doom {
    /// The lease was lost.
    Lost(Loss),
    /// The lease was about to end: renewals failed, or took too long.
    Foreseen,
}

/// A second wish to end within this time is meant: whoever presses Ctrl-C twice has seen that once was not enough.
const IMPATIENCE: Duration = Duration::from_secs(2);

/// A killed process is gone within some milliseconds, and must be by the lease's end.
const DYING: Duration = Duration::from_millis(20);

/// Waits until the command has ended.
///
/// A lease that is about to end gives it `grace` from SIGTERM to SIGKILL, so that it is gone by then. One that was lost
/// without notice (deleted, taken) gives it that time too: the lock is gone in any case, and work ended in good order leaves
/// less to mend. One that ran out unseen, while we were stopped or the machine slept, gives none.
pub(crate) async fn watch(
    command: &mut Command,
    held: &Held,
    signals: &mut Signals,
    grace: Duration,
) -> Ended {
    let mut lost = pin!(held.lost());
    let mut end = Ending::default();
    let status = loop {
        tokio::select! {
            biased;
            status = command.ended() => break status,
            loss = &mut lost, if !end.is_lost() => end.lose(command, loss, grace),
            () = left_is(held, grace), if end.doom.is_none() => {
                let left = held.remaining();
                end.doom(command, Doom::Foreseen, left.saturating_sub(DYING.min(left / 2)));
            }
            () = sleep_until(end.kill_at), if end.is_doomed() => end.kill(command),
            signal = signals.next() => end.pass_on(command, signal),
        }
    };
    while end.is_doomed() && command.has_stragglers() {
        if Instant::now() >= end.kill_at {
            end.kill(command);
        }
        // Those that are left are no children of ours, so that nothing tells us when they are gone.
        sleep(Duration::from_millis(10)).await;
    }
    Ended { status, doom: end.doom }
}

/// Resolves when no more than this is left of the lease.
async fn left_is(held: &Held, least: Duration) {
    // Timers stand still while the machine sleeps, leases do not: so look each second.
    const LONGEST_NAP: Duration = Duration::from_secs(1);
    loop {
        let spare = held.remaining().saturating_sub(least);
        if spare.is_zero() {
            return;
        }
        sleep(spare.min(LONGEST_NAP)).await;
    }
}

/// What has been done to end the command.
#[derive(Debug)]
struct Ending {
    doom: Option<Doom>,
    /// Only when doomed.
    kill_at: Instant,
    killed: bool,
    last_wish: Option<Instant>,
}

impl Default for Ending {
    fn default() -> Self {
        Self { doom: None, kill_at: Instant::now(), killed: false, last_wish: None }
    }
}

impl Ending {
    const fn is_lost(&self) -> bool {
        matches!(self.doom, Some(Doom::Lost(_)))
    }

    /// Whether a SIGKILL is to come.
    const fn is_doomed(&self) -> bool {
        self.doom.is_some() && !self.killed
    }

    fn lose(&mut self, command: &Command, loss: Loss, grace: Duration) {
        let ran_out = !matches!(loss, Loss::Gone { .. } | Loss::TakenByOther { .. });
        if self.doom.is_none() {
            self.doom(command, Doom::Lost(loss), grace);
        } else {
            self.doom = Some(Doom::Lost(loss));
        }
        if ran_out {
            self.kill(command);
        }
    }

    fn doom(&mut self, command: &Command, doom: Doom, grace: Duration) {
        self.doom = Some(doom);
        self.kill_at = Instant::now() + grace;
        command.terminate();
    }

    fn kill(&mut self, command: &Command) {
        command.signal(Signal::KILL);
        self.killed = true;
    }

    fn pass_on(&mut self, command: &Command, signal: Signal) {
        if command.place() == ProcessGroup::Terminal && matches!(signal, Signal::INT | Signal::QUIT) {
            return;
        }
        let now = Instant::now();
        let is_wish = matches!(signal, Signal::INT | Signal::TERM);
        if is_wish && self.last_wish.is_some_and(|last| now - last < IMPATIENCE) {
            return self.kill(command);
        }
        if is_wish {
            self.last_wish = Some(now);
        }
        command.signal(signal);
    }
}
