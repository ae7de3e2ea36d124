//! The count of a renewal or a release.

use std::sync::Arc;

use super::{majority_of, most_named};
use crate::quorum_report::{MemberVote, QuorumReport};
use crate::{Fault, HoldAnswer, HolderInfo, Key};

/// The result of a call to all members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum Vote {
    /// It is not decided yet.
    Open,
    /// A majority has done it.
    Done,
    /// So many members do not have the lease that no majority can: it is lost.
    NotHeld {
        /// The key that the first of them named.
        key: Key,
        /// The holder at most of them, if there is one.
        held_by: Option<HolderInfo>,
    },
    /// Too many did not answer.
    Unknown,
}

/// Counts the answers to one call. Answers to another call do not count.
///
/// Invariant: `Done` and `NotHeld` exclude each other, and a fault is neither.
#[derive(Clone, Debug, Hash)]
pub struct Ballot {
    votes: Vec<MemberVote>,
    key: Option<Key>,
}

impl Ballot {
    /// A call to this many members.
    #[must_use]
    pub fn new(members: usize) -> Self {
        Self { votes: vec![MemberVote::Undecided; members], key: None }
    }

    /// Notes a member's answer or fault; an answer that comes after a fault counts.
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

    /// The result so far. Once decided, further answers do not change it, unless it was unknown.
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
        // While answers are outstanding, the lease may still turn out to be lost, and that should
        // be known at once.
        if open == 0 || (done + open < needed && self.votes.len() - gone - open >= needed) {
            return Vote::Unknown;
        }
        Vote::Open
    }

    /// True if so many members refuse permanently that no majority can agree any more.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        let refusals = self.votes.iter().filter(|vote| vote.is_lasting()).count();
        self.votes.len() - refusals < majority_of(self.votes.len())
    }

    /// The answer of each member; `names` are in the members' order.
    #[must_use]
    pub fn quorum_report(&self, names: impl Iterator<Item = Arc<str>>, verb: &'static str) -> QuorumReport {
        let members = names.zip(self.votes.iter().cloned()).collect();
        QuorumReport::new(members, majority_of(self.votes.len()), verb)
    }

    /// The current holder, if most of the members without the lease report one.
    fn successor(&self) -> Option<HolderInfo> {
        let held = self.votes.iter().filter_map(|vote| match vote {
            MemberVote::Held(held_by) => Some(held_by),
            _ => None,
        });
        let gone = self.votes.iter().filter(|vote| **vote == MemberVote::Gone).count();
        let (most, _) = most_named(held.clone()).filter(|_| held.count() >= gone)?;
        Some(most.clone())
    }
}
