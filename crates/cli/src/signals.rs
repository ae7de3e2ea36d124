//! The signals that we are sent: kept in a queue and read from there, never handlers of ours.
//!
//! A queue says who sent a signal, which tells a Ctrl-C from a `kill -INT`. And a stop that waits in it is ours to obey when
//! the command has obeyed it, not before.

use std::future::pending;
use std::io::ErrorKind;
use std::os::fd::AsFd as _;

use leasehold::Locks;
use nix::errno::Errno;
use nix::libc::SI_KERNEL;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as Named, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::process::{Pid, Signal};
use tokio::net::unix::pipe;

use crate::exit::Failure;
use crate::supervisor;

/// What asks a program to end, and what it may have made its own meaning for.
pub(crate) const PASSED_ON: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// What else we read: that we are to stop, that we go on, and that a child has ended.
const ATTENDED: [Signal; 3] = [Signal::TSTP, Signal::CONT, Signal::CHILD];

/// Keeps the signals that we pass on from ending us, from its making to our end.
#[derive(Debug)]
pub(crate) struct Signals {
    queue: SignalFd,
    /// The same queue once more, for the runtime to wait at: it is read as a pipe is.
    waiting: pipe::Receiver,
    blocked_before: u64,
    locks: Option<Locks>,
}

/// What came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// One of [`PASSED_ON`].
    Wish { signal: Signal, from: Sender },
    /// We are to stop.
    Stop { from: Sender },
    /// We go on after a stop.
    Continued,
}

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The kernel, at the wish of whoever typed Ctrl-C: all of the terminal's foreground group was sent it.
    Terminal,
    /// A process; without a number if it is in another namespace.
    Process(Option<Pid>),
}

impl Signals {
    /// Keeps them, but for those that whoever started us has us ignore (`nohup`): the command then ignores them too.
    ///
    /// To be called before there are other threads, which could else be sent them instead of us.
    pub(crate) fn catch() -> Result<Self, Failure> {
        let ignored = bits("SigIgn");
        let blocked_before = bits("SigBlk");
        let kept: SigSet = PASSED_ON
            .into_iter()
            .filter(|signal| ignored & bit(*signal) == 0)
            .chain(ATTENDED)
            .filter_map(named)
            .collect();
        let failed = |error: Errno| Failure::no_runtime(error.into());
        kept.thread_swap_mask(SigmaskHow::SIG_BLOCK).map_err(failed)?;
        let queue = SignalFd::with_flags(&kept, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        let queue = queue.map_err(failed)?;
        let waiting = queue.as_fd().try_clone_to_owned().and_then(pipe::Receiver::from_owned_fd_unchecked);
        let waiting = waiting.map_err(Failure::no_runtime)?;
        Ok(Self { queue, waiting, blocked_before, locks: None })
    }

    /// These locks are used from now on: we are stopped only while nothing is half done there, as that could keep others out.
    pub(crate) fn mind(&mut self, locks: &Locks) {
        self.locks = Some(locks.clone());
    }

    /// The signals that whoever started us had blocked, a bit for each: the command begins with them blocked.
    pub(crate) const fn blocked_before(&self) -> u64 {
        self.blocked_before
    }

    /// The next that is to be passed on, for as long as there is no command: a stop is obeyed here.
    ///
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        loop {
            match self.next_event().await {
                Event::Wish { signal, .. } => return signal,
                Event::Stop { .. } => self.stop(Signal::TSTP),
                Event::Continued => {}
            }
        }
    }

    /// Stops us as this signal would, until somebody has us go on, and keeps nobody from the store by that.
    pub(crate) fn stop(&self, signal: Signal) {
        match &self.locks {
            Some(locks) => locks.at_rest(move || stop(signal)),
            None => stop(signal),
        }
    }

    /// Forgets what came already: whoever typed Ctrl-C meant the command, which has ended of it, and not the release.
    pub(crate) fn forget(&mut self) {
        while let Ok(Some(_)) = self.queue.read_signal() {}
    }

    /// Whatever comes next.
    ///
    /// Cancel safe.
    pub(crate) async fn next_event(&mut self) -> Event {
        loop {
            // Fails only when the runtime shuts down, and we with it.
            if self.waiting.readable().await.is_err() {
                return pending().await;
            }
            let read = || self.queue.read_signal()?.ok_or_else(|| ErrorKind::WouldBlock.into());
            let Ok(come) = self.waiting.try_io(read) else { continue };
            let process = || Pid::from_raw(come.ssi_pid.cast_signed());
            let from = if come.ssi_code == SI_KERNEL { Sender::Terminal } else { Sender::Process(process()) };
            let is = |signal: &Signal| signal.as_raw().unsigned_abs() == come.ssi_signo;
            if is(&Signal::CHILD) {
                // The first process of a container is given all orphans. Nobody waits for our children but by other news.
                supervisor::reap_all();
            } else if is(&Signal::CONT) {
                return Event::Continued;
            } else if is(&Signal::TSTP) {
                return Event::Stop { from };
            } else if let Some(signal) = PASSED_ON.into_iter().find(is) {
                return Event::Wish { signal, from };
            }
        }
    }
}

/// Stops us as this signal would, until somebody has us go on. Returns at once where the kernel lets nobody be stopped whom
/// nobody could continue.
pub(crate) fn stop(signal: Signal) {
    let Some(signal) = named(signal) else { return };
    // To this thread, which goes no further: another might take a signal to the process a moment later.
    let _ = raise(signal);
    // It waits, if we keep it from ourselves, and comes now.
    let all: SigSet = [signal].into_iter().collect();
    if let Ok(kept) = all.thread_swap_mask(SigmaskHow::SIG_UNBLOCK) {
        let _ = kept.thread_set_mask();
    }
}

/// The signals of a line of proc(5) `status`, a bit for each, the first for signal 1. None where there is no /proc.
pub(crate) fn bits(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let bits = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

/// The same, as a set. The signals without a name, those of programs with real-time needs, are left out.
pub(crate) fn set_of(bits: u64) -> SigSet {
    Named::iterator().filter(|signal| bits >> (*signal as u32 - 1) & 1 == 1).collect()
}

pub(crate) fn bit(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

fn named(signal: Signal) -> Option<Named> {
    Named::try_from(signal.as_raw()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library has every Rust program ignore SIGPIPE.
    #[test]
    fn what_is_ignored_is_known() {
        assert_ne!(bits("SigIgn") & bit(Signal::PIPE), 0);
        assert_eq!(bits("SigIgn") & bit(Signal::KILL), 0);
    }

    #[test]
    fn what_is_blocked_is_known_and_can_be_blocked_again() {
        let some: SigSet = [Named::SIGUSR2, Named::SIGHUP].into_iter().collect();
        some.thread_block().unwrap();
        let blocked = bits("SigBlk");
        some.thread_unblock().unwrap();
        assert_eq!(blocked, bit(Signal::USR2) | bit(Signal::HUP));
        assert_eq!(set_of(blocked), some);
    }
}
