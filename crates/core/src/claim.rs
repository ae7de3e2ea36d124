//! What is asked for, and by whom.

use std::sync::Arc;
use std::time::Duration;

use crate::holder::Label;
use crate::{Fence, Holder, Key, Misuse, Mode, Signal, Ttl, WaitQueue};

/// One key of a claim, and how it is wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Want {
    /// The key.
    pub key: Key,
    /// How it is wanted.
    pub mode: Mode,
}

/// Keys and modes asked for together: all are granted, or none.
///
/// The keys stand in the order of their bytes, each once, so that all callers meet them in one order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim(Arc<[Want]>);

impl Claim {
    /// A claim on one key, alone.
    #[must_use]
    pub fn exclusive(key: Key) -> Self {
        Self([Want { key, mode: Mode::Exclusive }].into())
    }

    /// A claim on several keys together, each alone. A key named twice counts once.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoKeys`] when there is none: a lock on nothing would keep nobody out.
    pub fn exclusive_all(keys: impl IntoIterator<Item = Key>) -> Result<Self, Misuse> {
        Self::all(keys, Mode::Exclusive)
    }

    /// A claim on keys, each together with all others who share it.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoKeys`] when there is none.
    pub fn shared(keys: impl IntoIterator<Item = Key>) -> Result<Self, Misuse> {
        Self::all(keys, Mode::Shared)
    }

    /// A claim on `weight` of the `of` permits of each of these keys.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoKeys`] when there is none; [`Misuse::PermitsOutOfBounds`], [`Misuse::NoPermits`] and
    /// [`Misuse::TooManyPermits`] where nobody could ever have so many.
    pub fn permits(keys: impl IntoIterator<Item = Key>, weight: u32, of: u32) -> Result<Self, Misuse> {
        Self::all(keys, Mode::permits(weight, of)?)
    }

    fn all(keys: impl IntoIterator<Item = Key>, mode: Mode) -> Result<Self, Misuse> {
        let mut wants: Vec<Want> = keys.into_iter().map(|key| Want { key, mode }).collect();
        wants.sort();
        wants.dedup();
        if wants.is_empty() { Err(Misuse::NoKeys) } else { Ok(Self(wants.into())) }
    }

    /// What is wanted, in byte order of the keys.
    #[must_use]
    pub fn wants(&self) -> &[Want] {
        &self.0
    }

    /// The keys, in byte order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> + Clone {
        self.0.iter().map(|want| &want.key)
    }

    /// The first key in byte order; every claim has one.
    #[must_use]
    pub fn first_key(&self) -> &Key {
        &self.0[0].key
    }
}

/// One attempt to hold a claim: what every request to a store is about.
///
/// A store grants, renews and releases by the holder alone; asking again with the same attempt never looks taken.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Attempt {
    /// What is asked for.
    pub claim: Claim,
    /// Who asks: fresh for every attempt.
    pub holder: Holder,
    /// What the holder says of itself.
    pub label: Option<Label>,
    /// How long the lease is to last from the store's answering this request.
    pub ttl: Ttl,
    /// Where the store is asked as a member of a quorum: on what the members are to agree.
    pub proposal: Option<Proposal>,
    /// Whom else its release is to wake.
    pub signal: Option<Signal>,
}

/// On what the members of a quorum are to agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "whoever serves it must know all of it")]
pub struct Proposal {
    /// The fence. It stands for the store's clock, which would say something else at each member.
    pub fence: Fence,
    /// The longest ttl of the deployment. A member that may have forgotten leases abstains for as long.
    pub max_ttl: Ttl,
}

impl Attempt {
    /// An attempt by a fresh holder.
    #[must_use]
    pub const fn new(claim: Claim, holder: Holder, label: Option<Label>, ttl: Ttl) -> Self {
        Self { claim, holder, label, ttl, proposal: None, signal: None }
    }

    /// The same attempt with another ttl.
    #[must_use]
    pub fn with_ttl(&self, ttl: Ttl) -> Self {
        Self { ttl, ..self.clone() }
    }

    /// The same attempt, whose release wakes others as well.
    #[must_use]
    pub const fn with_signal(mut self, signal: Option<Signal>) -> Self {
        self.signal = signal;
        self
    }

    /// How long what it left at a store can last there if nobody asks for the key meanwhile: its lease for the ttl, its place in line
    /// for as long as a line is kept. So long is it worth giving it up at a store that does not answer.
    #[must_use]
    pub fn lingers(&self) -> Duration {
        self.ttl.duration().max(WaitQueue::KEPT_FOR)
    }

    /// What a member of a quorum is asked for it: under an id of its own, with a proposal.
    #[must_use]
    pub fn at_member(&self, holder: Holder, proposal: Proposal) -> Self {
        Self { holder, proposal: Some(proposal), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    #[test]
    fn several_keys_stand_in_byte_order_each_once() {
        let claim = Claim::exclusive_all(["b", "a", "b", "B"].map(key)).unwrap();
        assert_eq!(claim.keys().cloned().collect::<Vec<_>>(), ["B", "a", "b"].map(key));
    }

    #[test]
    fn a_claim_on_nothing_is_a_misuse() {
        assert_eq!(Claim::exclusive_all([]).unwrap_err(), Misuse::NoKeys);
        assert_eq!(Claim::shared([]).unwrap_err(), Misuse::NoKeys);
        assert_eq!(Claim::permits([], 1, 2).unwrap_err(), Misuse::NoKeys);
    }

    #[test]
    fn what_an_attempt_left_behind_lasts_as_long_as_its_lease_and_as_a_line_is_kept() {
        let of = |seconds| {
            let ttl = Ttl::new(Duration::from_secs(seconds)).unwrap();
            Attempt::new(Claim::exclusive(key("k")), Holder::from_bits(1), None, ttl).lingers()
        };
        assert_eq!(of(1), WaitQueue::KEPT_FOR);
        assert_eq!(of(60), Duration::from_secs(60));
    }
}
