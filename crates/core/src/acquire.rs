//! From the first ask to the grant, or to the reason why not.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::backoff::{Dice, jitter};
use crate::{
    Backoff, Drift, Fault, FaultKind, Fence, GrantAnswer, HolderInfo, Instant, Key, Lease, Ttl, Wake,
};

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
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum Step {
    /// Ask the store for the grant, and report [`Acquire::handle_sent`] just before.
    Ask,
    /// Wait for what is under way (an answer, or a wake-up), but come back at this instant.
    WaitUntil(Instant),
    /// It is over.
    Done(Outcome),
}

/// How an acquisition ended. Unless it was granted, the attempt must be given up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum Outcome {
    /// The attempt holds.
    Granted {
        /// Until when it may be believed.
        lease: Lease,
        /// Its fence.
        fence: Fence,
        /// If it was handed over in line, what the first renewal must make of it.
        handed: Option<Handed>,
    },
    /// Somebody else held it for as long as the caller waited.
    Busy {
        /// Who held it at the last answer; `None` if there was none.
        held_by: Option<HolderInfo>,
        /// How many stood before the attempt at the last answer, if it stood in line.
        before: Option<u64>,
    },
    /// So many waited already that it did not join them.
    LineFull {
        /// Who holds the lock.
        held_by: HolderInfo,
        /// How many wait.
        length: u64,
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

/// A lock that was handed over in line: its lease is short until it is renewed for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a hand-over has no more to it")]
pub struct Handed {
    /// When the lease began, or somewhat earlier.
    pub since: Instant,
    /// How long it is from then.
    pub lasts: Ttl,
}

/// The machine of one acquisition: one attempt id, asked with until it is granted or given up.
///
/// Invariant: a lease is counted from the sending of the very ask that was answered, or from when the store says that a lock was
/// handed over at the earliest.
#[derive(Clone, Debug)]
pub struct Acquire {
    ttl: Ttl,
    drift: Drift,
    /// Whether it ends with the first answer.
    is_one_ask: bool,
    deadline: Option<Instant>,
    outage_limit: Duration,
    backoff: Backoff,
    dice: Dice,
    state: State,
    asks: u32,
    rests: u32,
    /// Who held it at the last answer, where a deadline may make that the outcome. In a box: very many may wait, mostly without one.
    held_by: Option<Box<HolderInfo>>,
    before: Option<u64>,
    silence: Option<Silence>,
}

#[derive(Clone, Debug, Hash)]
enum State {
    Ready,
    Asking {
        sent: Instant,
    },
    Resting {
        until: Instant,
    },
    /// The store will say when it is worth asking again.
    InLine,
    /// In a box: it is rare, and who waits should be small.
    Over(Box<Outcome>),
}

impl State {
    fn over(outcome: Outcome) -> Self {
        Self::Over(Box::new(outcome))
    }
}

/// The asks since the last answer.
#[derive(Clone, Debug)]
struct Silence {
    since: Instant,
    faults: u32,
    last: Option<Box<Fault>>,
}

impl Acquire {
    /// Begins an acquisition now. `seed` spreads its rests; it need not be secret.
    #[must_use]
    pub fn new(now: Instant, ttl: Ttl, drift: Drift, patience: Patience, seed: u64) -> Self {
        let Patience { within, outage_limit, backoff } = patience;
        let deadline = within.filter(|within| !within.is_zero()).map(|within| now + within);
        Self {
            ttl,
            drift,
            is_one_ask: within == Some(Duration::ZERO),
            deadline,
            outage_limit,
            backoff,
            dice: Dice::new(seed),
            state: State::Ready,
            asks: 0,
            rests: 0,
            held_by: None,
            before: None,
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
                    State::over(Outcome::Granted { lease, fence, handed: None })
                } else {
                    // The answer outlasted its lease. The same attempt asks anew; meanwhile the store counts as silent.
                    self.silence = silence;
                    State::Ready
                }
            }
            GrantAnswer::Busy { held_by, place } => {
                self.before = place.map(|place| place.before);
                self.rest_while_held(now, held_by)
            }
            GrantAnswer::LineFull { held_by, length } => State::over(Outcome::LineFull { held_by, length }),
            GrantAnswer::Unfinished => State::Ready,
            GrantAnswer::TooLate { .. } => {
                self.silence = silence;
                self.rest_while_silent(now, None)
            }
            GrantAnswer::NotALock { key } => State::over(Outcome::NotALock { key }),
            GrantAnswer::FencesSpent { key } => State::over(Outcome::FencesSpent { key }),
        };
    }

    /// The ask ended in a fault.
    pub fn handle_fault(&mut self, now: Instant, fault: Fault) {
        if fault.kind == FaultKind::Lasting {
            self.state = State::over(Outcome::Refused(fault));
            return;
        }
        if fault.kind == FaultKind::Quarantined {
            if self.is_one_ask {
                self.state = State::over(Outcome::Silent { fault: Some(fault) });
                return;
            }
            // It answers, and says that it will serve: that is waited for as a holder is.
            if let Some(silence) = &mut self.silence {
                silence.since = now;
            }
        }
        self.state = self.rest_while_silent(now, Some(fault));
    }

    /// The attempt was told something.
    pub fn handle_wake(&mut self, now: Instant, wake: Wake) {
        if !matches!(self.state, State::Resting { .. } | State::InLine) {
            return;
        }
        self.rests = 0;
        self.state = State::Ready;
        if let Wake::Granted { fence, since, lasts } = wake {
            let lasts = lasts.up_to(self.ttl.duration());
            let lease = Lease::counted_from(since, lasts, self.drift);
            // Heard too late, it is no grant; but the attempt may hold all the same, and asks.
            if lease.is_held(now) {
                let handed = Some(Handed { since, lasts });
                self.state = State::over(Outcome::Granted { lease, fence, handed });
            }
        }
    }

    /// How many stood before the attempt at the last answer, if it stands in line.
    #[must_use]
    pub const fn before(&self) -> Option<u64> {
        self.before
    }

    /// What to do next.
    pub fn next(&mut self, now: Instant) -> Step {
        if let State::Over(outcome) = &self.state {
            return Step::Done(Outcome::clone(outcome));
        }
        let outage = self.silence.as_ref().map(|silence| silence.since + self.outage_limit);
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
            State::Asking { .. } | State::InLine => Step::WaitUntil(limit),
            _ => Step::Ask,
        }
    }

    /// Rests, but not beyond the holder's end: whoever crashed does not come to release.
    fn rest_while_held(&mut self, now: Instant, held_by: HolderInfo) -> State {
        if self.is_one_ask {
            return State::over(Outcome::Busy { held_by: Some(held_by), before: None });
        }
        if self.before.is_some() {
            self.note_holder(held_by);
            return State::InLine;
        }
        let mut rest = self.backoff.delay(self.rests, self.dice.roll());
        if let Some(left) = held_by.remaining {
            // A millisecond for the store's rounding; the jitter keeps the waiters of a dead holder apart.
            let spread = jitter(Duration::from_millis(10), self.dice.roll());
            rest = rest.min(left.saturating_add(Duration::from_millis(1) + spread));
        }
        self.rests += 1;
        self.note_holder(held_by);
        State::Resting { until: now + rest }
    }

    fn note_holder(&mut self, held_by: HolderInfo) {
        self.held_by = self.deadline.map(|_| Box::new(held_by));
    }

    /// Rests longer each time, so that a store in trouble is not asked all the more.
    fn rest_while_silent(&mut self, now: Instant, fault: Option<Fault>) -> State {
        let silence = self.silence.get_or_insert(Silence { since: now, faults: 0, last: None });
        let rest = Backoff::WHILE_SILENT.delay(silence.faults, self.dice.roll());
        silence.faults += 1;
        silence.last = fault.map(Box::new).or(silence.last.take());
        State::Resting { until: now + rest }
    }

    fn busy(&self) -> Outcome {
        Outcome::Busy { held_by: self.held_by.as_deref().cloned(), before: self.before }
    }

    fn silent(&self) -> Outcome {
        let last = self.silence.as_ref().and_then(|silence| silence.last.as_deref());
        Outcome::Silent { fault: last.cloned() }
    }

    fn over(&mut self, outcome: Outcome) -> Step {
        self.state = State::over(outcome.clone());
        Step::Done(outcome)
    }
}

/// Two that hash alike decide alike from here on, except for how long they rest between asks: what only counts asks and rests is
/// left out, and so is what they would say of the holder.
impl Hash for Acquire {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let outage = self.silence.as_ref().map(|silence| silence.since + self.outage_limit);
        (self.ttl, self.drift, self.is_one_ask, self.deadline, &self.state, outage).hash(state);
        (self.held_by.is_some(), self.before.is_some()).hash(state);
    }
}

#[cfg(test)]
mod tests;
