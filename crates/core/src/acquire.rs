//! The state machine of an acquisition: from the first request to the grant, or to its failure.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use crate::backoff::{jitter, roll};
use crate::compact::Compact;
use crate::{
    Backoff, Drift, Fault, FaultKind, Fence, GrantAnswer, HolderInfo, Instant, Key, Lease, Ttl, Wake,
};

/// How long a caller waits, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Patience {
    /// How long it waits for a holder; `None` for as long as it takes. Zero is one request.
    pub within: Option<Duration>,
    /// How long it waits for a store that does not answer.
    pub outage_limit: Duration,
    /// The pauses between requests while the lock is held.
    pub backoff: Backoff,
    /// How often it asks again after it was refused; `None` for any number.
    pub retries: Option<u32>,
}

impl Patience {
    /// Waits for a holder `within`, and for a silent store up to `outage_limit`.
    #[must_use]
    pub const fn new(within: Option<Duration>, outage_limit: Duration) -> Self {
        Self { within, outage_limit, backoff: Backoff::WHILE_HELD, retries: None }
    }
}

/// The next step of an acquisition.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum Step {
    /// Ask the store for the grant, and report [`Acquire::handle_sent`] just before.
    Ask,
    /// Wait for an answer or a wake-up, but come back at this instant.
    WaitUntil(Instant),
    /// The acquisition is over.
    Done(Outcome),
}

/// The outcome of an acquisition. Unless it was granted, the attempt must be given up.
pub type Outcome = Result<Granted, NotGranted>;

/// The attempt holds the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a grant has no more to it")]
pub struct Granted {
    /// How long the holder may rely on it.
    pub lease: Lease,
    /// Its fence.
    pub fence: Fence,
    /// For a lock that was handed over in the queue: the data for its first renewal.
    pub handed: Option<Handed>,
}

/// Why the attempt does not hold the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum NotGranted {
    /// Somebody else held the lock for as long as the caller waited.
    Busy {
        /// The holder at the last answer; `None` if there was none.
        held_by: Option<HolderInfo>,
        /// The number of waiters before the attempt at the last answer, if it was in the queue.
        before: Option<u64>,
    },
    /// The queue was as long as the limit, so the attempt did not join it.
    QueueFull {
        /// The holder.
        held_by: HolderInfo,
        /// The number of waiters.
        length: u64,
    },
    /// The store did not answer for as long as the caller waits for a store.
    Silent {
        /// The last fault, if there was one in time.
        fault: Option<Fault>,
    },
    /// The store refuses, and would refuse again.
    Refused(Fault),
    /// A key contains data that is not a lock.
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

/// A lock that was handed over in the queue: its lease is short until the first renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a hand-over has no more to it")]
pub struct Handed {
    /// When the lease began, or somewhat earlier.
    pub since: Instant,
    /// How long the lease lasts from then.
    pub lasts: Ttl,
}

/// One acquisition: one attempt id, used in requests until it is granted or given up.
///
/// Invariant: a lease is counted from the sending of the very request that was answered, or, for a
/// lock that was handed over, at the earliest from the time that the store reports.
#[derive(Clone, Debug)]
pub struct Acquire {
    ttl: Ttl,
    drift: Drift,
    /// How often it may still be refused before it ends; `MAX` for any number.
    retries_left: u32,
    deadline: Option<Instant>,
    outage_limit: Duration,
    backoff: Backoff,
    seed: u64,
    state: State,
    asks: u32,
    rests: u32,
    /// The holder at the last answer, kept if a deadline may make that the outcome. Boxed: very
    /// many may wait, mostly without a deadline.
    held_by: Option<Box<HolderInfo>>,
    before: Option<Compact>,
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
    /// The store will say when to ask again.
    Queued,
    /// Boxed: it is rare, and a waiter should be small.
    Over(Box<Outcome>),
}

impl State {
    fn over(outcome: Outcome) -> Self {
        Self::Over(Box::new(outcome))
    }
}

/// A caller that comes back so much later than it was asked to was stopped, or its machine slept.
const STOPPED: Duration = Duration::from_secs(2);

/// The requests since the last answer.
#[derive(Clone, Debug)]
struct Silence {
    since: Instant,
    faults: u32,
    last: Option<Box<Fault>>,
}

impl Acquire {
    /// Starts an acquisition. `seed` spreads its pauses; it need not be secret.
    #[must_use]
    pub fn new(now: Instant, ttl: Ttl, drift: Drift, patience: Patience, seed: u64) -> Self {
        let Patience { within, outage_limit, backoff, retries } = patience;
        let is_one_ask = within == Some(Duration::ZERO);
        let deadline = within.filter(|within| !within.is_zero()).map(|within| now + within);
        Self {
            ttl,
            drift,
            retries_left: if is_one_ask { 0 } else { retries.unwrap_or(u32::MAX) },
            deadline,
            outage_limit,
            backoff,
            seed,
            state: State::Ready,
            asks: 0,
            rests: 0,
            held_by: None,
            before: None,
            silence: None,
        }
    }

    /// Before the first ask, rests until then; nothing changes for a past instant, or after an ask.
    pub fn rest_first(&mut self, until: Instant) {
        if matches!(self.state, State::Ready) && self.asks == 0 {
            self.state = State::Resting { until };
        }
    }

    /// How often the store was asked.
    #[must_use]
    pub const fn asks(&self) -> u32 {
        self.asks
    }

    /// How much earlier than the store the holder stops relying on its lease.
    #[must_use]
    pub const fn drift(&self) -> Drift {
        self.drift
    }

    /// Notes that a request is about to be sent.
    pub fn handle_sent(&mut self, now: Instant) {
        self.asks += 1;
        self.silence.get_or_insert(Silence { since: now, faults: 0, last: None });
        self.state = State::Asking { sent: now };
    }

    /// Handles the answer to the request.
    pub fn handle_answer(&mut self, now: Instant, answer: GrantAnswer) {
        let State::Asking { sent } = self.state else { return };
        let silence = self.silence.take();
        self.state = match answer {
            GrantAnswer::Granted { fence } => {
                let lease = Lease::counted_from(sent, self.ttl, self.drift);
                if lease.is_held(now) {
                    State::over(Ok(Granted { lease, fence, handed: None }))
                } else {
                    // The answer came after the end of its lease. The same attempt asks again;
                    // meanwhile the store counts as silent.
                    self.silence = silence;
                    State::Ready
                }
            }
            GrantAnswer::Busy { held_by, place } => {
                self.before = place.map(|place| Compact::new(place.before));
                self.rest_while_held(now, held_by)
            }
            GrantAnswer::QueueFull { held_by, length } => {
                State::over(Err(NotGranted::QueueFull { held_by, length }))
            }
            GrantAnswer::Unfinished => State::Ready,
            GrantAnswer::TooLate { .. } => {
                self.silence = silence;
                self.rest_while_silent(now, None)
            }
            GrantAnswer::NotALock { key } => State::over(Err(NotGranted::NotALock { key })),
            GrantAnswer::FencesSpent { key } => State::over(Err(NotGranted::FencesSpent { key })),
        };
    }

    /// Handles a fault of the request.
    pub fn handle_fault(&mut self, now: Instant, fault: Fault) {
        if fault.kind == FaultKind::Lasting {
            self.state = State::over(Err(NotGranted::Refused(fault)));
            return;
        }
        if fault.kind == FaultKind::Quarantined {
            if self.retries_left == 0 {
                self.state = State::over(Err(NotGranted::Silent { fault: Some(fault) }));
                return;
            }
            // The store answers, and says that it will serve later: wait as for a holder.
            if let Some(silence) = &mut self.silence {
                silence.since = now;
            }
        }
        self.state = self.rest_while_silent(now, Some(fault));
    }

    /// Handles a wake-up of the attempt. Only a grant shortens the pause after a fault: a request that
    /// breaks its connection each time wakes everybody each time, itself included.
    pub fn handle_wake(&mut self, now: Instant, wake: Wake) {
        let is_expected = match self.state {
            State::Resting { .. } => wake != Wake::AskAgain || !self.fails(),
            State::Queued => true,
            _ => false,
        };
        if !is_expected {
            return;
        }
        self.rests = 0;
        self.state = State::Ready;
        if let Wake::Granted { fence, since, lasts } = wake {
            let lasts = lasts.up_to(self.ttl.duration());
            let lease = Lease::counted_from(since, lasts, self.drift);
            // A wake-up that comes too late is not a grant; but the attempt may hold the lock
            // nevertheless, so it asks.
            if lease.is_held(now) {
                let handed = Some(Handed { since, lasts });
                self.state = State::over(Ok(Granted { lease, fence, handed }));
            }
        }
    }

    /// The number of waiters before the attempt at the last answer, if it is in the queue.
    #[must_use]
    pub const fn before(&self) -> Option<u64> {
        match self.before {
            Some(before) => Some(before.get()),
            None => None,
        }
    }

    /// The next step.
    pub fn next(&mut self, now: Instant) -> Step {
        if let State::Over(outcome) = &self.state {
            return Step::Done(Outcome::clone(outcome));
        }
        // That says nothing about the store, so it is asked again.
        if let Some(silence) = &mut self.silence
            && now >= silence.since + self.outage_limit + STOPPED
        {
            silence.since = now;
            if matches!(self.state, State::Asking { .. }) {
                self.state = State::Ready;
            }
        }
        let outage = self.silence.as_ref().map(|silence| silence.since + self.outage_limit);
        if outage.is_some_and(|end| now >= end) {
            return self.fails_because(self.silent());
        }
        if self.deadline.is_some_and(|end| now >= end) {
            // A caller whose time ran out without an answer waited for the store, not for a holder.
            let waited_for_holder = self.held_by.is_some() && !self.fails();
            return self.fails_because(if waited_for_holder { self.busy() } else { self.silent() });
        }
        let limit = [self.deadline, outage].into_iter().flatten().min();
        let limit = limit.unwrap_or(Instant::from_nanos(u64::MAX));
        match self.state {
            State::Resting { until } if now < until => Step::WaitUntil(until.min(limit)),
            State::Asking { .. } | State::Queued => Step::WaitUntil(limit),
            // No answer could come in time, so nothing is asked.
            _ if self.outage_limit.is_zero() => self.fails_because(self.silent()),
            _ => Step::Ask,
        }
    }

    /// Pauses, but not past the end of the holder's lease: a crashed holder does not release.
    fn rest_while_held(&mut self, now: Instant, held_by: HolderInfo) -> State {
        if self.retries_left == 0 {
            return State::over(Err(NotGranted::Busy { held_by: Some(held_by), before: self.before() }));
        }
        if self.retries_left < u32::MAX {
            self.retries_left -= 1;
        }
        if self.before.is_some() {
            self.note_holder(held_by);
            return State::Queued;
        }
        let mut rest = self.backoff.delay(self.rests, roll(&mut self.seed));
        if let Some(left) = held_by.remaining {
            // A millisecond for the store's rounding; the jitter keeps the waiters of a dead holder
            // apart.
            let spread = jitter(Duration::from_millis(10), roll(&mut self.seed));
            rest = rest.min(left.saturating_add(Duration::from_millis(1) + spread));
        }
        self.rests += 1;
        self.note_holder(held_by);
        State::Resting { until: now + rest }
    }

    fn note_holder(&mut self, held_by: HolderInfo) {
        self.held_by = self.deadline.map(|_| Box::new(held_by));
    }

    /// Pauses longer each time, so that a failing store is not asked more often.
    fn rest_while_silent(&mut self, now: Instant, fault: Option<Fault>) -> State {
        let silence = self.silence.get_or_insert(Silence { since: now, faults: 0, last: None });
        let rest = Backoff::WHILE_SILENT.delay(silence.faults, roll(&mut self.seed));
        silence.faults += 1;
        silence.last = fault.map(Box::new).or(silence.last.take());
        State::Resting { until: now + rest }
    }

    fn busy(&self) -> NotGranted {
        NotGranted::Busy { held_by: self.held_by.as_deref().cloned(), before: self.before() }
    }

    /// Returns true if the store has failed since its last answer.
    fn fails(&self) -> bool {
        self.silence.as_ref().is_some_and(|silence| silence.last.is_some())
    }

    fn silent(&self) -> NotGranted {
        let last = self.silence.as_ref().and_then(|silence| silence.last.as_deref());
        NotGranted::Silent { fault: last.cloned() }
    }

    fn fails_because(&mut self, why: NotGranted) -> Step {
        self.state = State::over(Err(why.clone()));
        Step::Done(Err(why))
    }
}

/// Two machines with equal hashes decide the same from here on, except for the length of their
/// pauses. Counts of requests and pauses are left out, and what they report about the holder.
impl Hash for Acquire {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let outage = self.silence.as_ref().map(|silence| silence.since + self.outage_limit);
        (self.ttl, self.drift, self.retries_left, self.deadline, &self.state, outage).hash(state);
        (self.held_by.is_some(), self.before.is_some(), self.fails()).hash(state);
    }
}

#[cfg(test)]
mod tests;
