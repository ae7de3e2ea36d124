//! The size of a world, and its possible faults.

use std::time::Duration;

use leasehold_core::{Claim, Key, Ttl};

use crate::Flaw;
use crate::faults::faults;

/// A client, and the lock that it requests.
#[derive(Clone, Debug)]
pub struct Party {
    pub(super) claim: Claim,
    pub(super) process: usize,
    /// True if it waits while the key is taken, false if it leaves.
    pub(super) waits: bool,
    /// The number of locks that it acquires, one after the other.
    pub(super) times: u8,
}

impl Party {
    /// A client that waits for keys, exclusively.
    pub fn alone(keys: &[&str]) -> Self {
        Self::wants(Claim::exclusive_all(keys.iter().map(key)).expect("there are keys"))
    }

    /// A client that waits for a share of a key.
    pub fn shared(name: &str) -> Self {
        Self::wants(Claim::shared([key(&name)]).expect("there is a key"))
    }

    /// A client that waits for some of two permits.
    pub fn permits(name: &str, weight: u32) -> Self {
        Self::wants(Claim::permits([key(&name)], weight, 2).expect("there are as many"))
    }

    const fn wants(claim: Claim) -> Self {
        Self { claim, process: 0, waits: true, times: 1 }
    }

    /// It leaves if the key is taken.
    pub fn tries(self) -> Self {
        Self { waits: false, ..self }
    }

    /// It acquires so many locks, one after the other.
    pub fn times(self, times: u8) -> Self {
        Self { times, ..self }
    }
}

fn key(name: &&str) -> Key {
    Key::new(name).expect("it is the name of a key")
}

/// A world's clients and possible faults: those of one promise or flaw, as all would be too many.
#[derive(Clone, Debug)]
pub struct Scope(Fixed);

/// The parts that are the same in all states of a world.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) flaw: Option<Flaw>,
    pub(super) parties: Vec<Party>,
    pub(super) tick: Duration,
    pub(super) ttl: Ttl,
    /// The ttl with which a holder may renew its lease itself.
    pub(super) longer: Ttl,
    /// The time within which a hand-over must be claimed.
    pub(super) window: Ttl,
    /// The longest time that a message may be in flight, in ticks.
    pub(super) delay: u32,
    /// The number of ticks for which ended shares are distinguished by their ends.
    pub(super) remembers: u32,
    pub(super) time: bool,
    pub(super) by_value: bool,
    pub(super) pings: bool,
    pub(super) only_one_slow: Option<usize>,
    pub(super) left: Left,
}

/// With such ticks, the timer for a lost wake-up, which takes 2.5 to 5 s, rings within a tick.
const COARSE: Duration = Duration::from_secs(5);

/// With such ticks, no such timer rings before everything else has ended.
const FINE: Duration = Duration::from_millis(450);

impl Fixed {
    pub(super) fn new(flaw: Option<Flaw>, scope: &Scope) -> Self {
        Self { flaw, ..scope.0.clone() }
    }

    pub(super) fn processes(&self) -> usize {
        self.parties.iter().map(|party| party.process + 1).max().unwrap_or(0)
    }

    fn ticking(self, tick: Duration) -> Self {
        let ticks = |ticks: u32| Ttl::new(tick * ticks).expect("it is long enough");
        Self { tick, ttl: ticks(2), longer: ticks(3), window: ticks(1), ..self }
    }
}

impl Scope {
    /// A world of these clients, one per process. A ttl is two ticks, a claim window one.
    pub fn of(parties: impl IntoIterator<Item = Party>) -> Self {
        let parties = parties.into_iter().enumerate().map(|(process, party)| Party { process, ..party });
        let fixed = Fixed {
            flaw: None,
            parties: parties.collect(),
            tick: COARSE,
            ttl: Ttl::DEFAULT,
            longer: Ttl::DEFAULT,
            window: Ttl::DEFAULT,
            delay: 2,
            remembers: 0,
            time: true,
            by_value: false,
            pings: false,
            only_one_slow: None,
            left: Left::default(),
        };
        Self(fixed.ticking(COARSE))
    }

    /// A world of waiters for one key, each exclusive.
    pub fn apart(parties: usize) -> Self {
        Self::of(std::iter::repeat_n(Party::alone(&["a"]), parties))
    }

    /// The same, with the first two in one process.
    pub fn siblings(parties: usize) -> Self {
        let mut scope = Self::apart(parties);
        scope.0.parties.iter_mut().skip(1).for_each(|party| party.process -= 1);
        scope
    }

    /// No lease ends and no timer rings, so each wake-up must come by push. Much smaller.
    pub const fn timeless(mut self) -> Self {
        self.0.time = false;
        self
    }

    /// A waiter asks again only for a reason: the timer for lost wake-ups does not ring in time.
    pub fn patient(self) -> Self {
        Self(self.0.ticking(FINE))
    }

    /// A holder for whom nobody ever waited releases by value.
    pub const fn by_value(mut self) -> Self {
        self.0.by_value = true;
        self
    }

    /// Waiters ping, so that the lease of a push is fresh.
    pub const fn with_pings(mut self) -> Self {
        self.0.pings = true;
        self
    }

    /// Time passes only while nothing is in flight except to and from this process. Much smaller.
    pub const fn only_one_slow(mut self, process: usize) -> Self {
        self.0.only_one_slow = Some(process);
        self
    }

    const fn left_mut(&mut self) -> &mut Left {
        &mut self.0.left
    }
}

faults! {
    /// The number of processes that crash.
    crashes,
    /// The number of waiters that give up.
    cancels,
    /// The number of times that a holder renews for longer than its first ttl.
    longer_renewals,
    /// The number of pushes that are lost.
    lost_pushes,
    /// The number of connections that break; messages in flight on them may still arrive.
    breaks,
    /// The number of requests that are served a second time.
    twins,
    /// The number of times that everything is deleted.
    flushes,
    /// The number of times that the server restarts without its state.
    restarts,
    /// The number of times that another program takes the free key.
    strangers,
    /// The number of times that somebody deletes a key that another holds.
    deletions,
    /// The number of times that the queue expires because nobody asked for long.
    queue_ends,
    /// The number of times that the unused fence of a free key expires.
    forgotten_fences,
    /// The number of times that the server's clock is set forward while nobody holds a lock.
    clock_steps,
    /// The number of times that an operator looks at a lease, and breaks it later.
    breaks_of_leases,
    /// The number of pushes that are forged.
    forgeries,
}
