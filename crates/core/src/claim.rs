//! Claims and attempts: what is requested, by whom, and which other waiters a release wakes.

use std::sync::Arc;
use std::time::Duration;

use crate::holder::Label;
use crate::{Fence, Holder, Key, Misuse, Mode, Ttl, WaitQueue};

/// One key of a claim, and its mode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Want {
    /// The key.
    pub key: Key,
    /// The mode in which it is wanted.
    pub mode: Mode,
}

/// Keys and modes that are requested together: all are granted, or none.
///
/// The keys are in byte order, without duplicates, so that all callers take them in the same order.
///
/// ```
/// use leasehold_core::{Claim, Key, Mode};
///
/// let claim = Claim::exclusive_all([Key::new("b")?, Key::new("a")?, Key::new("b")?])?;
/// let keys: Vec<_> = claim.keys().map(Key::to_string).collect();
/// assert_eq!(keys, ["a", "b"]);
/// assert!(claim.wants().iter().all(|want| want.mode == Mode::Exclusive));
/// # Ok::<(), leasehold_core::Misuse>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim(Arc<[Want]>);

impl Claim {
    /// An exclusive claim on one key.
    #[must_use]
    pub fn exclusive(key: Key) -> Self {
        Self([Want { key, mode: Mode::Exclusive }].into())
    }

    /// An exclusive claim on several keys together. A key named twice counts once.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoKeys`] if there is none: a lock on nothing would exclude nobody.
    pub fn exclusive_all(keys: impl IntoIterator<Item = Key>) -> Result<Self, Misuse> {
        Self::all(keys, Mode::Exclusive)
    }

    /// A shared claim on these keys.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoKeys`] if there is none.
    pub fn shared(keys: impl IntoIterator<Item = Key>) -> Result<Self, Misuse> {
        Self::all(keys, Mode::Shared)
    }

    /// A claim on `weight` of the `of` permits of each of these keys.
    ///
    /// # Errors
    ///
    /// [`Misuse::NoKeys`] if there is none; [`Misuse::PermitsOutOfBounds`], [`Misuse::NoPermits`]
    /// and [`Misuse::TooManyPermits`] if nobody could ever have that many.
    pub fn permits(keys: impl IntoIterator<Item = Key>, weight: u32, of: u32) -> Result<Self, Misuse> {
        Self::all(keys, Mode::permits(weight, of)?)
    }

    /// A shared claim on the same keys.
    #[must_use]
    pub fn reading(&self) -> Self {
        let reading = |want: &Want| Want { key: want.key.clone(), mode: Mode::Shared };
        Self(self.0.iter().map(reading).collect())
    }

    pub(crate) fn all(keys: impl IntoIterator<Item = Key>, mode: Mode) -> Result<Self, Misuse> {
        let mut wants: Vec<Want> = keys.into_iter().map(|key| Want { key, mode }).collect();
        wants.sort();
        wants.dedup();
        if wants.is_empty() { Err(Misuse::NoKeys) } else { Ok(Self(wants.into())) }
    }

    /// The keys and their modes, in byte order of the keys.
    #[must_use]
    pub fn wants(&self) -> &[Want] {
        &self.0
    }

    /// The keys, in byte order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> + Clone {
        self.0.iter().map(|want| &want.key)
    }

    /// The key of an exclusive claim on one key.
    #[must_use]
    pub fn exclusive_key(&self) -> Option<&Key> {
        match self.wants() {
            [want] if want.mode == Mode::Exclusive => Some(&want.key),
            _ => None,
        }
    }

    /// The first key in byte order; every claim has one.
    #[must_use]
    pub fn first_key(&self) -> &Key {
        &self.0[0].key
    }
}

/// One attempt to hold a claim, which is the subject of every request to a store.
///
/// A store grants, renews and releases by the holder id alone. So an attempt that repeats its
/// request is never blocked by its own lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Attempt {
    /// The requested keys and modes.
    pub claim: Claim,
    /// The id of the requester: fresh for every attempt.
    pub holder: Holder,
    /// The holder's description of itself.
    pub label: Option<Label>,
    /// How long the lease is to last after the store has answered this request.
    pub ttl: Ttl,
    /// The agreement that the members of a quorum are to reach, if the store is one of them.
    pub proposal: Option<Proposal>,
    /// The waiters of other libraries that its release is to wake.
    pub signal: Option<Signal>,
}

/// The next holder of what an attempt holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "stores must handle every field")]
pub struct Successor {
    /// Its id: that of no other attempt.
    pub holder: Holder,
    /// Its description of itself.
    pub label: Option<Label>,
}

/// The agreement that the members of a quorum are to reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "stores must handle every field")]
pub struct Proposal {
    /// The fence. It takes the place of the store's clock, which differs from member to member.
    pub fence: Fence,
    /// The longest TTL of the deployment. A member that may have forgotten leases abstains for it.
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

    /// The same attempt by another holder.
    #[must_use]
    pub fn by(&self, holder: Holder) -> Self {
        Self { holder, ..self.clone() }
    }

    /// The same attempt as that of a reader. A renewal by it makes a writer's lease a reader's.
    #[must_use]
    pub fn reading(&self) -> Self {
        Self { claim: self.claim.reading(), ..self.clone() }
    }

    /// The same attempt, whose release also wakes these waiters.
    #[must_use]
    pub const fn with_signal(mut self, signal: Option<Signal>) -> Self {
        self.signal = signal;
        self
    }

    /// How long what it left at a store can last there if nobody asks for the key: its lease for
    /// the TTL, its place in the queue for as long as a queue is kept. For that time it is worth
    /// retrying the release at a store that does not answer or refuses.
    #[must_use]
    pub fn lingers(&self) -> Duration {
        self.ttl.duration().max(WaitQueue::KEPT_FOR)
    }

    /// The request for it to a member of a quorum: under a separate id, with a proposal.
    #[must_use]
    pub fn at_member(&self, holder: Holder, proposal: Proposal) -> Self {
        Self { holder, proposal: Some(proposal), ..self.clone() }
    }
}

/// How the waiters of another library are woken by a release, if they do not poll.
///
/// Only servers have such waiters: other programs cannot wait in a store that they cannot reach.
///
/// ```
/// use leasehold_core::{Key, Signal};
///
/// let list = Signal::PythonRedisLock.place(&Key::new("lock:invoice:42")?);
/// assert_eq!(list.unwrap(), b"lock-signal:invoice:42");
/// # Ok::<(), leasehold_core::Misuse>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// python-redis-lock: waiters for `lock:NAME` block on the list `lock-signal:NAME`, and an
    /// element wakes one of them.
    PythonRedisLock,
}

impl Signal {
    /// The list on which waiters for a key block; `None` if this key has none.
    #[must_use]
    pub fn place(self, key: &Key) -> Option<Vec<u8>> {
        match self {
            Self::PythonRedisLock => {
                key.as_bytes().strip_prefix(b"lock:").map(|name| [b"lock-signal:", name].concat())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    #[test]
    fn several_keys_are_in_byte_order_without_duplicates() {
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
    fn only_an_exclusive_claim_on_one_key_has_an_exclusive_key() {
        let [a, b] = ["a", "b"].map(key);
        assert_eq!(Claim::exclusive(a.clone()).exclusive_key(), Some(&a));
        assert_eq!(Claim::exclusive_all([a.clone(), b]).unwrap().exclusive_key(), None);
        assert_eq!(Claim::shared([a.clone()]).unwrap().exclusive_key(), None);
        assert_eq!(Claim::permits([a], 1, 1).unwrap().exclusive_key(), None);
    }

    #[test]
    fn an_attempt_lingers_for_its_lease_and_at_least_while_a_queue_is_kept() {
        let of = |seconds| {
            let ttl = Ttl::new(Duration::from_secs(seconds)).unwrap();
            Attempt::new(Claim::exclusive(key("k")), Holder::from_bits(1), None, ttl).lingers()
        };
        assert_eq!(of(1), WaitQueue::KEPT_FOR);
        assert_eq!(of(60), Duration::from_secs(60));
    }

    #[test]
    fn a_waiter_of_python_redis_lock_sleeps_only_at_keys_of_its_own_kind() {
        let place = |key: &str| Signal::PythonRedisLock.place(&Key::new(key).unwrap());
        assert_eq!(place("lock:invoice:42").unwrap(), b"lock-signal:invoice:42");
        assert_eq!(place("lock:").unwrap(), b"lock-signal:");
        assert_eq!(place("invoice:42"), None);
        assert_eq!(place("mutex:lock:x"), None);
    }
}
