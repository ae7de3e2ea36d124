//! One id of an attempt at one member.

use super::MemberAnswer;
use crate::{Fence, GrantAnswer, Holder};

/// One id of an attempt at one member, and what it may have there.
///
/// Once the id is given up, it is never used again. What calls in flight bring then is undone.
#[derive(Clone, Debug, Hash)]
pub(super) struct MemberAttempt {
    pub(super) holder: Holder,
    /// The number of calls under this id, counted up to two.
    asked: u8,
    /// The number of these calls that have not ended.
    under_way: u32,
    given_up: bool,
    release: Release,
    /// At its last answer, the member had the lease.
    had: bool,
    /// The first fence with which the member had the lease, as far as is known: somebody may have broken
    /// it there since.
    fence: Option<Fence>,
    /// The number of messages that reported a break there since the member last answered about this
    /// lease. Anybody who may publish may have sent them. An answer that the lease is gone counts as
    /// one if the member had it just before.
    rumours: u32,
    /// The member's record says that somebody broke the lease there.
    broken: bool,
}

/// A release under this id, and what must be undone after it.
///
/// A call that ends while the release is under way is undone after the release. Otherwise the
/// release could be overtaken by it, and find nothing to release, as if the lease had been lost.
///
/// Usually a release is sent while a slow member has not answered the grant yet, and is answered
/// after the grant. If it answers that something was released, that was the lease of this grant,
/// because nothing else was ever requested under this id. Then nothing more is undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Release {
    None,
    UnderWay {
        /// It was sent after the only call that was ever made under this id, and before the answer
        /// to that call.
        behind_the_only_call: bool,
        /// That call has been answered since.
        answered: bool,
        /// Another call has ended since, or one without an answer.
        leaves_something: bool,
    },
}

/// How a lease is renewed at one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct MemberRenewal {
    /// The attempt's id there.
    pub holder: Holder,
    /// The fence of the lease, if it was granted to this machine, or transferred to it.
    pub fence: Option<Fence>,
    /// Whether the member may take the lease again if it does not have it.
    pub rejoin: Rejoin,
    rumours: u32,
}

/// Whether a member may take a lease again that it does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum Rejoin {
    /// It only renews.
    No,
    /// It may take it again.
    Yes,
    /// The member had the lease, or a message said that it was broken there, which anybody may have
    /// sent. Pass the member's record to
    /// [`handle_last_break`](super::QuorumAttempt::handle_last_break), which decides.
    UnlessBroken,
}

impl MemberAttempt {
    pub(super) const fn new(holder: Holder) -> Self {
        Self {
            holder,
            asked: 0,
            under_way: 0,
            given_up: false,
            release: Release::None,
            had: false,
            fence: None,
            rumours: 0,
            broken: false,
        }
    }

    /// The next id: its last 32 bits are a counter, and the other 96 bits identify the attempt.
    pub(super) const fn next_id(&self) -> Holder {
        let low = u32::MAX as u128;
        let bits = self.holder.bits();
        Holder::from_bits(bits & !low | bits.wrapping_add(1) & low)
    }

    /// Notes that a call is about to be made.
    pub(super) fn asks(&mut self) {
        self.asked = (self.asked + 1).min(2);
        self.under_way += 1;
    }

    pub(super) const fn was_asked(&self) -> bool {
        self.asked > 0
    }

    /// Returns true if calls or a release have not ended.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way > 0 || self.release != Release::None
    }

    /// Notes that a call has ended, with or without an answer. Returns true if its effect must be
    /// undone now, and not after a release that is under way.
    pub(super) const fn call_ends(&mut self, with_answer: bool) -> bool {
        self.under_way -= 1;
        if let Release::UnderWay { behind_the_only_call, answered, leaves_something } = &mut self.release {
            *(if *behind_the_only_call && with_answer { answered } else { leaves_something }) = true;
            return false;
        }
        self.given_up
    }

    pub(super) const fn gives_up(&mut self) {
        self.given_up = true;
    }

    /// Gives the id up, and notes that a release is about to be sent.
    pub(super) const fn lets_go(&mut self) {
        self.given_up = true;
        self.release = Release::UnderWay {
            behind_the_only_call: self.asked == 1 && self.under_way == 1,
            answered: false,
            leaves_something: false,
        };
    }

    /// Notes that the release has ended; `done` says whether something was released. Returns true
    /// if the effect of calls that ended before it must still be undone.
    pub(super) const fn let_go(&mut self, done: bool) -> bool {
        match std::mem::replace(&mut self.release, Release::None) {
            Release::None => false,
            Release::UnderWay { answered, leaves_something, .. } => leaves_something || answered && !done,
        }
    }

    /// Notes the answer to a request for a grant; `None` for a fault.
    pub(super) fn hears(&mut self, answer: Option<&MemberAnswer>) {
        self.had = false;
        if let Some(MemberAnswer::Grant(GrantAnswer::Granted { fence })) = answer {
            self.has(Some(*fence));
        }
    }

    /// Notes that the lease was transferred to this id, as far as anybody knows.
    pub(super) const fn is_successor(&mut self, fence: Fence) {
        self.has(Some(fence));
    }

    const fn has(&mut self, fence: Option<Fence>) {
        self.had = true;
        if self.fence.is_none() {
            self.fence = fence;
        }
    }

    /// How it is renewed, for a lease with this fence.
    ///
    /// If the member had the lease just now and does not have it any more, it did not lose the
    /// lease through an outage: the lease was broken there, or deleted. If so many members report
    /// this that no majority is left, the lease is lost.
    pub(super) const fn renewal(&self, fence: Option<Fence>) -> MemberRenewal {
        let rejoin = match fence {
            None => Rejoin::No,
            Some(_) if self.had || self.broken => Rejoin::No,
            Some(_) if self.fence.is_some() || self.rumours > 0 => Rejoin::UnlessBroken,
            Some(_) => Rejoin::Yes,
        };
        MemberRenewal { holder: self.holder, fence, rejoin, rumours: self.rumours }
    }

    /// Notes the fence of the last break that the member remembers. A break through the quorum is
    /// recorded with the agreed fence, one at this member alone with the member's own fence. If the
    /// record is below both, the break was of an earlier lease.
    pub(super) fn is_unbroken(&mut self, renewal: &MemberRenewal, last: Option<Fence>) -> bool {
        let least = self.fence.into_iter().chain(renewal.fence).min().unwrap_or(Fence::MAX);
        if last.is_some_and(|last| last >= least) {
            self.broken = true;
        } else {
            self.denies(renewal.rumours);
        }
        !self.broken
    }

    /// Notes whether the member has renewed the lease; `None` if it did not answer. If it had the
    /// lease just now and lost it, that is as good as a message that somebody broke it.
    pub(super) const fn is_renewed(&mut self, renewal: &MemberRenewal, has_it: Option<bool>) {
        if self.had && matches!(has_it, Some(false)) {
            self.hears_of_a_break();
        }
        self.had = false;
        if matches!(has_it, Some(true)) {
            self.has(renewal.fence);
            self.denies(renewal.rumours);
        }
    }

    /// Notes a sign that somebody broke the lease at the member.
    pub(super) const fn hears_of_a_break(&mut self) {
        self.rumours = self.rumours.saturating_add(1);
    }

    /// Notes that the member answered after this many messages, and that they were false.
    const fn denies(&mut self, rumours: u32) {
        self.rumours = self.rumours.saturating_sub(rumours);
    }

    /// Returns true if there are signs of a break there, which may be false.
    pub(super) const fn may_be_broken(&self) -> bool {
        self.broken || self.rumours > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member_attempt() -> MemberAttempt {
        MemberAttempt::new(Holder::from_bits(1))
    }

    fn fence(number: u64) -> Fence {
        Fence::new(number).unwrap()
    }

    #[test]
    fn the_ids_of_an_attempt_differ_in_their_count_and_never_run_into_anothers() {
        let first = Holder::from_bits((7 << 32) | u128::from(u32::MAX));
        let second = MemberAttempt::new(first).next_id();
        assert_ne!(first, second);
        assert!(first.is_same_attempt(second));
        assert!(!first.is_same_attempt(Holder::from_bits(8 << 32)));
    }

    #[test]
    fn a_member_may_take_a_lease_again_unless_it_had_it_just_now_or_it_was_broken_there() {
        let rejoin = |id: &MemberAttempt| id.renewal(Some(fence(7))).rejoin;
        let granted = MemberAnswer::Grant(GrantAnswer::Granted { fence: fence(7) });
        let [mut away, mut had, mut broken] = [(); 3].map(|()| member_attempt());
        assert_eq!(rejoin(&away), Rejoin::Yes, "it was never heard of");
        assert_eq!(away.renewal(None).rejoin, Rejoin::No, "it was granted to somebody else");
        away.is_renewed(&away.renewal(Some(fence(7))), Some(true));
        away.is_renewed(&away.renewal(Some(fence(7))), None);
        assert_eq!(rejoin(&away), Rejoin::UnlessBroken, "it took the lease, and did not answer since");
        had.hears(Some(&granted));
        assert_eq!(rejoin(&had), Rejoin::No);
        had.is_renewed(&had.renewal(Some(fence(7))), None);
        assert_eq!(rejoin(&had), Rejoin::UnlessBroken, "it did not answer since");
        had.hears(Some(&granted));
        had.hears(None);
        assert_eq!(rejoin(&had), Rejoin::UnlessBroken, "it failed to answer the next request");
        broken.hears_of_a_break();
        let renewal = broken.renewal(Some(fence(7)));
        assert_eq!(renewal.rejoin, Rejoin::UnlessBroken);
        assert!(!broken.is_unbroken(&renewal, Some(fence(7))));
        assert!(rejoin(&broken) == Rejoin::No && broken.may_be_broken());
        broken.is_renewed(&renewal, Some(false));
        assert_eq!(rejoin(&broken), Rejoin::No, "for good");
        broken.is_renewed(&renewal, Some(true));
        assert!(broken.rumours == 0 && broken.may_be_broken(), "whatever came late");
    }

    /// A member that was not needed for the majority keeps a smaller fence, and one that was slow a
    /// greater one.
    #[test]
    fn a_break_is_recorded_with_the_agreed_fence_or_with_that_of_the_member() {
        for (own, last, is_unbroken) in [(5, 4, true), (5, 5, false), (9, 6, true), (9, 7, false)] {
            let mut id = member_attempt();
            id.hears(Some(&MemberAnswer::Grant(GrantAnswer::Granted { fence: fence(own) })));
            id.is_renewed(&id.renewal(Some(fence(7))), Some(true));
            let renewal = id.renewal(Some(fence(7)));
            assert_eq!(id.is_unbroken(&renewal, Some(fence(last))), is_unbroken, "{own} {last}");
        }
    }

    /// Regression: the member had the lease, and the answer that it does not have it any more was
    /// forgotten. So the second renewal after a break took the lease again if no message had come.
    #[test]
    fn a_member_that_lost_a_lease_without_an_outage_takes_it_again_only_if_its_record_permits() {
        let mut id = member_attempt();
        id.hears(Some(&MemberAnswer::Grant(GrantAnswer::Granted { fence: fence(7) })));
        id.is_renewed(&id.renewal(Some(fence(7))), Some(false));
        let renewal = id.renewal(Some(fence(7)));
        assert!(renewal.rejoin == Rejoin::UnlessBroken && id.may_be_broken());
        id.is_renewed(&renewal, None);
        assert_eq!(id.renewal(Some(fence(7))).rejoin, Rejoin::UnlessBroken, "nobody has read it");
        assert!(id.is_unbroken(&renewal, None), "somebody deleted it");
        assert!(!id.may_be_broken());
    }

    #[test]
    fn a_denial_ends_the_rumours_that_came_before_it_was_asked_for_and_no_later_one() {
        let mut id = member_attempt();
        id.hears_of_a_break();
        let before = id.renewal(Some(fence(7)));
        id.hears_of_a_break();
        assert!(id.is_unbroken(&before, Some(fence(6))), "that was an earlier lease");
        assert!(id.may_be_broken() && id.rumours == 1);
        let now = id.renewal(Some(fence(7)));
        id.is_renewed(&now, Some(true));
        assert!(!id.may_be_broken());
    }

    #[test]
    fn a_call_in_flight_is_undone_after_its_id_was_given_up_unless_a_release_did_that() {
        const ANSWERED: bool = true;
        const DONE: bool = true;
        let asked = || {
            let mut id = member_attempt();
            id.asks();
            id
        };
        let mut ended_before = asked();
        assert!(!ended_before.call_ends(ANSWERED), "nobody has given it up");
        ended_before.lets_go();
        assert!(!ended_before.let_go(!DONE), "nothing is under way");

        let mut dropped = asked();
        dropped.gives_up();
        assert!(dropped.call_ends(ANSWERED), "no release undoes it");

        let mut usual = asked();
        usual.lets_go();
        assert!(!usual.call_ends(ANSWERED));
        assert!(!usual.let_go(DONE), "that was what the grant brought");

        let mut overtaken = asked();
        overtaken.lets_go();
        assert!(!overtaken.call_ends(ANSWERED));
        assert!(overtaken.let_go(!DONE), "the release came first");

        let [unanswered, in_vain] = [(); 2].map(|()| asked());
        for (mut id, done) in [(unanswered, DONE), (in_vain, !DONE)] {
            id.lets_go();
            assert!(!id.call_ends(!ANSWERED), "the release comes first");
            assert!(id.let_go(done), "something of it may still be on its way");
        }

        // A call may consist of several requests, so one of them may follow the release.
        let [outlasting, in_vain] = [(); 2].map(|()| asked());
        for (mut id, done) in [(outlasting, DONE), (in_vain, !DONE)] {
            id.lets_go();
            assert!(!id.let_go(done), "it is still under way");
            assert!(id.call_ends(ANSWERED));
        }

        // Regression: a raise under way was undone before the release was sent, so that the release
        // found nothing, and a holder was told of a loss.
        let [two_at_once, mut renewed] = [(); 2].map(|()| asked());
        renewed.call_ends(ANSWERED);
        for (mut id, others) in [(two_at_once, 1), (renewed, 0)] {
            id.asks();
            id.lets_go();
            assert!(!id.call_ends(ANSWERED), "the release comes first");
            assert!(id.let_go(DONE), "it may take again what the release let go");
            for _ in 0..others {
                assert!(id.call_ends(ANSWERED), "the release has ended");
            }
        }

        let mut renewed_meanwhile = asked();
        renewed_meanwhile.call_ends(ANSWERED);
        renewed_meanwhile.lets_go();
        renewed_meanwhile.asks();
        assert!(!renewed_meanwhile.call_ends(ANSWERED), "the release comes first");
        assert!(renewed_meanwhile.let_go(DONE), "it may take again what the release let go");
    }
}
