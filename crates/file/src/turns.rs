//! Who serves a request: the task that asks, here and now, or the store's thread. Decided from what was asked before; it reads no
//! clock.

use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tokio::task;

/// The longest that a transaction on the thread of whoever asks should take: some fifty times what it takes when nothing is wrong.
const SLOW: Duration = Duration::from_millis(1);

/// For how many times as long as it took, none is done there after one that was slow. So a disk that stalls takes a hundredth of the
/// time of a program's other tasks at most.
const SPARED: u32 = 100;

/// Two callers that ask within this time keep each other waiting if all is done on the threads that they run on. Twice what a
/// transaction takes, and less than what is lost by having it done elsewhere.
const SIDE_BY_SIDE: Duration = Duration::from_micros(50);

/// Who asks: a task of tokio's, or a thread of another runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Task(task::Id),
    Thread(ThreadId),
}

impl Caller {
    /// The one that runs now.
    pub(crate) fn current() -> Self {
        task::try_id().map_or_else(|| Self::Thread(thread::current().id()), Self::Task)
    }
}

/// Who asked last, and how it went.
#[derive(Debug)]
pub(crate) struct Turns {
    /// When its request was served, or refused here.
    asked: Option<(Caller, Instant)>,
    spared_until: Instant,
}

impl Turns {
    pub(crate) fn new(now: Instant) -> Self {
        Self { asked: None, spared_until: now }
    }

    /// Whether a caller may serve its own request now: nobody else asks at the same time, and the last ones were fast.
    pub(crate) fn admit(&mut self, caller: Caller, now: Instant) -> bool {
        let asked_before = self.asked.replace((caller, now));
        let is_alone = asked_before.is_none_or(|(other, at)| other == caller || now - at > SIDE_BY_SIDE);
        is_alone && now >= self.spared_until
    }

    /// Who was admitted has served its request, or found that it would have to wait.
    pub(crate) fn ended(&mut self, admitted: Instant, now: Instant) {
        self.asked = self.asked.map(|(caller, _)| (caller, now));
        let took = now - admitted;
        if took > SLOW {
            self.spared_until = now + took * SPARED;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn two() -> [Caller; 2] {
        let other = thread::spawn(Caller::current).join().unwrap();
        [Caller::current(), other]
    }

    /// Done on the threads that they run on, all that they ask would be done one after the other.
    #[test]
    fn callers_that_ask_side_by_side_leave_it_to_the_worker() {
        let [one, other] = two();
        let begun = Instant::now();
        let mut turns = Turns::new(begun);
        let mut asks = |caller, after| {
            let admitted = turns.admit(caller, begun + micros(after));
            if admitted {
                turns.ended(begun + micros(after), begun + micros(after + 10));
            }
            admitted
        };
        assert!(asks(one, 0) && asks(one, 10), "one caller after itself");
        assert!(!asks(other, 40), "another one at the same time");
        assert!(!asks(one, 80));
        assert!(asks(one, 100) && asks(other, 200), "one after the other");
    }

    #[test]
    fn what_took_long_is_left_to_the_worker_for_a_hundred_times_as_long() {
        let [one, _] = two();
        let begun = Instant::now();
        let mut turns = Turns::new(begun);
        assert!(turns.admit(one, begun));
        let ended = begun + micros(5_000);
        turns.ended(begun, ended);
        assert!(!turns.admit(one, ended + micros(499_999)));
        assert!(turns.admit(one, ended + micros(500_000)));
    }
}
