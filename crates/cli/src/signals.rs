//! Our signals, which are read from a queue. A stop signal in it is obeyed only after the command
//! has obeyed it.

#[cfg_attr(target_os = "linux", path = "signals/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "signals/bsd.rs")]
mod kernel;

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold::Locks;
use nix::sys::signal::{SigSet, SigmaskHow, Signal as Named};
use rustix::process::{Pid, Resource, Signal, getrlimit};

pub(crate) use self::kernel::stop;
#[cfg(target_os = "linux")]
pub(crate) use self::kernel::{bit, bits};
use crate::exit::Failure;

/// Signals that ask a program to end, or to which it may give its own meaning.
pub(crate) const PASSED_ON: [Signal; 6] =
    [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2];

/// The other signals that we read: stop, continue, and the end of a child.
const ATTENDED: [Signal; 3] = [Signal::TSTP, Signal::CONT, Signal::CHILD];

/// Blocks the signals that we pass on, so that they do not end us, until our end.
#[derive(Debug)]
pub(crate) struct Signals {
    queue: kernel::Queue,
    blocked_before: u64,
    locks: Option<Locks>,
    /// The last signal to pass on, and when it came first.
    last: Option<(Signal, Instant)>,
    /// True if the last event was that signal again.
    is_repeated: bool,
}

/// timeout(1) sends a signal to its child and to the child's group, which means it once. A person
/// takes longer to press Ctrl-C again.
const AT_ONCE: Duration = Duration::from_millis(100);

fn is_again(last: &mut Option<(Signal, Instant)>, signal: Signal, now: Instant) -> bool {
    let again = last.is_some_and(|(last, at)| last == signal && now - at < AT_ONCE);
    if !again {
        *last = Some((signal, now));
    }
    again
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// One of [`PASSED_ON`].
    Action {
        signal: Signal,
        from: Sender,
    },
    Stop {
        from: Sender,
    },
    Continued,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The kernel, because somebody typed Ctrl-C: the whole foreground group of the terminal got
    /// the signal.
    Terminal,
    /// A process; without a number if it is in another namespace.
    Process(Option<Pid>),
}

/// Starts a thread that receives no signals, which the kernel would otherwise not put into the queue.
pub(crate) fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let ours = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let started = thread::Builder::new().name(name.into()).spawn(work);
    ours.thread_set_mask()?;
    started.map(drop)
}

/// The signals with these bits, the lowest for signal 1. Those without a name, the real-time ones, are left out.
pub(crate) fn set_of(bits: u64) -> SigSet {
    Named::iterator().filter(|signal| bits >> (*signal as u32 - 1) & 1 == 1).collect()
}

/// Makes a write beyond the limit of file sizes an error, which we can explain, instead of our end.
/// The command starts as without us: exec resets a handler, and an ignored signal stays ignored.
pub(crate) fn survive_file_size_limit() {
    let is_limited = getrlimit(Resource::Fsize).current.is_some();
    if is_limited && !kernel::is_ignored(Signal::XFSZ) {
        let _ = signal_hook::flag::register(Signal::XFSZ.as_raw(), Arc::default());
    }
}

impl Signals {
    /// Starts the queue. Signals that our parent made us ignore (`nohup`) are left out, so the
    /// command ignores them too.
    ///
    /// Call this before there are other threads, except by [`start_thread`].
    pub(crate) fn catch() -> Result<Self, Failure> {
        let (queue, blocked_before) = kernel::Queue::begin()?;
        Ok(Self { queue, blocked_before, locks: None, last: None, is_repeated: false })
    }

    /// Notes that these locks are in use: we stop only between requests, to block nobody else.
    pub(crate) fn mind(&mut self, locks: &Locks) {
        self.locks = Some(locks.clone());
    }

    /// The signals that our parent had blocked, one bit each.
    pub(crate) const fn blocked_before(&self) -> u64 {
        self.blocked_before
    }

    /// The next signal to pass on, unless it is the last one again. A stop signal stops this
    /// process, as no command runs. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        loop {
            match self.next_event().await {
                Event::Action { signal, .. } if !self.is_repeated => return signal,
                Event::Stop { .. } => self.stop(Signal::TSTP),
                Event::Action { .. } | Event::Continued => {}
            }
        }
    }

    /// Stops us as this signal would, until somebody continues us, without blocking the store.
    pub(crate) fn stop(&self, signal: Signal) {
        match &self.locks {
            Some(locks) => locks.at_rest(move || stop(signal)),
            None => stop(signal),
        }
    }

    /// Discards signals that came already: Ctrl-C was meant for the command that has ended, and not
    /// for the release. Returns true if we were continued after a stop.
    pub(crate) fn forget(&mut self) -> bool {
        self.queue.forget()
    }

    /// The next event. Cancel safe.
    pub(crate) async fn next_event(&mut self) -> Event {
        let event = self.queue.next().await;
        self.is_repeated = match event {
            Event::Action { signal, .. } => is_again(&mut self.last, signal, Instant::now()),
            Event::Stop { .. } | Event::Continued => false,
        };
        event
    }

    /// True if the last event repeats the signal before it, so that it asks for nothing new.
    pub(crate) const fn is_repeated(&self) -> bool {
        self.is_repeated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_signal_within_a_tenth_of_a_second_is_one_and_later_it_is_another() {
        let (mut last, begun) = (None, Instant::now());
        for (signal, millis, again) in [
            (Signal::TERM, 0, false),
            (Signal::TERM, 99, true),
            (Signal::TERM, 100, false),
            (Signal::INT, 101, false),
            (Signal::TERM, 102, false),
        ] {
            let now = begun + Duration::from_millis(millis);
            assert_eq!(is_again(&mut last, signal, now), again, "{signal:?} {millis}");
        }
    }
}
