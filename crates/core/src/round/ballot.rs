//! The count of a renewal or a release.

use std::sync::Arc;

use super::majority_of;
use crate::quorum_report::{MemberVote, QuorumReport};
use crate::{Fault, HoldAnswer, HolderInfo, Key};

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
        held_by: Option<HolderInfo>,
    },
    /// Too many did not answer.
    Unknown,
}

/// The count of the answers to one call. Answers to another call are no votes in it.
///
/// Invariant: done and not held exclude each other, and a fault is neither.
#[derive(Clone, Debug, Hash)]
pub struct Ballot {
    votes: Vec<MemberVote>,
    key: Option<Key>,
}

impl Ballot {
    /// A call to so many members.
    #[must_use]
    pub fn new(members: usize) -> Self {
        Self { votes: vec![MemberVote::Undecided; members], key: None }
    }

    /// A member answered, or ended in a fault; an answer that comes after a fault counts.
    pub fn handle(&mut self, member: usize, answer: Result<HoldAnswer, Fault>) {
        let Some(vote) = self.votes.get_mut(member) else { return };
        *vote = match answer {
            Ok(HoldAnswer::Done) => MemberVote::Agreed,
            Ok(HoldAnswer::NotHeld { key, held_by }) => {
                self.key.get_or_insert(key);
                held_by.map_or(MemberVote::Gone, MemberVote::Held)
            }
            Err(fault) => MemberVote::of(fault),
        };
    }

    /// What it comes to so far. Once it is not open, further answers change it no more, unless it was unknown.
    #[must_use]
    pub fn vote(&self) -> Vote {
        let count = |which: fn(&MemberVote) -> bool| self.votes.iter().filter(|vote| which(vote)).count();
        let needed = majority_of(self.votes.len());
        let done = count(|vote| matches!(vote, MemberVote::Agreed));
        if done >= needed {
            return Vote::Done;
        }
        let gone = count(|vote| matches!(vote, MemberVote::Gone | MemberVote::Held(_)));
        if let Some(key) = self.key.as_ref().filter(|_| self.votes.len() - gone < needed) {
            return Vote::NotHeld { key: key.clone(), held_by: self.successor() };
        }
        let open = count(|vote| matches!(vote, MemberVote::Undecided));
        // While answers are out it may yet turn out to be lost, and that is worth knowing at once.
        if open == 0 || (done + open < needed && self.votes.len() - gone - open >= needed) {
            return Vote::Unknown;
        }
        Vote::Open
    }

    /// What each member said; `names` are in the members' order.
    #[must_use]
    pub fn quorum_report(&self, names: impl Iterator<Item = Arc<str>>, verb: &'static str) -> QuorumReport {
        let members = names.zip(self.votes.iter().cloned()).collect();
        QuorumReport::new(members, majority_of(self.votes.len()), verb)
    }

    /// Who holds it now, if most of those who do not have the lease say that somebody does.
    fn successor(&self) -> Option<HolderInfo> {
        let held = self.votes.iter().filter_map(|vote| match vote {
            MemberVote::Held(held_by) => Some(held_by),
            _ => None,
        });
        let gone = self.votes.iter().filter(|vote| **vote == MemberVote::Gone).count();
        held.clone().next().filter(|_| held.count() >= gone).cloned()
    }
}
