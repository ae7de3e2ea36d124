//! A key as observers see it: its holders and its waiters.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::holder::Label;
use crate::key::Escaped;
use crate::{Fence, Holder, Key, Mode, Stamp};

/// The kind of a key's holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Owner {
    /// A holder that uses Leasehold.
    Holder {
        /// Its id, shown by eight digits.
        holder: Holder,
        /// The holder's description of itself.
        label: Option<Label>,
    },
    /// Another library's lock, or an operator's: a string that Leasehold did not write.
    Foreign {
        /// The string.
        value: Arc<[u8]>,
    },
    /// Data that is not a lock: a list, a hash, a stream.
    NotALock,
}

impl Owner {
    /// The id of a holder that uses Leasehold.
    #[must_use]
    pub const fn holder(&self) -> Option<Holder> {
        match self {
            Self::Holder { holder, .. } => Some(*holder),
            _ => None,
        }
    }

    /// Returns true if this is the same owner, whichever members of a quorum [show
    /// it](Holder::is_same_attempt).
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.holder().zip(other.holder()).map_or(self == other, |(one, other)| one.is_same_attempt(other))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Enough of another program's value to find its owner.
        const SHOWN: usize = 64;
        match self {
            Self::Holder { holder, label: None } => write!(f, "{holder}"),
            Self::Holder { holder, label: Some(label) } => write!(f, "{label} ({holder})"),
            Self::Foreign { value } if value.len() > SHOWN => {
                write!(f, "another program's lock ({}…)", Escaped(&value[..SHOWN]))
            }
            Self::Foreign { value } => write!(f, "another program's lock ({})", Escaped(value)),
            Self::NotALock => write!(f, "a value that is not a lock"),
        }
    }
}

/// One holder of a key as observers see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HolderInfo {
    /// The key that is held.
    pub key: Key,
    /// Its owner.
    pub owner: Owner,
    /// The mode in which it is held.
    pub mode: Mode,
    /// The fence of the holding, if the store knows it; another program's lock has none.
    pub fence: Option<Fence>,
    /// How long it will last without renewal; `None` if it never expires.
    pub remaining: Option<Duration>,
}

impl HolderInfo {
    /// An exclusive holding of a key.
    #[must_use]
    pub const fn exclusive(
        key: Key,
        owner: Owner,
        fence: Option<Fence>,
        remaining: Option<Duration>,
    ) -> Self {
        Self { key, owner, mode: Mode::Exclusive, fence, remaining }
    }

    /// The same in another mode.
    #[must_use]
    pub fn in_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
}

impl fmt::Display for HolderInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.owner)?;
        match self.mode {
            Mode::Exclusive => {}
            Mode::Shared => write!(f, " as a reader")?,
            Mode::Permits { weight, of } => write!(f, " with {weight} of {of} permits")?,
        }
        match self.remaining {
            Some(left) if self.owner == Owner::NotALock => {
                write!(f, ", which expires in {:.1} s", left.as_secs_f64())
            }
            None if self.owner == Owner::NotALock => Ok(()),
            Some(left) => write!(f, " for {:.1} s more unless renewed", left.as_secs_f64()),
            None => write!(f, " without an end"),
        }
    }
}

/// Everything that observers can see of a key.
///
/// ```
/// # use leasehold_core::KeyState;
/// fn show(state: &KeyState) {
///     for holder in &state.holders {
///         println!("{}: held by {holder}", state.key);
///     }
///     println!("{} wait", state.waiters.len());
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KeyState {
    /// The key.
    pub key: Key,
    /// Its holders; empty if the key is free.
    pub holders: Vec<HolderInfo>,
    /// Its waiters, in the order of the queue.
    pub waiters: Vec<Waiter>,
    /// The store's wall clock at the reading: microseconds since 1970. `None` if it does not say.
    pub clock: Option<Stamp>,
    /// Why some of the holders or waiters cannot be read, and the remedy: somebody else wrote to
    /// the store's own keys for this key. `None` if everything can be read.
    pub damage: Option<Arc<str>>,
}

/// A waiter of a key, as observers see it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Waiter {
    /// Its id, shown by eight digits.
    pub holder: Holder,
    /// The waiter's description of itself.
    pub label: Option<Label>,
    /// The mode in which it wants the key.
    pub mode: Mode,
    /// How long it has waited in this queue.
    pub waited: Duration,
}

impl Waiter {
    /// A waiter that has waited this long for exclusive access.
    #[must_use]
    pub const fn exclusive(holder: Holder, label: Option<Label>, waited: Duration) -> Self {
        Self { holder, label, mode: Mode::Exclusive, waited }
    }

    /// The same in another mode.
    #[must_use]
    pub fn in_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
}

impl KeyState {
    /// The state of a key.
    #[must_use]
    pub const fn new(key: Key, holders: Vec<HolderInfo>, waiters: Vec<Waiter>) -> Self {
        Self { key, holders, waiters, clock: None, damage: None }
    }

    /// The same, read at this time on the store's wall clock.
    #[must_use]
    pub fn at(self, clock: Stamp) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// The same, but not everything could be read, for this reason.
    #[must_use]
    pub fn damaged(self, why: impl Into<Arc<str>>) -> Self {
        Self { damage: Some(why.into()), ..self }
    }

    /// How long the key has been held, by the store's clock; `None` if that cannot be known.
    ///
    /// It is the time since the fence of the holding, which is the time of the grant on the clock
    /// from which [`clock`](Self::clock) is read. If that clock had been set back before the grant,
    /// the result is too small, at most by the amount of that step; if the clock was set forward
    /// since, it is too great. In a quorum it may be wrong by [`Fence::MARGIN`] plus the difference
    /// of the members' clocks.
    #[must_use]
    pub fn held_for(&self, holding: &HolderInfo) -> Option<Duration> {
        let since = Stamp::from_micros(holding.fence?.get());
        self.clock.filter(|clock| *clock >= since).map(|clock| since.saturating_until(clock))
    }

    /// Returns true if the key concerns Leasehold. Another program's string does only if one of our
    /// requests waits for it; data that cannot be read does.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.damage.is_some()
            || !self.waiters.is_empty()
            || self.holders.iter().any(|holding| holding.owner.holder().is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_for_is_the_time_since_the_fence_and_unknown_if_the_clock_is_behind_it() {
        let key = Key::new("k").unwrap();
        let owner = Owner::Holder { holder: Holder::from_bits(1), label: None };
        let held = HolderInfo::exclusive(key.clone(), owner, Fence::new(5_000_000), None);
        let state = KeyState::new(key.clone(), vec![held.clone()], Vec::new());
        assert_eq!(state.held_for(&held), None);
        let at = |micros| state.clone().at(Stamp::from_micros(micros));
        assert_eq!(at(5_000_000).held_for(&held), Some(Duration::ZERO));
        assert_eq!(at(7_500_000).held_for(&held), Some(Duration::from_millis(2500)));
        assert_eq!(at(4_999_999).held_for(&held), None, "the clock was set back");
        let foreign = HolderInfo::exclusive(key, Owner::NotALock, None, None);
        assert_eq!(at(7_500_000).held_for(&foreign), None);
    }

    /// Regression: a list at the key was reported as held "for 4.0 s more unless renewed", or "without an
    /// end", like a lease.
    #[test]
    fn what_is_not_a_lock_is_not_described_as_a_lease() {
        let list = |left| HolderInfo::exclusive(Key::new("k").unwrap(), Owner::NotALock, None, left);
        let described = list(Some(Duration::from_secs(4))).to_string();
        assert_eq!(described, "a value that is not a lock, which expires in 4.0 s");
        assert_eq!(list(None).to_string(), "a value that is not a lock");
    }

    /// Regression: when the first member of a quorum stopped, and again when it continued, a watch
    /// reported the end of a holding that went on, and a new one.
    #[test]
    fn an_owner_is_the_same_whichever_member_of_a_quorum_shows_it() {
        let owner = |bits| Owner::Holder { holder: Holder::from_bits(bits), label: None };
        let shown = owner((7 << 32) | u128::from(u32::MAX));
        assert!(shown.is_same(&owner(7 << 32)));
        assert!(!shown.is_same(&owner(8 << 32)) && !shown.is_same(&Owner::NotALock));
        let foreign = |value: &[u8]| Owner::Foreign { value: value.into() };
        assert!(foreign(b"x").is_same(&foreign(b"x")) && !foreign(b"x").is_same(&foreign(b"y")));
    }

    fn state(owner: Option<Owner>, waiters: Vec<Waiter>) -> KeyState {
        let key = Key::new("k").unwrap();
        let holders = owner.map(|owner| HolderInfo::exclusive(key.clone(), owner, None, None));
        KeyState::new(key, holders.into_iter().collect(), waiters)
    }

    #[test]
    fn a_key_is_in_use_while_one_of_ours_holds_it_or_waits_for_it() {
        let ours = Owner::Holder { holder: Holder::from_bits(1), label: None };
        let foreign = Owner::Foreign { value: b"x"[..].into() };
        let waiter = Waiter::exclusive(Holder::from_bits(2), None, Duration::ZERO);
        assert!(state(Some(ours), vec![]).is_in_use());
        assert!(state(Some(foreign.clone()), vec![waiter.clone()]).is_in_use());
        assert!(state(None, vec![waiter]).is_in_use());
        assert!(!state(Some(foreign), vec![]).is_in_use());
        assert!(!state(Some(Owner::NotALock), vec![]).is_in_use());
        assert!(state(None, vec![]).damaged("a list").is_in_use());
    }

    #[test]
    fn only_the_part_of_a_foreign_value_that_names_its_owner_is_shown() {
        let shown = |length| Owner::Foreign { value: vec![b'x'; length].into() }.to_string();
        assert_eq!(shown(3), "another program's lock (xxx)");
        assert_eq!(shown(64), format!("another program's lock ({})", "x".repeat(64)));
        assert_eq!(shown(65), format!("another program's lock ({}…)", "x".repeat(64)));
    }
}
