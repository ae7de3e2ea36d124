//! Rounds and votes: the only place where a majority is counted.
//!
//! The rules are those of *Redlock* plus a fence, in the manner of the register of Attiya, Bar-Noy
//! and Dolev (*Sharing memory robustly in message-passing systems*, 1995): each member answers a
//! fence, and the greatest is written back to a majority that still holds before anybody may use
//! it.

mod ballot;

pub use ballot::{Ballot, Vote};

use crate::quorum_report::{MemberVote, QuorumReport};
use crate::{Fault, FaultKind, Fence, HolderInfo, Instant};

use std::sync::Arc;

/// The size of a majority: any two majorities have a member in common.
#[must_use]
pub const fn majority_of(members: usize) -> usize {
    members / 2 + 1
}

/// What a majority of the members shows, if they show the same.
#[must_use]
pub fn shown_by_a_majority<T: PartialEq>(
    shown: impl Iterator<Item = T> + Clone,
    majority: usize,
) -> Option<T> {
    let count = |one: &T| shown.clone().filter(|other| other == one).count();
    shown.clone().find(|one| count(one) >= majority)
}

/// The holder that most of these members name, with the fence that most of them show, and how many
/// name it; the first of several.
fn most_named<'a>(held: impl Iterator<Item = &'a HolderInfo> + Clone) -> Option<(&'a HolderInfo, usize)> {
    let counted = held.clone().map(|one| {
        let same = held.clone().filter(|other| one.owner.is_same(&other.owner));
        let alike = same.clone().filter(|other| one.fence == other.fence);
        (one, (same.count(), alike.count()))
    });
    let (most, (count, _)) = counted.reduce(|most, one| if one.1 > most.1 { one } else { most })?;
    Some((most, count))
}

/// The next step of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum RoundAction {
    /// Request a grant from this member.
    Grant {
        /// Its number.
        member: usize,
    },
    /// Ask this member, which granted, to raise its fence.
    Raise {
        /// Its number.
        member: usize,
        /// The new fence.
        fence: Fence,
    },
    /// Wait for answers, but come back at this instant.
    WaitUntil(Instant),
    /// The round is granted: each member of a majority has answered exactly this fence.
    Granted {
        /// The fence.
        fence: Fence,
    },
    /// A majority can no longer grant in time.
    Failed,
}

/// One round: every member is asked once, and a majority must have answered the same fence.
///
/// Invariant: for the fence of [`RoundAction::Granted`] there is a majority of which no member
/// answered a greater one, and each member of a majority answered exactly this fence, to a grant or
/// to a raise, while the attempt held the key there.
#[derive(Clone, Debug, Hash)]
pub struct Round {
    states: Vec<State>,
    /// The greatest fence that was answered, or one above it; it never falls, even if the member
    /// that answered it is lost.
    greatest: Option<Fence>,
    until: Instant,
    /// How far above an answer the next raise goes, if another reader had the requested fence.
    leap: u64,
}

#[derive(Clone, Debug, Hash)]
enum State {
    /// Not asked yet.
    Idle,
    Asked,
    Granted {
        fence: Fence,
        /// The fence of the raise in flight.
        raising: Option<Fence>,
    },
    Out(MemberVote),
}

impl State {
    /// Returns true if the member granted the key, or would have if others had not held it.
    const fn serves(&self) -> bool {
        matches!(self, Self::Granted { .. } | Self::Out(MemberVote::Held(_) | MemberVote::Gone))
    }
}

impl Round {
    /// A round with this many members. After `until` nothing is granted, because the lease would
    /// have ended. The leap is random, of up to a few hundred: otherwise readers that raise at once
    /// could keep taking each other's next fence.
    #[must_use]
    pub fn new(members: usize, until: Instant, leap: u64) -> Self {
        Self { states: (0..members).map(|_| State::Idle).collect(), greatest: None, until, leap }
    }

    /// Notes the fence of a member that granted, or raised its fence.
    ///
    /// A member's answers may overtake each other. Its fence never falls, so the greatest answer is
    /// the latest.
    pub fn handle_fence(&mut self, member: usize, answered: Fence) {
        let Some(state) = self.states.get_mut(member) else { return };
        *state = match state {
            State::Granted { fence, raising } => {
                if raising.is_some_and(|asked| answered > asked) {
                    let leapt = Fence::new(answered.get().saturating_add(self.leap));
                    self.greatest = self.greatest.max(leapt);
                }
                State::Granted { fence: answered.max(*fence), raising: *raising }
            }
            // An answer from before the loss does not restore a lost lease.
            State::Out(MemberVote::Gone | MemberVote::Held(_)) => return,
            _ => State::Granted { fence: answered, raising: None },
        };
        self.greatest = self.greatest.max(Some(answered));
    }

    /// Notes that somebody else holds the key at a member, or that the attempt no longer does.
    pub fn handle_refused(&mut self, member: usize, held_by: Option<HolderInfo>) {
        self.out(member, held_by.map_or(MemberVote::Gone, MemberVote::Held));
    }

    /// Notes that a member failed or refused. A later answer still counts.
    pub fn handle_fault(&mut self, member: usize, fault: Fault) {
        self.out(member, MemberVote::of(fault));
    }

    /// Makes the round ask a member that refused once more, under the same id.
    pub fn ask_again(&mut self, member: usize) {
        if let Some(state @ State::Out(_)) = self.states.get_mut(member) {
            *state = State::Idle;
        }
    }

    /// Returns true if the member granted, and has not lost the lease since.
    #[must_use]
    pub fn has_granted(&self, member: usize) -> bool {
        matches!(self.states.get(member), Some(State::Granted { .. }))
    }

    /// Returns true if the member was asked for the grant and has neither answered nor failed.
    #[must_use]
    pub fn awaits(&self, member: usize) -> bool {
        matches!(self.states.get(member), Some(State::Asked))
    }

    /// Returns true if nothing but an answer or the end of the round changes what it does next: no
    /// majority has granted, and one still may.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let (mut granted, mut open) = (0, 0);
        for state in &self.states {
            match state {
                State::Idle => return false,
                State::Asked => open += 1,
                State::Granted { .. } => granted += 1,
                State::Out(_) => {}
            }
        }
        granted < self.majority() && granted + open >= self.majority()
    }

    /// The members at which somebody else holds the key, with that holder.
    pub fn held_elsewhere(&self) -> impl Iterator<Item = (usize, &HolderInfo)> + Clone {
        self.states.iter().enumerate().filter_map(|(n, state)| match state {
            State::Out(MemberVote::Held(held_by)) => Some((n, held_by)),
            _ => None,
        })
    }

    /// The other holder of the key at a member.
    #[must_use]
    pub fn held_by(&self, member: usize) -> Option<&HolderInfo> {
        self.held_elsewhere().find_map(|(n, held_by)| (n == member).then_some(held_by))
    }

    /// Returns true if others hold the key at so many members that no majority is left.
    #[must_use]
    pub fn is_held_elsewhere(&self) -> bool {
        self.states.len() - self.held_elsewhere().count() < self.majority()
    }

    /// The holder that has the key at a majority, if there is one: then this is not a split vote.
    #[must_use]
    pub fn held_by_one(&self) -> Option<&HolderInfo> {
        let (most, count) = most_named(self.held_elsewhere().map(|(_, held_by)| held_by))?;
        (count >= self.majority()).then_some(most)
    }

    /// Returns true if so many members serve the key, granted or held by others, that a majority
    /// could grant it once the others release it. Of the members that have not answered yet,
    /// `hoped` says which are likely to.
    pub fn could_be_won(&self, hoped: impl Fn(usize) -> bool) -> bool {
        let served = |(member, state): &(usize, &State)| match state {
            State::Idle | State::Asked => hoped(*member),
            _ => state.serves(),
        };
        self.states.iter().enumerate().filter(served).count() >= self.majority()
    }

    /// Returns true if a majority could grant once the members that abstain vote again.
    #[must_use]
    pub fn waits_for_quarantine(&self) -> bool {
        let abstains = |state: &State| matches!(state, State::Out(MemberVote::Refused(fault)) if fault.kind == FaultKind::Quarantined);
        let votes = |state: &&State| state.serves() || abstains(state);
        self.states.iter().any(abstains) && self.states.iter().filter(votes).count() >= self.majority()
    }

    /// True if so many members refuse permanently that no majority can grant any more.
    #[must_use]
    pub fn is_hopeless(&self) -> bool {
        let refuses = |state: &&State| matches!(state, State::Out(vote) if vote.is_lasting());
        self.states.len() - self.states.iter().filter(refuses).count() < self.majority()
    }

    /// The answer of each member; `names` are in the members' order.
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

    /// The next step. A request that it returns counts as sent.
    pub fn next(&mut self, now: Instant) -> RoundAction {
        if now >= self.until {
            return RoundAction::Failed;
        }
        if let Some(member) = self.states.iter().position(|state| matches!(state, State::Idle)) {
            self.states[member] = State::Asked;
            return RoundAction::Grant { member };
        }
        let count = |which: fn(&State) -> bool| self.states.iter().filter(|state| which(state)).count();
        let granted = count(|state| matches!(state, State::Granted { .. }));
        let open = count(|state| matches!(state, State::Asked));
        if granted + open < self.majority() {
            return RoundAction::Failed;
        }
        let Some(greatest) = self.greatest.filter(|_| granted >= self.majority()) else {
            return RoundAction::WaitUntil(self.until);
        };
        let exactly = |state: &&State| matches!(state, State::Granted { fence, .. } if *fence == greatest);
        if self.states.iter().filter(exactly).count() >= self.majority() {
            return RoundAction::Granted { fence: greatest };
        }
        for (member, state) in self.states.iter_mut().enumerate() {
            if let State::Granted { fence, raising } = state
                && *fence < greatest
                && *raising < Some(greatest)
            {
                *raising = Some(greatest);
                return RoundAction::Raise { member, fence: greatest };
            }
        }
        RoundAction::WaitUntil(self.until)
    }

    fn majority(&self) -> usize {
        majority_of(self.states.len())
    }

    fn out(&mut self, member: usize, vote: MemberVote) {
        if let Some(state) = self.states.get_mut(member) {
            *state = State::Out(vote);
        }
    }
}

#[cfg(test)]
mod tests;
