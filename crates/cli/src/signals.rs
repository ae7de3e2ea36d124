//! The signals that we pass on.

use std::future::poll_fn;
use std::task::Poll;

use nix::sys::signal::SigSet;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

use crate::exit::Failure;

/// What asks a program to end, and what it may have made its own meaning for.
pub(crate) const PASSED_ON: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// Catches the signals that we pass on, from its making to our end.
#[derive(Debug)]
pub(crate) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Catches them, but for those that whoever started us has us ignore (`nohup`): the command then ignores them too.
    pub(crate) fn catch() -> Result<Self, Failure> {
        // Blocked, they would never come. It is the command's, too, to begin with none blocked.
        let _ = SigSet::all().thread_unblock();
        let ignored = ignored();
        let is_ignored = |signal: Signal| ignored >> (signal.as_raw() - 1) & 1 == 1;
        if is_ignored(Signal::CHILD) {
            // The kernel would throw away how the command ended.
            let _ = catch(Signal::CHILD)?;
        }
        let caught = PASSED_ON.into_iter().filter(|signal| !is_ignored(*signal));
        Ok(Self(caught.map(|signal| Ok((signal, catch(signal)?))).collect::<Result<_, Failure>>()?))
    }

    /// The next that comes.
    ///
    /// Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            let come = self
                .0
                .iter_mut()
                .find_map(|(signal, caught)| caught.poll_recv(context).is_ready().then_some(*signal));
            come.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

fn catch(signal: Signal) -> Result<unix::Signal, Failure> {
    unix::signal(SignalKind::from_raw(signal.as_raw())).map_err(Failure::no_runtime)
}

/// The signals that we ignore, a bit for each, the first for signal 1: proc(5), `SigIgn`. None where there is no /proc.
pub(crate) fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library has every Rust program ignore SIGPIPE.
    #[test]
    fn what_is_ignored_is_known() {
        assert_eq!(ignored() >> (Signal::PIPE.as_raw() - 1) & 1, 1);
    }
}
