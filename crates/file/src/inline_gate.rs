//! Decides which thread serves a request: that of the requesting task, or the store's. The decision
//! depends on earlier requests; this module reads no clock.

#[cfg_attr(target_os = "linux", path = "inline_gate/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "inline_gate/bsd.rs")]
mod kernel;

use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use tokio::task;

pub(crate) use kernel::sleeps;

/// A slow transaction on a caller's thread: some fifty times its normal duration.
const SLOW: Duration = Duration::from_millis(1);

/// After a slow transaction, none runs on a caller's thread for this many times its duration: a
/// disk that stalls takes at most a hundredth of the time of a program's other tasks.
const SPARED: u32 = 100;

/// After a slow transaction, the sleeps of callers are counted for this many times its duration: a
/// thread that did not sleep has only waited for a processor. Not always, because counting makes
/// transactions slower.
const WATCHED: u32 = 10 * SPARED;

/// Two callers that ask within this time, of two transactions, would wait for each other.
const SIDE_BY_SIDE: Duration = Duration::from_micros(50);

/// The caller: a task of tokio's, or a thread of another runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    Task(task::Id),
    Thread(ThreadId),
}

impl Caller {
    pub(crate) fn current() -> Self {
        task::try_id().map_or_else(|| Self::Thread(thread::current().id()), Self::Task)
    }
}

/// Decides whether a request may run on the thread of its caller, from what the last ones cost.
#[derive(Debug)]
pub(crate) struct InlineGate {
    /// When its request was served, or refused here.
    asked: Option<(Caller, Instant)>,
    spared_until: Instant,
    watched_until: Instant,
}

impl InlineGate {
    pub(crate) fn new(now: Instant) -> Self {
        Self { asked: None, spared_until: now, watched_until: now }
    }

    /// True if a caller may serve its request now: it is alone, and the last were fast.
    pub(crate) fn admit(&mut self, caller: Caller, now: Instant) -> bool {
        let asked_before = self.asked.replace((caller, now));
        let is_alone = asked_before.is_none_or(|(other, at)| other == caller || now - at > SIDE_BY_SIDE);
        is_alone && now >= self.spared_until
    }

    /// Returns true if the sleeps in a transaction that begins now are to be counted.
    pub(crate) fn is_watching(&self, now: Instant) -> bool {
        now < self.watched_until
    }

    /// Notes that an admitted caller has served its request, or found that it would have to wait,
    /// and whether its thread has slept meanwhile, if that was counted.
    pub(crate) fn ended(&mut self, admitted: Instant, now: Instant, has_slept: impl FnOnce() -> bool) {
        self.asked = self.asked.map(|(caller, _)| (caller, now));
        let took = now - admitted;
        if took <= SLOW {
            return;
        }
        if !self.is_watching(admitted) || has_slept() {
            self.spared_until = now + took * SPARED;
        }
        self.watched_until = now + took * WATCHED;
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

    /// On their own threads, all their requests would be served one after the other.
    #[test]
    fn callers_that_ask_side_by_side_leave_it_to_the_worker() {
        let [one, other] = two();
        let begun = Instant::now();
        let mut inline_gate = InlineGate::new(begun);
        let mut asks = |caller, after| {
            let admitted = inline_gate.admit(caller, begun + micros(after));
            if admitted {
                inline_gate.ended(begun + micros(after), begun + micros(after + 10), || true);
            }
            admitted
        };
        assert!(asks(one, 0) && asks(one, 10), "one caller after itself");
        assert!(!asks(other, 40), "another one at the same time");
        assert!(!asks(one, 80));
        assert!(asks(one, 100) && asks(other, 200), "one after the other");
    }

    /// It would have waited for it elsewhere too.
    #[test]
    fn a_caller_that_waits_only_for_a_processor_serves_its_requests() {
        let [one, _] = two();
        let mut now = Instant::now();
        let mut inline_gate = InlineGate::new(now);
        inline_gate.ended(now, now + micros(5_000), || unreachable!("nobody has counted"));
        now += micros(505_000);
        for _ in 0..3 {
            assert!(inline_gate.admit(one, now) && inline_gate.is_watching(now));
            inline_gate.ended(now, now + micros(5_000), || false);
            assert!(inline_gate.admit(one, now + micros(5_000)));
            now += micros(4_999_999);
        }
        inline_gate.ended(now, now + micros(5_000), || true);
        assert!(!inline_gate.admit(one, now + micros(504_999)));
        now += micros(5_005_000);
        assert!(inline_gate.admit(one, now) && !inline_gate.is_watching(now));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_sleeps_while_it_waits_and_not_while_others_use_its_processor() {
        let before = sleeps().unwrap();
        let slept = |work: fn()| {
            let before = sleeps().unwrap();
            work();
            sleeps().unwrap() > before
        };
        assert!((0..100).any(|_| !slept(thread::yield_now)));
        assert!(slept(|| thread::sleep(micros(100))) && sleeps().unwrap() > before);
    }
}
