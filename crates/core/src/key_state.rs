//! A holding as an onlooker sees it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::holder::Label;
use crate::key::Escaped;
use crate::{Fence, Holder, Key, Mode, Stamp};

/// Who sits on a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Owner {
    /// A holder of Leasehold's.
    Holder {
        /// Its id, shown by eight digits.
        holder: Holder,
        /// What it says of itself.
        label: Option<Label>,
    },
    /// Another library's lock, or an operator's: a string that is none of ours.
    Foreign {
        /// The string.
        value: Arc<[u8]>,
    },
    /// Something that is no lock at all: a list, a hash, a stream.
    NotALock,
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// As much of a stranger's value as helps to find its owner.
        const SHOWN: usize = 64;
        match self {
            Self::Holder { holder, label: None } => write!(f, "{holder}"),
            Self::Holder { holder, label: Some(label) } => write!(f, "{label} ({holder})"),
            Self::Foreign { value } if value.len() > SHOWN => {
                write!(f, "another program's lock ({}…)", Escaped(&value[..SHOWN]))
            }
            Self::Foreign { value } => write!(f, "another program's lock ({})", Escaped(value)),
            Self::NotALock => write!(f, "a value that is no lock"),
        }
    }
}

/// One holding as an onlooker sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct HolderInfo {
    /// The key that is held.
    pub key: Key,
    /// Who holds it.
    pub owner: Owner,
    /// How it is held.
    pub mode: Mode,
    /// The fence of the holding, where the store knows it; a foreign lock has none.
    pub fence: Option<Fence>,
    /// How long it will last if it is not renewed; `None` where it never ends by itself.
    pub remaining: Option<Duration>,
}

impl HolderInfo {
    /// A holding of a key, exclusive.
    #[must_use]
    pub const fn exclusive(
        key: Key,
        owner: Owner,
        fence: Option<Fence>,
        remaining: Option<Duration>,
    ) -> Self {
        Self { key, owner, mode: Mode::Exclusive, fence, remaining }
    }

    /// The same, held in another mode.
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
            Some(left) => write!(f, " for {:.1} s more unless renewed", left.as_secs_f64()),
            None => write!(f, " without an end"),
        }
    }
}

/// All that an onlooker can see of a key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct KeyState {
    /// The key.
    pub key: Key,
    /// Who holds it; empty when it is free.
    pub holders: Vec<HolderInfo>,
    /// Who waits for it, first come, first served.
    pub line: Vec<Waiter>,
    /// The store's wall clock when it was looked at: microseconds since 1970. `None` where the store does not say.
    pub clock: Option<Stamp>,
    /// What keeps the holders or waiters, or some of them, from being read, and the remedy: somebody else wrote to the keys next to
    /// this one in which the store keeps them. `None` where all of it can be read.
    pub damage: Option<Arc<str>>,
}

/// Who waits for a key, as an onlooker sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Waiter {
    /// Its id, shown by eight digits.
    pub holder: Holder,
    /// What it says of itself.
    pub label: Option<Label>,
    /// How it wants the key.
    pub mode: Mode,
    /// How long it has waited in this line.
    pub waited: Duration,
}

impl Waiter {
    /// Somebody who has waited so long for a key, to have it alone.
    #[must_use]
    pub const fn exclusive(holder: Holder, label: Option<Label>, waited: Duration) -> Self {
        Self { holder, label, mode: Mode::Exclusive, waited }
    }

    /// The same, who wants it in another mode.
    #[must_use]
    pub fn in_mode(self, mode: Mode) -> Self {
        Self { mode, ..self }
    }
}

impl KeyState {
    /// What is to be seen of a key.
    #[must_use]
    pub const fn new(key: Key, holders: Vec<HolderInfo>, line: Vec<Waiter>) -> Self {
        Self { key, holders, line, clock: None, damage: None }
    }

    /// The same, seen when the store's wall clock showed this.
    #[must_use]
    pub fn at(self, clock: Stamp) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// The same, of which not all can be read, for this reason.
    #[must_use]
    pub fn damaged(self, why: impl Into<Arc<str>>) -> Self {
        Self { damage: Some(why.into()), ..self }
    }

    /// How long the key has been held so, by the store's clock; `None` where that cannot be known.
    ///
    /// It is the time since the fence of the holding, which is the moment of the grant on the clock that [`clock`](Self::clock) is
    /// read from. It is too little when that clock had been set back before the grant, by no more than it was set back, and too much when it was set forward since. In a quorum
    /// it may be wrong by [`Fence::MARGIN`] and by what the clocks of the members differ.
    #[must_use]
    pub fn held_for(&self, holding: &HolderInfo) -> Option<Duration> {
        let since = Stamp::from_micros(holding.fence?.get());
        self.clock.filter(|clock| *clock >= since).map(|clock| since.saturating_until(clock))
    }

    /// Whether it concerns us: another program's string does only where one of ours waits for it. What cannot be read does.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.damage.is_some()
            || !self.line.is_empty()
            || self.holders.iter().any(|holding| matches!(holding.owner, Owner::Holder { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_it_is_held_is_the_time_since_its_fence_and_unknown_without_a_clock_that_is_past_it() {
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

    fn state(owner: Option<Owner>, line: Vec<Waiter>) -> KeyState {
        let key = Key::new("k").unwrap();
        let holders = owner.map(|owner| HolderInfo::exclusive(key.clone(), owner, None, None));
        KeyState::new(key, holders.into_iter().collect(), line)
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
    fn of_a_strangers_value_no_more_is_shown_than_finds_its_owner() {
        let shown = |length| Owner::Foreign { value: vec![b'x'; length].into() }.to_string();
        assert_eq!(shown(3), "another program's lock (xxx)");
        assert_eq!(shown(64), format!("another program's lock ({})", "x".repeat(64)));
        assert_eq!(shown(65), format!("another program's lock ({}…)", "x".repeat(64)));
    }
}
