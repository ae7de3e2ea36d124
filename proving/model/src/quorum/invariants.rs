//! The invariants.

use std::rc::Rc;

use leasehold_core::{Claim, Fence};

use super::client::{Phase, Shared};
use super::{Flaw, Member, Quorum};
use crate::exclusion::exclude_each_other;
use crate::server::known;

impl Quorum {
    /// Those that share a key with a client: their fences, and whether they exclude each other.
    fn rivals(&self, of: usize) -> impl Iterator<Item = (Fence, bool)> {
        let claim = &self.clients[of].attempt.claim;
        let others = self.clients.iter().enumerate().filter(move |(nth, _)| *nth != of);
        others.filter_map(move |(_, other)| {
            let its = &other.attempt.claim;
            let meets = its.keys().any(|key| claim.keys().any(|own| own == key));
            other.ghost.granted.filter(|_| meets).map(|fence| (fence, exclude_each_other(&[claim, its])))
        })
    }

    pub(super) fn notices_a_request(&mut self, nth: usize) {
        let shared = self.rivals(nth).filter(|(_, exclude)| !exclude);
        let above = shared.map(|(fence, _)| fence).max();
        self.client(nth).ghost.above = above;
    }

    /// A client may have been granted its claim.
    pub(super) fn notices_a_grant(&mut self, client: usize, was_granted: bool) {
        let Phase::Holding { fence, end, .. } = self.clients[client].phase else { return };
        if was_granted {
            return;
        }
        let above = self.clients[client].ghost.above;
        let is_wrong =
            |(other, exclude)| fence == other || fence < other && (exclude || Some(other) <= above);
        if self.rivals(client).any(is_wrong) {
            self.fault = Some("a fence does not rise");
        }
        let fixed = Rc::clone(&self.fixed);
        let it = self.client(client);
        it.ghost.granted = it.ghost.granted.max(Some(fence));
        if end <= self.now.instant() {
            self.client(client).gives_up(&fixed);
        }
    }

    /// The number of members at which a client holds its claim.
    fn held_at(&self, client: &Shared) -> usize {
        let is_held = |(nth, member): &(usize, &Rc<Member>)| {
            member.is_held(&client.attempt.claim, client.machine.holder(*nth), self.now)
        };
        self.members.iter().enumerate().filter(is_held).count()
    }

    pub(super) fn what_is_wrong(&self) -> Option<&'static str> {
        let fault = self.clients.iter().find_map(|client| client.ghost.fault);
        if let Some(fault) = self.fault.or(fault) {
            return Some(fault);
        }
        let majority = self.fixed.settings.majority();
        // A holder whose lease was broken at a majority notices it later.
        let is_orphan = |it: &&Shared| !it.ghost.broken_at.is_empty() && self.held_at(it) < majority;
        let believers = self.clients.iter().filter(|it| it.believes(self.now) && !is_orphan(it));
        let believed: Vec<&Claim> = believers.map(|it| &it.attempt.claim).collect();
        if exclude_each_other(&believed) {
            return Some("two believe that they hold");
        }
        let is_back = |it: &Shared| match it.phase {
            Phase::Holding { fence, .. } => Some(fence) <= it.ghost.broken && self.held_at(it) >= majority,
            _ => false,
        };
        if self.clients.iter().any(is_back) {
            return Some("a broken lease comes back");
        }
        // Without that rule, the ids at a member are not those of the client.
        if self.fixed.has(Flaw::OneIdForAllRounds) {
            return None;
        }
        let is_left = |(nth, member): (usize, &Rc<Member>)| {
            known(&member.records, self.now).any(|id| !self.is_wanted(nth, id) && !self.is_in_flight(nth, id))
        };
        self.members.iter().enumerate().any(is_left).then_some("a lock is left behind")
    }
}
