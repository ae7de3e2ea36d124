//! The queue of macOS and FreeBSD: tokio's, by signal handlers. It does not say who sent a signal,
//! which makes no difference to a command in its own process group.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use rustix::process::{Pid, Signal, getpid, kill_process};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use super::{ATTENDED, Event, PASSED_ON, Sender};
use crate::exit::Failure;

#[derive(Debug)]
pub(super) struct Queue(Vec<(Signal, Stream)>);

impl Queue {
    /// The queue, and the signals that were blocked before, which this kernel does not report.
    pub(super) fn begin() -> Result<(Self, u64), Failure> {
        let streams = PASSED_ON.into_iter().chain(ATTENDED).map(|which| {
            let stream = signal(SignalKind::from_raw(which.as_raw()));
            stream.map(|stream| (which, stream)).map_err(Failure::no_runtime)
        });
        Ok((Self(streams.collect::<Result<_, _>>()?), 0))
    }

    /// Discards signals that came already. Returns true if one of them continued us.
    pub(super) fn forget(&mut self) -> bool {
        let mut nobody = Context::from_waker(Waker::noop());
        let mut continued = false;
        while let Poll::Ready(signal) = self.poll_next(&mut nobody) {
            continued |= signal == Signal::CONT;
        }
        continued
    }

    /// The next event. Cancel safe.
    pub(super) async fn next(&mut self) -> Event {
        let from = Sender::Process(None::<Pid>);
        loop {
            match poll_fn(|context| self.poll_next(context)).await {
                Signal::CONT => return Event::Continued,
                Signal::TSTP => return Event::Stop { from },
                signal if PASSED_ON.contains(&signal) => return Event::Action { signal, from },
                _ => {}
            }
        }
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Signal> {
        for (signal, stream) in &mut self.0 {
            if stream.poll_recv(context).is_ready() {
                return Poll::Ready(*signal);
            }
        }
        Poll::Pending
    }
}

/// This kernel does not say which signals we ignore.
pub(super) const fn is_ignored(_: Signal) -> bool {
    false
}

/// Stops us until somebody continues us.
pub(crate) fn stop(_: Signal) {
    let _ = kill_process(getpid(), Signal::STOP);
}
