//! The queue of Linux, which needs no signal handlers, and says who sent a signal: that
//! distinguishes Ctrl-C from `kill -INT`.

use std::future::pending;
use std::io::ErrorKind;
use std::os::fd::AsFd as _;

use nix::errno::Errno;
use nix::libc::SI_KERNEL;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as Named, raise};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::io::Errno as SystemError;
use rustix::process::{Pid, Signal, WaitOptions, wait};
use tokio::net::unix::pipe;

use super::{ATTENDED, Event, PASSED_ON, Sender};
use crate::exit::Failure;

#[derive(Debug)]
pub(super) struct Queue {
    signals: SignalFd,
    /// A second descriptor of the queue, on which the runtime waits: it is read like a pipe.
    waiting: pipe::Receiver,
}

impl Queue {
    /// The queue, and the signals that were blocked before.
    pub(super) fn begin() -> Result<(Self, u64), Failure> {
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
        let signals = SignalFd::with_flags(&kept, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
        let signals = signals.map_err(failed)?;
        let waiting = signals.as_fd().try_clone_to_owned().and_then(pipe::Receiver::from_owned_fd_unchecked);
        let waiting = waiting.map_err(Failure::no_runtime)?;
        Ok((Self { signals, waiting }, blocked_before))
    }

    /// Discards signals that came already. Returns true if one of them continued us.
    pub(super) fn forget(&mut self) -> bool {
        let mut continued = false;
        while let Ok(Some(come)) = self.signals.read_signal() {
            continued |= come.ssi_signo == Signal::CONT.as_raw().unsigned_abs();
        }
        continued
    }

    /// The next event. Cancel safe.
    pub(super) async fn next(&mut self) -> Event {
        loop {
            // This fails only when the runtime shuts down, and then we end too.
            if self.waiting.readable().await.is_err() {
                return pending().await;
            }
            let read = || self.signals.read_signal()?.ok_or_else(|| ErrorKind::WouldBlock.into());
            let Ok(come) = self.waiting.try_io(read) else { continue };
            let process = || Pid::from_raw(come.ssi_pid.cast_signed());
            let from = if come.ssi_code == SI_KERNEL { Sender::Terminal } else { Sender::Process(process()) };
            let is = |signal: &Signal| signal.as_raw().unsigned_abs() == come.ssi_signo;
            if is(&Signal::CHILD) {
                // The first process of a container inherits all orphans.
                while matches!(wait(WaitOptions::NOHANG), Ok(Some(_)) | Err(SystemError::INTR)) {}
            } else if is(&Signal::CONT) {
                return Event::Continued;
            } else if is(&Signal::TSTP) {
                return Event::Stop { from };
            } else if let Some(signal) = PASSED_ON.into_iter().find(is) {
                return Event::Action { signal, from };
            }
        }
    }
}

/// Stops us as this signal would, until somebody continues us, if anybody could.
pub(crate) fn stop(signal: Signal) {
    let Some(signal) = named(signal) else { return };
    // To this thread: another one might take a signal to the process a moment later.
    let _ = raise(signal);
    // If it is blocked, it is pending, and is delivered now.
    let all: SigSet = [signal].into_iter().collect();
    if let Ok(kept) = all.thread_swap_mask(SigmaskHow::SIG_UNBLOCK) {
        let _ = kept.thread_set_mask();
    }
}

/// Returns true if our parent made us ignore this signal.
pub(super) fn is_ignored(signal: Signal) -> bool {
    bits("SigIgn") & bit(signal) != 0
}

/// The signals in a line of proc(5) `status`, the lowest bit for signal 1; zero without /proc.
pub(crate) fn bits(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let bits = status.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':'));
    bits.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
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

    /// The standard library makes every Rust program ignore SIGPIPE.
    #[test]
    fn ignored_signals_are_known() {
        assert_ne!(bits("SigIgn") & bit(Signal::PIPE), 0);
        assert_eq!(bits("SigIgn") & bit(Signal::KILL), 0);
    }

    #[test]
    fn blocked_signals_are_known_and_can_be_blocked_again() {
        let some: SigSet = [Named::SIGUSR2, Named::SIGHUP].into_iter().collect();
        some.thread_block().unwrap();
        let blocked = bits("SigBlk");
        some.thread_unblock().unwrap();
        assert_eq!(blocked, bit(Signal::USR2) | bit(Signal::HUP));
        assert_eq!(crate::signals::set_of(blocked), some);
    }
}
