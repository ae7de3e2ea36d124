//! The ids of an attempt at the members, and its stage.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::QuorumSettings;
use super::member::MemberAttempt;
use crate::{Fence, Holder, Instant};

/// The stage of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    /// It asks all members, as if for the first time.
    Fresh,
    /// It is in the queue of this member, and has nothing anywhere else. If this member's key is
    /// held by somebody who does not hold a majority, `looks_on` says that the attempt asks the
    /// other members too whenever it asks here.
    Queued { queue_member: usize, looks_on: bool },
    /// This member has handed the key over to it; the others are yet to be asked.
    Handed { queue_member: usize },
    /// It holds the queue member's key and is in the queues of others' keys, for a limited time.
    Contested { queue_member: usize, refusers: Vec<usize>, until: Instant },
    /// It has released everything, so that rivals do not collide again.
    Resting { until: Instant },
    /// It is granted, with this fence.
    Held { fence: Fence },
}

impl Stage {
    /// The member in whose queue it is or was.
    pub(super) const fn queue_member(&self) -> Option<usize> {
        match self {
            Self::Queued { queue_member, .. }
            | Self::Handed { queue_member }
            | Self::Contested { queue_member, .. } => Some(*queue_member),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Ids {
    pub(super) settings: Arc<QuorumSettings>,
    pub(super) stage: Stage,
    /// The number of the last round.
    pub(super) rounds: u32,
    current: Vec<MemberAttempt>,
    /// Ids that were given up while calls were in flight, and their members.
    past: Vec<(usize, MemberAttempt)>,
    /// Ids that the caller is to give up, and their members.
    undos: Vec<(usize, Holder)>,
    /// The number of ids that the caller is giving up.
    pub(super) undoing: usize,
}

/// Without the settings, which are the same for all, and without the number of the round.
impl Hash for Ids {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.stage, &self.current, &self.past, &self.undos, self.undoing).hash(state);
    }
}

impl Ids {
    pub(super) fn new(settings: Arc<QuorumSettings>, holder: Holder) -> Self {
        let current = settings.members.iter().map(|_| MemberAttempt::new(holder)).collect();
        Self {
            settings,
            stage: Stage::Fresh,
            rounds: 0,
            current,
            past: Vec::new(),
            undos: Vec::new(),
            undoing: 0,
        }
    }

    pub(super) fn holder(&self, member: usize) -> Holder {
        self.current[member].holder
    }

    /// An id that is in use, or that was given up and has calls in flight.
    pub(super) fn find(&mut self, member: usize, holder: Holder) -> Option<&mut MemberAttempt> {
        let current = self.current.get_mut(member).filter(|id| id.holder == holder);
        let mut past = self.past.iter_mut();
        current.or_else(|| past.find(|(at, id)| (*at, id.holder) == (member, holder)).map(|(_, id)| id))
    }

    /// Notes that a call is about to be made under the current id.
    pub(super) fn call_begins(&mut self, member: usize) -> &MemberAttempt {
        let id = &mut self.current[member];
        id.asks();
        id
    }

    pub(super) fn call_ends(&mut self, member: usize, holder: Holder, with_answer: bool) {
        if self.find(member, holder).is_some_and(|id| id.call_ends(with_answer)) {
            self.undos.push((member, holder));
        }
        self.past.retain(|(_, id)| id.is_under_way());
    }

    /// Gives up the ids at these members under which something was sent. From now on the attempt
    /// uses new ids there.
    pub(super) fn abandon(&mut self, which: impl Fn(usize) -> bool) {
        for (member, id) in self.current.iter_mut().enumerate() {
            if !which(member) || !id.was_asked() {
                continue;
            }
            id.gives_up();
            self.undos.push((member, id.holder));
            let fresh = MemberAttempt::new(id.next_id());
            let given_up = std::mem::replace(id, fresh);
            if given_up.is_under_way() {
                self.past.push((member, given_up));
            }
        }
    }

    /// Releases everything at all members, whatever they answered; the next request starts from the
    /// beginning with new ids.
    pub(super) fn begin_anew(&mut self) {
        self.abandon(|_| true);
        self.stage = Stage::Fresh;
    }

    pub(super) fn releases(&mut self, member: usize) -> Holder {
        self.current[member].lets_go();
        self.current[member].holder
    }

    pub(super) fn gives_up(&mut self, member: usize) -> Holder {
        self.undoing += 1;
        self.current[member].gives_up();
        self.current[member].holder
    }

    pub(super) fn undo(&mut self) -> Vec<(usize, Holder)> {
        self.undoing += self.undos.len();
        std::mem::take(&mut self.undos)
    }

    /// Returns true if nothing that was given up is left.
    pub(super) fn is_clean(&self) -> bool {
        self.undos.is_empty() && self.undoing == 0 && self.past.is_empty()
    }

    /// Notes that the lease was transferred to this attempt.
    pub(super) fn is_successor(&mut self, fence: Fence) {
        self.stage = Stage::Held { fence };
        self.current.iter_mut().for_each(|id| id.is_successor(fence));
    }

    pub(super) fn is_broken(&mut self, member: usize, holder: Holder) -> bool {
        let Some(id) = self.current.get_mut(member).filter(|id| id.holder == holder) else { return false };
        id.hears_of_a_break();
        self.current.iter().filter(|id| !id.may_be_broken()).count() < self.settings.majority()
    }
}
