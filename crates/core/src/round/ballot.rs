//! The count of a renewal or a release.

use std::sync::Arc;

use super::majority_of;
use crate::tally::{Stance, Tally};
use crate::{Fault, HoldAnswer, Key, Tenancy};

/// What came of a call to all members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum Vote {
    /// It is not decided yet.
    Open,
    /// A majority did it.
    Done,
    /// So many members do not have the lease that no majority can: it is lost.
    NotHeld {
        /// The key that the first of them named.
        key: Key,
        /// Who holds it at most of them, if anybody does.
        held_by: Option<Tenancy>,
    },
    /// Too many did not answer.
    Unknown,
}

/// The count of the answers to one call. Answers to another call are no votes in it.
///
/// Invariant: done and not held exclude each other, and a fault is neither.
#[derive(Clone, Debug, Hash)]
pub struct Ballot {
    stances: Vec<Stance>,
    key: Option<Key>,
}

impl Ballot {
    /// A call to so many members.
    #[must_use]
    pub fn new(members: usize) -> Self {
        Self { stances: vec![Stance::Undecided; members], key: None }
    }

    /// A member answered, or ended in a fault; an answer that comes after a fault counts.
    pub fn handle(&mut self, member: usize, answer: Result<HoldAnswer, Fault>) {
        let Some(stance) = self.stances.get_mut(member) else { return };
        *stance = match answer {
            Ok(HoldAnswer::Done) => Stance::Agreed,
            Ok(HoldAnswer::NotHeld { key, held_by }) => {
                self.key.get_or_insert(key);
                held_by.map_or(Stance::Gone, Stance::Held)
            }
            Err(fault) => Stance::of(fault),
        };
    }

    /// What it comes to so far. Once it is not open, further answers change it no more, unless it was unknown.
    #[must_use]
    pub fn vote(&self) -> Vote {
        let count = |which: fn(&Stance) -> bool| self.stances.iter().filter(|stance| which(stance)).count();
        let needed = majority_of(self.stances.len());
        let done = count(|stance| matches!(stance, Stance::Agreed));
        if done >= needed {
            return Vote::Done;
        }
        let gone = count(|stance| matches!(stance, Stance::Gone | Stance::Held(_)));
        if let Some(key) = self.key.as_ref().filter(|_| self.stances.len() - gone < needed) {
            return Vote::NotHeld { key: key.clone(), held_by: self.successor() };
        }
        let open = count(|stance| matches!(stance, Stance::Undecided));
        // While answers are out it may yet turn out to be lost, and that is worth knowing at once.
        if open == 0 || (done + open < needed && self.stances.len() - gone - open >= needed) {
            return Vote::Unknown;
        }
        Vote::Open
    }

    /// What each member said; `names` are in the members' order.
    #[must_use]
    pub fn tally(&self, names: impl Iterator<Item = Arc<str>>, verb: &'static str) -> Tally {
        let members = names.zip(self.stances.iter().cloned()).collect();
        Tally::new(members, majority_of(self.stances.len()), verb)
    }

    /// Who holds it now, if most of those who do not have the lease say that somebody does.
    fn successor(&self) -> Option<Tenancy> {
        let held = self.stances.iter().filter_map(|stance| match stance {
            Stance::Held(held_by) => Some(held_by),
            _ => None,
        });
        let gone = self.stances.iter().filter(|stance| **stance == Stance::Gone).count();
        held.clone().next().filter(|_| held.count() >= gone).cloned()
    }
}
