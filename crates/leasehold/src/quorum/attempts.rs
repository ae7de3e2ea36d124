//! The state of one attempt at the members.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::{Attempt, Fence, Holder, Instant};

/// One id of an attempt at one member. Once the id is given up, it is never used again; the next
/// round uses another one.
#[derive(Debug)]
pub(super) struct MemberAttempt {
    pub(super) member: usize,
    pub(super) holder: Holder,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The number of calls under this id.
    asked: u32,
    /// The number of these calls that have not ended.
    under_way: u32,
    given_up: bool,
    release: Release,
    /// At its last answer, the member had the lease.
    had: bool,
    /// The first fence that the member answered.
    fence: Option<Fence>,
    /// The number of messages that reported a break there since the member last answered about this
    /// lease. Anybody who may publish may have sent them.
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
#[derive(Clone, Copy, Debug, Default)]
enum Release {
    #[default]
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

impl MemberAttempt {
    fn new(member: usize, holder: Holder) -> Arc<Self> {
        Arc::new(Self { member, holder, state: Mutex::default() })
    }

    /// Notes that a call is about to be made.
    pub(super) fn asks(&self) {
        let mut state = self.state();
        state.asked += 1;
        state.under_way += 1;
    }

    pub(super) fn was_asked(&self) -> bool {
        self.state().asked > 0
    }

    /// Notes that a call has ended, with or without an answer. Returns true if its effect must be
    /// undone now, and not after a release that is under way.
    pub(super) fn call_ends(&self, with_answer: bool) -> bool {
        let mut state = self.state();
        state.under_way -= 1;
        if let Release::UnderWay { behind_the_only_call, answered, leaves_something } = &mut state.release {
            *(if *behind_the_only_call && with_answer { answered } else { leaves_something }) = true;
            return false;
        }
        state.given_up
    }

    pub(super) fn gives_up(&self) {
        self.state().given_up = true;
    }

    /// Gives the id up, and notes that a release is about to be sent.
    pub(super) fn lets_go(&self) {
        let mut state = self.state();
        state.given_up = true;
        state.release = Release::UnderWay {
            behind_the_only_call: (state.asked, state.under_way) == (1, 1),
            answered: false,
            leaves_something: false,
        };
    }

    /// Notes that the release has ended; `done` says whether something was released. Returns true
    /// if the effect of calls that ended before it must still be undone.
    pub(super) fn let_go(&self, done: bool) -> bool {
        match std::mem::take(&mut self.state().release) {
            Release::None => false,
            Release::UnderWay { answered, leaves_something, .. } => leaves_something || answered && !done,
        }
    }

    /// Notes whether the member has the lease; false if it did not answer.
    pub(super) fn says(&self, has_it: bool) {
        self.state().had = has_it;
    }

    /// Notes that the member granted the lease with this fence.
    pub(super) fn was_granted(&self, fence: Fence) {
        self.state().fence.get_or_insert(fence);
    }

    /// The smallest fence of a record that describes a break of this lease; `agreed` where the
    /// member took the lease later than others.
    pub(super) fn least_fence(&self, agreed: Fence) -> Fence {
        self.state().fence.unwrap_or(agreed)
    }

    /// Notes a message that somebody broke the lease at the member.
    pub(super) fn hears_of_a_break(&self) {
        let mut state = self.state();
        state.rumours = state.rumours.saturating_add(1);
    }

    /// The number of such messages.
    pub(super) fn rumours(&self) -> u32 {
        self.state().rumours
    }

    /// Notes that the member answered after this many messages, and that they were false.
    pub(super) fn denies(&self, rumours: u32) {
        let mut state = self.state();
        state.rumours = state.rumours.saturating_sub(rumours);
    }

    /// Notes that the member's record shows a break of the lease.
    pub(super) fn breaks(&self) {
        self.state().broken = true;
    }

    /// Returns true if messages report a break there, which may be false.
    pub(super) fn may_be_broken(&self) -> bool {
        let state = self.state();
        state.broken || state.rumours > 0
    }

    /// Returns true if the member may take the lease again where it does not have it: if nobody
    /// broke it there and the member did not have it just now. If the member had it just now, it
    /// did not lose the lease through an outage: the lease was broken there, or deleted. If so many
    /// members report this that no majority is left, the lease is lost.
    pub(super) fn may_rejoin(&self) -> bool {
        let state = self.state();
        !state.had && !state.broken
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The stage of an attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It asks all members, as if for the first time.
    Fresh,
    /// It is in the queue of this member, and has nothing anywhere else. If this member's key is
    /// held by somebody who does not hold a majority, `looks_on` says that the attempt asks the
    /// other members too whenever it asks here.
    Queued { line: usize, looks_on: bool },
    /// This member has handed the key over to it; the others are yet to be asked.
    Handed { line: usize },
    /// It holds the line member's key and is in the queues of the keys that others hold, for a
    /// limited time.
    Contested { line: usize, refusers: Vec<usize>, until: Instant },
    /// It has released everything, so that rivals do not collide again.
    Resting { until: Instant },
    /// It is granted, with this fence.
    Held { fence: Fence },
}

impl Stage {
    /// The member in whose queue it is or was.
    pub(super) const fn line(&self) -> Option<usize> {
        match self {
            Self::Queued { line, .. } | Self::Handed { line } | Self::Contested { line, .. } => Some(*line),
            _ => None,
        }
    }
}

/// An attempt and its state at each member.
#[derive(Clone, Debug)]
pub(super) struct QuorumAttempt {
    pub(super) member_attempts: Vec<Arc<MemberAttempt>>,
    pub(super) stage: Stage,
}

impl QuorumAttempt {
    /// The first id at each member is the attempt's own id.
    pub(super) fn new(attempt: &Attempt, members: usize) -> Self {
        let member_attempts = (0..members).map(|member| MemberAttempt::new(member, attempt.holder)).collect();
        Self { member_attempts, stage: Stage::Fresh }
    }

    /// Gives up the id at a member and takes the next one; `None` if nothing was ever sent under
    /// it.
    pub(super) fn drop_member_attempt(&mut self, member: usize) -> Option<Arc<MemberAttempt>> {
        let member_attempt =
            self.member_attempts.get_mut(member).filter(|member_attempt| member_attempt.was_asked())?;
        member_attempt.gives_up();
        let fresh = MemberAttempt::new(member, next_id(member_attempt.holder));
        Some(std::mem::replace(member_attempt, fresh))
    }
}

/// The next id: its last 32 bits are a counter, and the other 96 bits identify the attempt.
fn next_id(holder: Holder) -> Holder {
    let bits = holder.bits();
    let count = bits.wrapping_add(1) & u128::from(u32::MAX);
    Holder::from_bits(bits & !u128::from(u32::MAX) | count)
}

/// Returns true if two ids belong to the same attempt.
pub(super) fn is_same_attempt(one: Holder, other: Holder) -> bool {
    one.bits() >> 32 == other.bits() >> 32
}

/// The attempts of this process with calls in flight or leases at members.
#[derive(Debug, Default)]
pub(super) struct Contests(Mutex<HashMap<Holder, QuorumAttempt>>);

impl Contests {
    /// Reads the state of an attempt, which is created if there is none.
    pub(super) fn enter<T>(
        &self,
        attempt: &Attempt,
        members: usize,
        look: impl FnOnce(&QuorumAttempt) -> T,
    ) -> T {
        look(self.all().entry(attempt.holder).or_insert_with(|| QuorumAttempt::new(attempt, members)))
    }

    pub(super) fn find(&self, holder: Holder) -> Option<QuorumAttempt> {
        self.all().get(&holder).cloned()
    }

    /// The attempt that has this id at a member.
    pub(super) fn find_by_id(&self, member: usize, id: Holder) -> Option<(Holder, QuorumAttempt)> {
        let all = self.all();
        let mut named =
            all.iter().filter(|(_, quorum_attempt)| quorum_attempt.member_attempts[member].holder == id);
        named.next().map(|(attempt, quorum_attempt)| (*attempt, quorum_attempt.clone()))
    }

    /// Changes the state of an attempt, if there is one.
    pub(super) fn with<T>(&self, holder: Holder, change: impl FnOnce(&mut QuorumAttempt) -> T) -> Option<T> {
        self.all().get_mut(&holder).map(change)
    }

    pub(super) fn remove(&self, holder: Holder) -> Option<QuorumAttempt> {
        self.all().remove(&holder)
    }

    pub(super) fn len(&self) -> usize {
        self.all().len()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Holder, QuorumAttempt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_an_attempt_differ_in_their_count_and_never_run_into_anothers() {
        let first = Holder::from_bits((7 << 32) | u128::from(u32::MAX));
        let second = next_id(first);
        assert_ne!(first, second);
        assert!(is_same_attempt(first, second));
        assert!(!is_same_attempt(first, Holder::from_bits(8 << 32)));
    }

    fn attempt(bits: u128) -> Attempt {
        let key = leasehold_core::Key::new("k").unwrap();
        let claim = leasehold_core::Claim::exclusive(key);
        Attempt::new(claim, Holder::from_bits(bits << 32), None, leasehold_core::Ttl::DEFAULT)
    }

    #[test]
    fn a_member_may_take_a_lease_again_unless_it_had_it_just_now_or_it_was_broken_there() {
        let member_attempt = || MemberAttempt::new(0, Holder::from_bits(1));
        let [away, had, broken, lost] = [(); 4].map(|()| member_attempt());
        assert!(away.may_rejoin(), "it was never heard of");
        had.says(true);
        assert!(!had.may_rejoin());
        had.says(false);
        assert!(had.may_rejoin(), "it did not answer since");
        broken.breaks();
        assert!(!broken.may_rejoin() && broken.may_be_broken());
        broken.says(false);
        assert!(!broken.may_rejoin(), "for good");
        lost.says(false);
        assert!(lost.may_rejoin() && !lost.may_be_broken());
    }

    #[test]
    fn a_denial_ends_the_rumours_that_came_before_it_was_asked_for_and_no_later_one() {
        let member_attempt = MemberAttempt::new(0, Holder::from_bits(1));
        member_attempt.hears_of_a_break();
        let before = member_attempt.rumours();
        member_attempt.hears_of_a_break();
        member_attempt.denies(before);
        assert!(member_attempt.may_be_broken() && member_attempt.rumours() == 1);
        member_attempt.denies(1);
        assert!(!member_attempt.may_be_broken());
    }

    #[test]
    fn an_id_under_which_nothing_was_sent_is_kept_and_any_other_is_never_used_again() {
        let ours = attempt(7);
        let mut quorum_attempt = QuorumAttempt::new(&ours, 3);
        assert!(quorum_attempt.drop_member_attempt(1).is_none());
        assert_eq!(quorum_attempt.member_attempts[1].holder, ours.holder);
        quorum_attempt.member_attempts[1].asks();
        let dropped = quorum_attempt.drop_member_attempt(1).unwrap();
        assert!(dropped.call_ends(true) && dropped.holder == ours.holder);
        let fresh = &quorum_attempt.member_attempts[1];
        assert!(fresh.holder != ours.holder && is_same_attempt(fresh.holder, ours.holder));
        assert!(!fresh.was_asked());
        fresh.asks();
        assert!(!fresh.call_ends(true));
        assert!(quorum_attempt.drop_member_attempt(9).is_none(), "there is no such member");
    }

    #[test]
    fn what_was_under_way_when_an_id_was_given_up_is_undone_unless_the_release_did_that() {
        const ANSWERED: bool = true;
        const DONE: bool = true;
        let member_attempt = || {
            let member_attempt = MemberAttempt::new(0, Holder::from_bits(1));
            member_attempt.asks();
            member_attempt
        };
        let ended_before = member_attempt();
        assert!(!ended_before.call_ends(ANSWERED), "nobody has given it up");
        ended_before.lets_go();
        assert!(!ended_before.let_go(!DONE), "nothing is under way");

        let dropped = member_attempt();
        dropped.gives_up();
        assert!(dropped.call_ends(ANSWERED), "no release undoes it");

        let usual = member_attempt();
        usual.lets_go();
        assert!(!usual.call_ends(ANSWERED));
        assert!(!usual.let_go(DONE), "that was what the grant brought");

        let overtaken = member_attempt();
        overtaken.lets_go();
        assert!(!overtaken.call_ends(ANSWERED));
        assert!(overtaken.let_go(!DONE), "the release came first");

        let [unanswered, in_vain] = [(); 2].map(|()| member_attempt());
        for (member_attempt, done) in [(&unanswered, DONE), (&in_vain, !DONE)] {
            member_attempt.lets_go();
            assert!(!member_attempt.call_ends(!ANSWERED), "the release comes first");
            assert!(member_attempt.let_go(done), "something of it may still be on its way");
        }

        // A call may consist of several requests, so one of them may follow the release.
        let [outlasting, in_vain] = [(); 2].map(|()| member_attempt());
        for (member_attempt, done) in [(&outlasting, DONE), (&in_vain, !DONE)] {
            member_attempt.lets_go();
            assert!(!member_attempt.let_go(done), "it is still under way");
            assert!(member_attempt.call_ends(ANSWERED));
        }

        // Regression: a raise under way was undone before the release was sent, so that the release
        // found nothing, and a holder was told of a loss.
        let [two_at_once, renewed] = [(); 2].map(|()| member_attempt());
        renewed.call_ends(ANSWERED);
        for member_attempt in [&two_at_once, &renewed] {
            member_attempt.asks();
            member_attempt.lets_go();
            assert!(!member_attempt.call_ends(ANSWERED), "the release comes first");
            assert!(member_attempt.let_go(DONE), "it may take again what the release let go");
        }
        assert!(two_at_once.call_ends(ANSWERED), "the release has ended");
    }

    #[test]
    fn an_attempt_is_found_by_the_id_that_it_has_at_that_member() {
        let quorum_attempts = Contests::default();
        let [one, other] = [attempt(7), attempt(8)];
        quorum_attempts.enter(&one, 2, |_| ());
        quorum_attempts.enter(&other, 2, |_| ());
        let id = quorum_attempts.with(one.holder, |quorum_attempt| {
            quorum_attempt.member_attempts[1].asks();
            quorum_attempt.drop_member_attempt(1);
            quorum_attempt.member_attempts[1].holder
        });
        let id = id.unwrap();
        let found = |member, id| quorum_attempts.find_by_id(member, id).map(|(holder, _)| holder);
        assert_eq!((found(1, id), found(0, id)), (Some(one.holder), None));
        assert_eq!((found(0, one.holder), found(1, one.holder)), (Some(one.holder), None));
        assert_eq!(found(1, other.holder), Some(other.holder));
        quorum_attempts.remove(one.holder);
        assert_eq!((quorum_attempts.len(), found(1, id)), (1, None));
    }
}
