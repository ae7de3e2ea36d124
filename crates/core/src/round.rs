//! Votes: the only place where a majority is counted.
//!
//! The rules are those of *Redlock* with a fence on top, in the manner of the register of Attiya, Bar-Noy and Dolev (*Sharing
//! memory robustly in message-passing systems*, 1995): members answer a fence each, and the greatest is written back to a
//! majority that still holds before anybody may use it.

mod ballot;

pub use ballot::{Ballot, Vote};

use crate::quorum_report::{MemberVote, QuorumReport};
use crate::{Fault, FaultKind, Fence, HolderInfo, Instant};

use std::sync::Arc;

/// How many of so many members are a majority: two majorities always have a member in common.
#[must_use]
pub const fn majority_of(members: usize) -> usize {
    members / 2 + 1
}

/// What to do next for a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "whoever handles these must handle all of them")]
pub enum Turn {
    /// Ask this member for the grant.
    Grant {
        /// Its number.
        member: usize,
    },
    /// Ask this member, which granted, to raise its fence.
    Raise {
        /// Its number.
        member: usize,
        /// To this one.
        fence: Fence,
    },
    /// Wait for answers, but come back at this instant.
    WaitUntil(Instant),
    /// It is granted: a majority have each answered exactly this fence.
    Granted {
        /// The fence.
        fence: Fence,
    },
    /// A majority can no longer grant in time.
    Failed,
}

/// The machine of one round: every member is asked once, and a majority must have answered one and the same fence.
///
/// Invariant: [`Turn::Granted`] names a fence that no member of some majority answered above, and that each member of a majority
/// answered exactly, to a grant or to a raise, while it was the attempt's own.
#[derive(Clone, Debug, Hash)]
pub struct Round {
    states: Vec<State>,
    /// The greatest fence that was answered, or one above it; it never sinks, also when who answered it is lost.
    greatest: Option<Fence>,
    until: Instant,
    /// How far above an answer the next raise goes, where a reader had the fence that was asked for.
    leap: u64,
}

#[derive(Clone, Debug, Hash)]
enum State {
    /// Not asked yet.
    Idle,
    Asked,
    Granted {
        fence: Fence,
        /// The fence that it was asked to raise to.
        raising: Option<Fence>,
    },
    Out(MemberVote),
}

impl Round {
    /// A round of so many members. Past `until` nothing is granted: the lease would have ended.
    #[must_use]
    pub fn new(members: usize, until: Instant) -> Self {
        Self { states: (0..members).map(|_| State::Idle).collect(), greatest: None, until, leap: 0 }
    }

    /// The same with a random leap, of some hundred: readers that raise at once could else go on taking each other's next fence.
    #[must_use]
    pub fn leaping(mut self, leap: u64) -> Self {
        self.leap = leap;
        self
    }

    /// A member granted.
    pub fn handle_granted(&mut self, member: usize, fence: Fence) {
        self.handle_fence(member, fence);
    }

    /// A member raised its fence, to this one or to one that is greater.
    pub fn handle_raised(&mut self, member: usize, fence: Fence) {
        self.handle_fence(member, fence);
    }

    /// A member says that somebody holds the key, or that the attempt does not hold it any more.
    pub fn handle_refused(&mut self, member: usize, held_by: Option<HolderInfo>) {
        self.out(member, held_by.map_or(MemberVote::Gone, MemberVote::Held));
    }

    /// A member did not do what it was asked. An answer that comes later counts all the same.
    pub fn handle_fault(&mut self, member: usize, fault: Fault) {
        self.out(member, MemberVote::of(fault));
    }

    /// A member that refused is to be asked once more, under the same id.
    pub fn ask_again(&mut self, member: usize) {
        if let Some(state @ State::Out(_)) = self.states.get_mut(member) {
            *state = State::Idle;
        }
    }

    /// Whether the member granted, and was not lost since.
    #[must_use]
    pub fn has_granted(&self, member: usize) -> bool {
        matches!(self.states.get(member), Some(State::Granted { .. }))
    }

    /// Whether the member was asked and has not answered the grant, nor ended in a fault.
    #[must_use]
    pub fn awaits(&self, member: usize) -> bool {
        matches!(self.states.get(member), Some(State::Asked))
    }

    /// The members at which somebody else holds the key, and who.
    pub fn held_elsewhere(&self) -> impl Iterator<Item = (usize, &HolderInfo)> {
        self.states.iter().enumerate().filter_map(|(n, state)| match state {
            State::Out(MemberVote::Held(held_by)) => Some((n, held_by)),
            _ => None,
        })
    }

    /// Who else holds the key at a member.
    #[must_use]
    pub fn held_by(&self, member: usize) -> Option<&HolderInfo> {
        match self.states.get(member)? {
            State::Out(MemberVote::Held(held_by)) => Some(held_by),
            _ => None,
        }
    }

    /// Whether somebody else holds the key at so many members that no majority is left.
    #[must_use]
    pub fn is_held_elsewhere(&self) -> bool {
        self.states.len() - self.held_elsewhere().count() < self.majority()
    }

    /// Whether a single holder, told apart by `same`, has the key at a majority: then this is no split vote.
    pub fn is_held_by_one(&self, same: impl Fn(&HolderInfo, &HolderInfo) -> bool) -> bool {
        let held: Vec<_> = self.held_elsewhere().map(|(_, held_by)| held_by).collect();
        held.iter().any(|one| held.iter().filter(|other| same(one, other)).count() >= self.majority())
    }

    /// Whether so many members serve the key, granted or held by others, that a majority could grant once the others go. Of those
    /// that have not answered yet, `hoped` says which are likely to.
    pub fn could_be_won(&self, hoped: impl Fn(usize) -> bool) -> bool {
        let served = |(member, state): &(usize, &State)| match state {
            State::Granted { .. } | State::Out(MemberVote::Held(_) | MemberVote::Gone) => true,
            State::Idle | State::Asked => hoped(*member),
            State::Out(_) => false,
        };
        self.states.iter().enumerate().filter(served).count() >= self.majority()
    }

    /// Whether a majority could grant once the members that abstain vote again.
    #[must_use]
    pub fn waits_for_quarantine(&self) -> bool {
        let abstains = |state: &State| matches!(state, State::Out(MemberVote::Refused(fault)) if fault.kind == FaultKind::Quarantined);
        let serves = |state: &&State| {
            matches!(state, State::Granted { .. } | State::Out(MemberVote::Held(_) | MemberVote::Gone))
                || abstains(state)
        };
        self.states.iter().any(abstains) && self.states.iter().filter(serves).count() >= self.majority()
    }

    /// Whether so many members refuse for good that a majority could not grant whatever the others say.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        let lasting =
            |state: &&State| matches!(state, State::Out(MemberVote::Refused(fault)) if fault.is_lasting());
        self.states.len() - self.states.iter().filter(lasting).count() < self.majority()
    }

    /// What each member said; `names` are in the members' order.
    #[must_use]
    pub fn quorum_report(&self, names: impl Iterator<Item = Arc<str>>) -> QuorumReport {
        let vote = |state: &State| match state {
            State::Idle | State::Asked => MemberVote::Undecided,
            State::Granted { .. } => MemberVote::Agreed,
            State::Out(vote) => vote.clone(),
        };
        let members = names.zip(self.states.iter().map(vote)).collect();
        QuorumReport::new(members, self.majority(), "granted")
    }

    /// What to do next. What it says to ask counts as asked.
    pub fn next(&mut self, now: Instant) -> Turn {
        if now >= self.until {
            return Turn::Failed;
        }
        if let Some(member) = self.states.iter().position(|state| matches!(state, State::Idle)) {
            self.states[member] = State::Asked;
            return Turn::Grant { member };
        }
        let count = |which: fn(&State) -> bool| self.states.iter().filter(|state| which(state)).count();
        let granted = count(|state| matches!(state, State::Granted { .. }));
        let open = count(|state| matches!(state, State::Asked));
        if granted + open < self.majority() {
            return Turn::Failed;
        }
        let Some(greatest) = self.greatest.filter(|_| granted >= self.majority()) else {
            return Turn::WaitUntil(self.until);
        };
        let exactly = |state: &&State| matches!(state, State::Granted { fence, .. } if *fence == greatest);
        if self.states.iter().filter(exactly).count() >= self.majority() {
            return Turn::Granted { fence: greatest };
        }
        for (member, state) in self.states.iter_mut().enumerate() {
            if let State::Granted { fence, raising } = state
                && *fence < greatest
                && *raising < Some(greatest)
            {
                *raising = Some(greatest);
                return Turn::Raise { member, fence: greatest };
            }
        }
        Turn::WaitUntil(self.until)
    }

    fn majority(&self) -> usize {
        majority_of(self.states.len())
    }

    /// A member's answers may overtake each other; its fence never sinks, so the greatest is the latest.
    fn handle_fence(&mut self, member: usize, answered: Fence) {
        let Some(state) = self.states.get_mut(member) else { return };
        *state = match state {
            State::Granted { fence, raising } => {
                if raising.is_some_and(|asked| answered > asked) {
                    let leapt = Fence::new(answered.get().saturating_add(self.leap));
                    self.greatest = self.greatest.max(leapt);
                }
                State::Granted { fence: answered.max(*fence), raising: *raising }
            }
            // Whoever lost the key there does not have it by an answer from before.
            State::Out(MemberVote::Gone | MemberVote::Held(_)) => return,
            _ => State::Granted { fence: answered, raising: None },
        };
        self.greatest = self.greatest.max(Some(answered));
    }

    fn out(&mut self, member: usize, vote: MemberVote) {
        if let Some(state) = self.states.get_mut(member) {
            *state = State::Out(vote);
        }
    }
}

#[cfg(test)]
mod tests;
