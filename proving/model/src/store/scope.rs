//! The size of a world, and its possible faults.

use std::time::Duration;

use leasehold_core::{Claim, Key, Ttl};

use crate::Flaw;

/// Somebody who wants something.
#[derive(Clone, Debug)]
pub struct Party {
    pub(super) claim: Claim,
    /// Of which process it is.
    pub(super) process: usize,
    /// Whether it waits, or goes when the key is taken.
    pub(super) waits: bool,
    /// How often it wants it, one time after the other.
    pub(super) times: u8,
}

impl Party {
    /// Waits for keys, to have them alone.
    ///
    /// # Panics
    ///
    /// If one of these is no name of a key.
    #[must_use]
    pub fn alone(keys: &[&str]) -> Self {
        Self::wants(Claim::exclusive_all(keys.iter().map(key)).expect("there are keys"))
    }

    /// Waits for a key, to share it.
    ///
    /// # Panics
    ///
    /// If that is no name of a key.
    #[must_use]
    pub fn shared(name: &str) -> Self {
        Self::wants(Claim::shared([key(&name)]).expect("there is a key"))
    }

    /// Waits for so many of two permits.
    ///
    /// # Panics
    ///
    /// If that is no name of a key.
    #[must_use]
    pub fn permits(name: &str, weight: u32) -> Self {
        Self::wants(Claim::permits([key(&name)], weight, 2).expect("there are as many"))
    }

    const fn wants(claim: Claim) -> Self {
        Self { claim, process: 0, waits: true, times: 1 }
    }

    /// It goes when the key is taken.
    #[must_use]
    pub fn tries(self) -> Self {
        Self { waits: false, ..self }
    }

    /// It wants it so often.
    #[must_use]
    pub fn times(self, times: u8) -> Self {
        Self { times, ..self }
    }
}

fn key(name: &&str) -> Key {
    Key::new(name).expect("it is the name of a key")
}

/// Who takes part, and what may happen to them.
///
/// No single world has everything in it: that would be too large. Each has what one promise, or one flaw, is about.
#[derive(Clone, Debug)]
pub struct Scope(Fixed);

/// What is the same in all states of a world.
#[derive(Clone, Debug)]
pub(super) struct Fixed {
    pub(super) flaw: Option<Flaw>,
    pub(super) parties: Vec<Party>,
    pub(super) tick: Duration,
    pub(super) ttl: Ttl,
    /// What a holder may renew with itself.
    pub(super) longer: Ttl,
    /// How long a lock that was handed over may remain unclaimed.
    pub(super) window: Ttl,
    /// How long something may be under way, in ticks.
    pub(super) delay: u32,
    /// How long shares that have ended are told apart by when, in ticks.
    pub(super) remembers: u32,
    pub(super) time: bool,
    pub(super) by_value: bool,
    pub(super) pings: bool,
    pub(super) only_one_slow: Option<usize>,
    pub(super) left: Left,
}

/// How often something may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Left {
    pub(super) crashes: u8,
    pub(super) cancels: u8,
    pub(super) longer_renewals: u8,
    pub(super) lost_pushes: u8,
    pub(super) breaks: u8,
    pub(super) twins: u8,
    pub(super) flushes: u8,
    pub(super) restarts: u8,
    pub(super) strangers: u8,
    pub(super) deletions: u8,
    pub(super) line_ends: u8,
    pub(super) forgotten_fences: u8,
    pub(super) clock_steps: u8,
    pub(super) breaks_of_leases: u8,
    pub(super) forgeries: u8,
}

/// A timer for a wake-up that was lost rings within a tick: those are 2.5 to 5 s.
const COARSE: Duration = Duration::from_secs(5);

/// No such timer rings while anything else lasts.
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

macro_rules! trouble {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $($(#[$doc])* #[must_use] pub const fn $name(mut self, times: u8) -> Self { self.0.left.$name = times; self })+
    };
}

impl Scope {
    /// These, each with a process of its own. A ttl is two ticks, and a window one.
    #[must_use]
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

    /// So many who wait for one key, each to have it alone.
    #[must_use]
    pub fn apart(parties: usize) -> Self {
        Self::of(std::iter::repeat_n(Party::alone(&["a"]), parties))
    }

    /// The same, the first two of them in one process.
    #[must_use]
    pub fn siblings(parties: usize) -> Self {
        let mut scope = Self::apart(parties);
        scope.0.parties.iter_mut().skip(1).for_each(|party| party.process -= 1);
        scope
    }

    /// No lease ends, and no timer rings, so each wake-up must come by push. Much smaller.
    #[must_use]
    pub const fn timeless(mut self) -> Self {
        self.0.time = false;
        self
    }

    /// Who waits asks again only for a reason: the timer for wake-ups that were lost does not ring in time.
    #[must_use]
    pub fn patient(self) -> Self {
        Self(self.0.ticking(FINE))
    }

    /// Who was never waited for releases by value.
    #[must_use]
    pub const fn by_value(mut self) -> Self {
        self.0.by_value = true;
        self
    }

    /// Waiters ping, so that the lease of a push is fresh.
    #[must_use]
    pub const fn with_pings(mut self) -> Self {
        self.0.pings = true;
        self
    }

    /// Time passes only while nothing is under way but to and from this process. Much smaller.
    #[must_use]
    pub const fn only_one_slow(mut self, process: usize) -> Self {
        self.0.only_one_slow = Some(process);
        self
    }

    trouble! {
        /// So many processes crash.
        crashes,
        /// So many waiters change their mind.
        cancels,
        /// So many times a holder renews for longer than it asked at first.
        longer_renewals,
        /// So many pushes are lost.
        lost_pushes,
        /// So many connections break; what is under way on them may still arrive.
        breaks,
        /// So many requests are served a second time.
        twins,
        /// So many times everything is deleted.
        flushes,
        /// So many times the server starts anew and empty.
        restarts,
        /// So many times a stranger takes the free key.
        strangers,
        /// So many times somebody deletes the key whose it is not.
        deletions,
        /// So many times the line is forgotten because nobody asked again for long.
        line_ends,
        /// So many times the fence of a free key is forgotten because nobody used it for long.
        forgotten_fences,
        /// So many times the clock of the server is set forward, when nobody holds.
        clock_steps,
        /// So many times somebody looks who holds, and breaks that lease later.
        breaks_of_leases,
        /// So many pushes are forged.
        forgeries,
    }
}
