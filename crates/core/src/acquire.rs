//! From the first ask to the grant, or to the reason why not.

use std::time::Duration;

use crate::backoff::{Dice, jitter};
use crate::{Backoff, Drift, Fault, FaultKind, Fence, GrantAnswer, Instant, Key, Lease, Tenancy, Ttl};

/// How long a caller waits, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Patience {
    /// How long it waits for a holder to go; `None`: as long as it takes. Zero is one ask.
    pub within: Option<Duration>,
    /// How long it waits for a store that does not answer.
    pub outage_limit: Duration,
    /// The rests between asks while the lock is held.
    pub backoff: Backoff,
}

impl Patience {
    /// Waits for a holder `within`, and for a silent store up to `outage_limit`.
    #[must_use]
    pub const fn new(within: Option<Duration>, outage_limit: Duration) -> Self {
        Self { within, outage_limit, backoff: Backoff::WHILE_HELD }
    }
}

/// What to do next for an acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Ask the store for the grant, and report [`Acquire::handle_sent`] just before.
    Ask,
    /// Wait for what is under way (an answer, or a wake-up), but come back at this instant.
    WaitUntil(Instant),
    /// It is over.
    Done(Outcome),
}

/// How an acquisition ended. Unless it was granted, the attempt must be given up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The attempt holds.
    Granted {
        /// Until when it may be believed.
        lease: Lease,
        /// Its fence.
        fence: Fence,
    },
    /// Somebody else held it for as long as the caller waited.
    Busy {
        /// Who held it at the last answer; `None` if there was none.
        held_by: Option<Tenancy>,
    },
    /// The store did not answer for as long as the caller waits for a store.
    Silent {
        /// The last fault, if there was one in time.
        fault: Option<Fault>,
    },
    /// The store refuses, and would again.
    Refused(Fault),
    /// A key has something that is no lock.
    NotALock {
        /// The key.
        key: Key,
    },
    /// The fences of a key are used up.
    FencesSpent {
        /// The key.
        key: Key,
    },
}

/// The machine of one acquisition: one attempt id, asked with until it is granted or given up.
///
/// Invariant: a lease is counted from the sending of the very ask that was answered.
#[derive(Debug)]
pub struct Acquire {
    ttl: Ttl,
    drift: Drift,
    patience: Patience,
    deadline: Option<Instant>,
    dice: Dice,
    state: State,
    asks: u32,
    rests: u32,
    held_by: Option<Tenancy>,
    silence: Option<Silence>,
}

#[derive(Debug)]
enum State {
    Ready,
    Asking { sent: Instant },
    Resting { until: Instant },
    Over(Outcome),
}

/// The asks since the last answer.
#[derive(Debug)]
struct Silence {
    since: Instant,
    faults: u32,
    last: Option<Fault>,
}

impl Acquire {
    /// Begins an acquisition now. `seed` spreads its rests; it need not be secret.
    #[must_use]
    pub fn new(now: Instant, ttl: Ttl, drift: Drift, patience: Patience, seed: u64) -> Self {
        let deadline = patience.within.filter(|within| !within.is_zero()).map(|within| now + within);
        Self {
            ttl,
            drift,
            patience,
            deadline,
            dice: Dice::new(seed),
            state: State::Ready,
            asks: 0,
            rests: 0,
            held_by: None,
            silence: None,
        }
    }

    /// How often the store was asked.
    #[must_use]
    pub const fn asks(&self) -> u32 {
        self.asks
    }

    /// An ask is about to be sent.
    pub fn handle_sent(&mut self, now: Instant) {
        self.asks += 1;
        self.silence.get_or_insert(Silence { since: now, faults: 0, last: None });
        self.state = State::Asking { sent: now };
    }

    /// The ask was answered.
    pub fn handle_answer(&mut self, now: Instant, answer: GrantAnswer) {
        let State::Asking { sent } = self.state else { return };
        let silence = self.silence.take();
        self.state = match answer {
            GrantAnswer::Granted { fence } => {
                let lease = Lease::counted_from(sent, self.ttl, self.drift);
                if lease.is_held(now) {
                    State::Over(Outcome::Granted { lease, fence })
                } else {
                    // The answer outlasted its lease. The same attempt asks anew; meanwhile the store counts as silent.
                    self.silence = silence;
                    State::Ready
                }
            }
            GrantAnswer::Busy { held_by } => self.rest_while_held(now, held_by),
            GrantAnswer::TooLate { .. } => {
                self.silence = silence;
                self.rest_while_silent(now, None)
            }
            GrantAnswer::NotALock { key } => State::Over(Outcome::NotALock { key }),
            GrantAnswer::FencesSpent { key } => State::Over(Outcome::FencesSpent { key }),
        };
    }

    /// The ask ended in a fault.
    pub fn handle_fault(&mut self, now: Instant, fault: Fault) {
        if fault.kind == FaultKind::Lasting {
            self.state = State::Over(Outcome::Refused(fault));
            return;
        }
        self.state = self.rest_while_silent(now, Some(fault));
    }

    /// It is worth asking again at once.
    pub fn handle_wake(&mut self) {
        if let State::Resting { .. } = self.state {
            self.rests = 0;
            self.state = State::Ready;
        }
    }

    /// What to do next.
    pub fn next(&mut self, now: Instant) -> Step {
        if let State::Over(outcome) = &self.state {
            return Step::Done(outcome.clone());
        }
        let outage = self.silence.as_ref().map(|silence| silence.since + self.patience.outage_limit);
        if outage.is_some_and(|end| now >= end) {
            return self.over(self.silent());
        }
        if self.deadline.is_some_and(|end| now >= end) {
            // Whoever ran out of time without an answer waited for the store, not for a holder.
            let outcome = if self.held_by.is_some() { self.busy() } else { self.silent() };
            return self.over(outcome);
        }
        let limit = [self.deadline, outage].into_iter().flatten().min();
        let limit = limit.unwrap_or(Instant::from_nanos(u64::MAX));
        match self.state {
            State::Resting { until } if now < until => Step::WaitUntil(until.min(limit)),
            State::Asking { .. } => Step::WaitUntil(limit),
            _ => Step::Ask,
        }
    }

    /// Rests, but not beyond the holder's end: whoever crashed does not come to release.
    fn rest_while_held(&mut self, now: Instant, held_by: Tenancy) -> State {
        if self.patience.within == Some(Duration::ZERO) {
            return State::Over(Outcome::Busy { held_by: Some(held_by) });
        }
        let mut rest = self.patience.backoff.delay(self.rests, self.dice.roll());
        if let Some(left) = held_by.remaining {
            // A millisecond for the store's rounding; the jitter keeps the waiters of a dead holder apart.
            let spread = jitter(Duration::from_millis(10), self.dice.roll());
            rest = rest.min(left + Duration::from_millis(1) + spread);
        }
        self.rests += 1;
        self.held_by = Some(held_by);
        State::Resting { until: now + rest }
    }

    /// Rests longer each time, so that a store in trouble is not asked all the more.
    fn rest_while_silent(&mut self, now: Instant, fault: Option<Fault>) -> State {
        let silence = self.silence.get_or_insert(Silence { since: now, faults: 0, last: None });
        let rest = Backoff::WHILE_SILENT.delay(silence.faults, self.dice.roll());
        silence.faults += 1;
        silence.last = fault.or(silence.last.take());
        State::Resting { until: now + rest }
    }

    fn busy(&self) -> Outcome {
        Outcome::Busy { held_by: self.held_by.clone() }
    }

    fn silent(&self) -> Outcome {
        Outcome::Silent { fault: self.silence.as_ref().and_then(|silence| silence.last.clone()) }
    }

    fn over(&mut self, outcome: Outcome) -> Step {
        self.state = State::Over(outcome.clone());
        Step::Done(outcome)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Holder, Tenant};

    const START: Instant = Instant::from_nanos(1_000_000_000_000);
    const SECOND: Duration = Duration::from_secs(1);

    fn ttl() -> Ttl {
        Ttl::new(Duration::from_secs(10)).unwrap()
    }

    fn acquire(within: Option<Duration>) -> Acquire {
        Acquire::new(START, ttl(), Drift::NONE, Patience::new(within, 10 * SECOND), 7)
    }

    fn granted() -> GrantAnswer {
        GrantAnswer::Granted { fence: Fence::new(5).unwrap() }
    }

    fn held_for(left: Duration) -> Tenancy {
        let tenant = Tenant::Holder { holder: Holder::from_bits(1), label: None };
        Tenancy::exclusive(Key::new("k").unwrap(), tenant, None, Some(left))
    }

    fn busy(left: Duration) -> GrantAnswer {
        GrantAnswer::Busy { held_by: held_for(left) }
    }

    fn passing() -> Fault {
        Fault::passing("s", "timed out")
    }

    /// Asks now and has the answer a moment later.
    fn ask(machine: &mut Acquire, now: Instant, answer: GrantAnswer) {
        assert_eq!(machine.next(now), Step::Ask);
        machine.handle_sent(now);
        machine.handle_answer(now + Duration::from_millis(1), answer);
    }

    #[test]
    fn a_grant_is_counted_from_before_the_ask_that_gave_it() {
        let mut machine = acquire(None);
        ask(&mut machine, START, busy(SECOND));
        let Step::WaitUntil(again) = machine.next(START + Duration::from_millis(1)) else { panic!() };
        assert_eq!(machine.next(again), Step::Ask);
        machine.handle_sent(again);
        machine.handle_answer(again + 3 * SECOND, granted());
        let lease = Lease::counted_from(again, ttl(), Drift::NONE);
        let done = Outcome::Granted { lease, fence: Fence::new(5).unwrap() };
        assert_eq!(machine.next(again + 3 * SECOND), Step::Done(done));
    }

    /// node-redlock 5 hands out locks that have ended before the reply came.
    #[test]
    fn a_grant_that_comes_after_its_lease_is_not_believed_but_asked_for_anew() {
        let mut machine = Acquire::new(START, ttl(), Drift::NONE, Patience::new(None, 60 * SECOND), 7);
        machine.next(START);
        machine.handle_sent(START);
        machine.handle_answer(START + 10 * SECOND, granted());
        assert_eq!(machine.next(START + 10 * SECOND), Step::Ask);
    }

    #[test]
    fn one_try_answers_after_one_ask_and_says_who_holds() {
        let mut machine = acquire(Some(Duration::ZERO));
        ask(&mut machine, START, busy(SECOND));
        let outcome = Outcome::Busy { held_by: Some(held_for(SECOND)) };
        assert_eq!(machine.next(START + SECOND), Step::Done(outcome));
    }

    #[test]
    fn a_wait_ends_at_its_deadline_and_not_later() {
        let mut machine = acquire(Some(SECOND));
        let mut now = START;
        loop {
            match machine.next(now) {
                Step::Ask => {
                    machine.handle_sent(now);
                    machine.handle_answer(now, busy(60 * SECOND));
                }
                Step::WaitUntil(until) => {
                    assert!(until > now && until <= START + SECOND);
                    now = until;
                }
                Step::Done(outcome) => {
                    assert_eq!(now, START + SECOND);
                    assert_eq!(outcome, Outcome::Busy { held_by: Some(held_for(60 * SECOND)) });
                    break;
                }
            }
        }
    }

    #[test]
    fn a_dead_holder_is_asked_for_right_after_its_end() {
        let mut machine = acquire(None);
        ask(&mut machine, START, busy(Duration::from_millis(2)));
        let now = START + Duration::from_millis(1);
        let Step::WaitUntil(until) = machine.next(now) else { panic!() };
        assert!(until <= now + Duration::from_millis(13));
    }

    #[test]
    fn a_silent_store_is_given_the_outage_limit_however_patient_the_caller() {
        let mut machine = acquire(None);
        let mut now = START;
        let outcome = loop {
            match machine.next(now) {
                Step::Ask => {
                    machine.handle_sent(now);
                    machine.handle_fault(now, passing());
                }
                Step::WaitUntil(until) => now = until,
                Step::Done(outcome) => break outcome,
            }
        };
        assert_eq!(outcome, Outcome::Silent { fault: Some(passing()) });
        assert_eq!(now, START + 10 * SECOND);
        assert!((10..100).contains(&machine.asks()), "asked {} times", machine.asks());
    }

    #[test]
    fn an_answer_ends_the_silence() {
        let mut machine = acquire(None);
        machine.next(START);
        machine.handle_sent(START);
        machine.handle_fault(START, passing());
        ask(&mut machine, START + 9 * SECOND, busy(60 * SECOND));
        assert!(matches!(machine.next(START + 11 * SECOND), Step::Ask));
    }

    #[test]
    fn a_store_that_finds_every_request_too_late_is_not_asked_without_a_pause() {
        let mut machine = acquire(None);
        let mut now = START;
        while !matches!(machine.next(now), Step::Done(_)) {
            match machine.next(now) {
                Step::Ask => {
                    machine.handle_sent(now);
                    machine.handle_answer(now, GrantAnswer::TooLate { now: crate::Stamp::from_micros(0) });
                }
                Step::WaitUntil(until) => now = until,
                Step::Done(_) => unreachable!(),
            }
        }
        assert_eq!(now, START + 10 * SECOND);
        assert!(machine.asks() < 100, "asked {} times", machine.asks());
    }

    #[test]
    fn what_will_not_pass_is_not_waited_for() {
        let mut machine = acquire(None);
        machine.next(START);
        machine.handle_sent(START);
        let fault = Fault::lasting("s", "wrong password");
        machine.handle_fault(START, fault.clone());
        assert_eq!(machine.next(START), Step::Done(Outcome::Refused(fault)));
    }

    #[test]
    fn a_wake_up_ends_the_rest_but_not_an_ask_under_way() {
        let mut machine = acquire(None);
        ask(&mut machine, START, busy(60 * SECOND));
        machine.handle_wake();
        assert_eq!(machine.next(START + Duration::from_millis(1)), Step::Ask);
        machine.handle_sent(START + Duration::from_millis(1));
        machine.handle_wake();
        assert!(matches!(machine.next(START + Duration::from_millis(1)), Step::WaitUntil(_)));
    }

    proptest! {
        /// Whatever comes, and whenever: the machine ends in time, never waits for the past, and believes no ended lease.
        #[test]
        fn the_machine_ends_in_time_whatever_comes(
            within in prop::option::of(0..5_000u64),
            seed: u64,
            events in prop::collection::vec((0..5u8, 0..12_000u64), 1..80),
        ) {
            let within = within.map(Duration::from_millis);
            let mut machine = Acquire::new(START, ttl(), Drift::NONE, Patience::new(within, 10 * SECOND), seed);
            let (mut now, mut sent) = (START, START);
            for (kind, late) in events {
                match machine.next(now) {
                    Step::Ask => {
                        prop_assert!(within.is_none_or(|w| w.is_zero() || now < START + w));
                        sent = now;
                        machine.handle_sent(now);
                    }
                    Step::WaitUntil(until) => {
                        prop_assert!(until > now);
                        prop_assert!(within.is_none_or(|w| w.is_zero() || until <= START + w));
                        let answered = now + Duration::from_millis(late);
                        if answered >= until {
                            now = until;
                            continue;
                        }
                        now = answered;
                        match kind {
                            0 => machine.handle_answer(now, granted()),
                            1 => machine.handle_answer(now, busy(Duration::from_millis(late))),
                            2 => machine.handle_answer(now, GrantAnswer::TooLate { now: crate::Stamp::from_micros(0) }),
                            3 => machine.handle_fault(now, passing()),
                            _ => machine.handle_wake(),
                        }
                    }
                    Step::Done(outcome) => {
                        if let Outcome::Granted { lease, .. } = outcome {
                            prop_assert!(lease.is_held(now));
                            prop_assert_eq!(lease, Lease::counted_from(sent, ttl(), Drift::NONE));
                        }
                        break;
                    }
                }
            }
        }
    }
}
