//! The state that all tasks of a quorum share: the members, and the calls in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use leasehold_core::{
    Attempt, BackgroundRelease, BackgroundReleases, BoxFuture, Drift, Fault, Fence, Holder, Instant,
    Proposal, QuorumReport, Round, Runtime, Store, Ttl, majority_of,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::watch;

use super::attempts::{Contests, MemberAttempt};
use super::health::Health;
use super::member::{Call, End, Member, Said};
use crate::store_handle::rest;

#[derive(Debug)]
pub(super) struct QuorumState {
    pub(super) name: String,
    pub(super) members: Vec<Member>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) drift: Drift,
    pub(super) max_ttl: Ttl,
    pub(super) quorum_attempts: Contests,
    /// The greatest fence that any member has answered.
    last_seen: AtomicU64,
    /// The number of members that answer.
    answering: watch::Sender<usize>,
    pub(super) health: Health,
    pub(super) releases: BackgroundReleases,
}

/// The background release of one id at one member.
struct Undoing {
    quorum: Arc<QuorumState>,
    member: usize,
    attempt: Attempt,
    tell: Option<UnboundedSender<Said<()>>>,
    end: Instant,
}

impl Undoing {
    /// Tries once; returns true if the release is over.
    async fn try_once(&self) -> bool {
        let (runtime, member) = (&*self.quorum.runtime, &self.quorum.members[self.member]);
        let limit = runtime.now() + Member::limit(self.attempt.ttl);
        let answer = tokio::select! {
            biased;
            answer = member.store.give_up(&self.attempt) => answer,
            () = runtime.sleep_until(limit) => Err(member.timed_out()),
        };
        let over = answer.is_ok() || answer.as_ref().is_err_and(Fault::is_lasting);
        self.quorum.ended(self.member, answer.as_ref().err());
        if let Some(tell) = &self.tell {
            // The caller may have gone.
            let _ = tell.send(Box::new((self.member, answer)));
        }
        over || runtime.now() >= self.end
    }

    /// Waits before the next try: longer each time, because there may be thousands of these for a
    /// member that is down; and at once when it is back.
    async fn try_again(&self, tries: u32) -> bool {
        let (runtime, member) = (&*self.quorum.runtime, &self.quorum.members[self.member]);
        let again = runtime.now() + rest(tries, runtime) * (tries + 1);
        tokio::select! {
            () = runtime.sleep_until(again.min(self.end)) => {}
            () = member.answers_again() => {}
        }
        self.try_once().await
    }

    async fn go_on(self: Arc<Self>) {
        for tries in 1.. {
            if self.try_again(tries).await {
                return;
            }
        }
    }
}

/// The attempts of a call to a member that has not ended. It may be dropped together with the async
/// runtime when the program ends; then a release that was answered before undoes nothing of this
/// call.
struct OpenCall {
    quorum: Arc<QuorumState>,
    attempts: Vec<(Attempt, Arc<MemberAttempt>)>,
    unanswered: Option<BackgroundRelease>,
}

impl OpenCall {
    /// Ends the call. An id that is given up later is released after this call, so that nothing of
    /// the call remains.
    fn ends(&mut self, with_answer: bool) {
        for (attempt, member_attempt) in std::mem::take(&mut self.attempts) {
            if member_attempt.call_ends(with_answer) {
                self.quorum.undo(attempt, member_attempt, None, Some(self.quorum.releases.begin()));
            }
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.ends(false);
    }
}

impl QuorumState {
    pub(super) fn new(
        name: String,
        stores: Vec<Arc<dyn Store>>,
        max_ttl: Ttl,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        let drift = stores.iter().map(|store| store.limits().drift).fold(Drift::NONE, Drift::widest);
        let members: Vec<_> = stores.into_iter().map(Member::new).collect();
        let answering = watch::Sender::new(members.len());
        let (quorum_attempts, last_seen) = (Contests::default(), AtomicU64::new(0));
        let health = Health::of(members.len());
        let releases = BackgroundReleases::default();
        Self {
            name,
            members,
            runtime,
            drift,
            max_ttl,
            quorum_attempts,
            last_seen,
            answering,
            health,
            releases,
        }
    }

    pub(super) fn majority(&self) -> usize {
        majority_of(self.members.len())
    }

    /// The names of the members, in configured order.
    pub(super) fn names(&self) -> impl Iterator<Item = Arc<str>> {
        self.members.iter().map(|member| member.name.clone())
    }

    /// The fence to propose to the members: above every fence that this process has seen, or the
    /// clock if that is greater, so that mostly all members answer exactly this fence. It affects
    /// only the number of rounds; members limit it by their own clocks.
    pub(super) fn propose(&self) -> Proposal {
        let clock = u64::try_from(self.runtime.since_epoch().as_micros()).unwrap_or(u64::MAX);
        let proposed = clock.max(self.last_seen.load(Ordering::Relaxed).saturating_add(1));
        self.proposal(Fence::new(proposed).unwrap_or(Fence::MAX))
    }

    pub(super) const fn proposal(&self, fence: Fence) -> Proposal {
        Proposal { fence, max_ttl: self.max_ttl }
    }

    /// Notes that a member answered this fence.
    pub(super) fn sees(&self, fence: Fence) {
        self.last_seen.fetch_max(fence.get(), Ordering::Relaxed);
    }

    /// The first member that answers, in configured order: all processes that know the same order
    /// queue at the same member.
    pub(super) fn line_member(&self) -> usize {
        self.members.iter().position(|member| !member.is_silent()).unwrap_or(0)
    }

    /// Returns true if, as far as is known, a majority answers.
    pub(super) fn has_majority(&self) -> bool {
        *self.answering.borrow() >= self.majority()
    }

    /// Resolves when too few members answer for any grant.
    pub(super) async fn loses_majority(&self) {
        let needed = self.majority();
        // The sender is a field of this struct, so it outlives this future.
        let _ = self.answering.subscribe().wait_for(|answering| *answering < needed).await;
    }

    /// Notes how a call to a member has ended.
    pub(super) fn ended(&self, member: usize, fault: Option<&Fault>) {
        self.note(member, fault.is_some());
        self.health.note(member, &self.members[member].name, fault);
    }

    /// Notes whether a member answers soon enough to wait for it.
    pub(super) fn note(&self, member: usize, silent: bool) {
        if self.members[member].set_silent(silent) {
            let answering = || self.members.iter().filter(|member| !member.is_silent()).count();
            self.answering.send_modify(|count| *count = answering());
        }
    }

    /// Makes a call in a separate task, so that nobody has to wait for it. The effects of a call
    /// whose ids were given up are undone.
    pub(super) fn call<T: Send + 'static>(
        self: &Arc<Self>,
        attempts: Vec<(Attempt, Arc<MemberAttempt>)>,
        member: usize,
        does: BoxFuture<'static, Result<T, Fault>>,
        tell: &UnboundedSender<Said<T>>,
    ) {
        let shortest = attempts.iter().map(|(attempt, _)| attempt.ttl).min();
        let limit = Member::limit(shortest.unwrap_or(self.max_ttl));
        self.call_within(limit, attempts, member, does, tell);
    }

    /// The same with a separate time limit, after which the member counts as silent.
    fn call_within<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        attempts: Vec<(Attempt, Arc<MemberAttempt>)>,
        member: usize,
        does: BoxFuture<'static, Result<T, Fault>>,
        tell: &UnboundedSender<Said<T>>,
    ) {
        attempts.iter().for_each(|(_, member_attempt)| member_attempt.asks());
        let call = Call { member, does, limit, dropped_after: self.max_ttl.duration() };
        // The call's effects may have to be released, so a program that ends waits for its answer.
        let unanswered = (!attempts.is_empty()).then(|| self.releases.begin());
        let mut open = OpenCall { quorum: self.clone(), attempts, unanswered };
        let (quorum, tell) = (self.clone(), tell.clone());
        self.runtime.spawn(Box::pin(async move {
            let ends = |end: End<'_>| {
                quorum.ended(
                    member,
                    match end {
                        End::Answer => None,
                        End::Limit(fault) | End::Fault(fault) => Some(fault),
                    },
                );
                if !matches!(end, End::Limit(_)) {
                    open.ends(end == End::Answer);
                }
                drop(open.unanswered.take());
            };
            call.make(&quorum.members[member], &*quorum.runtime, &tell, ends).await;
        }));
    }

    /// Gives up an attempt's id at a member, and retries for as long as the lease could last there.
    /// Sends the result of each try to the caller; `unheard` ends with the first result. The end of
    /// a program waits for at most two tries.
    pub(super) fn undo(
        self: &Arc<Self>,
        attempt: Attempt,
        member_attempt: Arc<MemberAttempt>,
        tell: Option<UnboundedSender<Said<()>>>,
        mut unheard: Option<BackgroundRelease>,
    ) {
        let attempt = attempt.at_member(member_attempt.holder, self.proposal(Fence::MAX));
        let end = self.runtime.now() + attempt.lingers().max(self.max_ttl.duration());
        let undoing =
            Arc::new(Undoing { quorum: self.clone(), member: member_attempt.member, attempt, tell, end });
        self.runtime.spawn_cleanup(Box::new(move || {
            let (undoing, unheard) = (undoing.clone(), unheard.take());
            Box::pin(async move {
                let over = undoing.try_once().await;
                drop(unheard);
                // The connection may have ended with its runtime; the second try opens a new one.
                if !over && !undoing.try_again(0).await {
                    undoing.quorum.runtime.spawn(Box::pin(undoing.clone().go_on()));
                }
            })
        }));
    }

    /// Gives up the attempt's ids at these members. From now on it uses new ids there.
    pub(super) fn abandon(self: &Arc<Self>, attempt: &Attempt, which: impl Fn(usize) -> bool) {
        let dropped = self.quorum_attempts.with(attempt.holder, |quorum_attempt| {
            let members = (0..quorum_attempt.member_attempts.len()).filter(|member| which(*member));
            members.filter_map(|member| quorum_attempt.drop_member_attempt(member)).collect::<Vec<_>>()
        });
        for member_attempt in dropped.unwrap_or_default() {
            self.undo(attempt.clone(), member_attempt, None, Some(self.releases.begin()));
        }
    }

    /// The attempt's current id at this member.
    pub(super) fn member_attempt(&self, holder: Holder, member: usize) -> Option<Arc<MemberAttempt>> {
        self.quorum_attempts.with(holder, |quorum_attempt| quorum_attempt.member_attempts[member].clone())
    }

    /// Asks all members the same, and waits until the result is decided, or each member has
    /// answered or exceeded `limit`. `enough` is checked after each answer.
    pub(super) async fn ask_all<T: Send + 'static>(
        self: &Arc<Self>,
        limit: Duration,
        does: impl Fn(Arc<dyn Store>) -> BoxFuture<'static, Result<T, Fault>>,
        mut enough: impl FnMut(usize, Result<T, Fault>) -> bool,
    ) {
        let (tell, mut heard) = unbounded_channel();
        for (n, member) in self.members.iter().enumerate() {
            self.call_within(limit, Vec::new(), n, does(member.store.clone()), &tell);
        }
        drop(tell);
        let mut waiting: Vec<_> = (0..self.members.len()).collect();
        while let Some((member, answer)) = heard.recv().await.map(|said| *said) {
            waiting.retain(|waits| *waits != member);
            if enough(member, answer) || waiting.is_empty() {
                return;
            }
        }
    }

    /// The time limit for inspecting one key at a member.
    pub(super) fn look_limit(&self) -> Duration {
        Member::limit(self.max_ttl)
    }

    /// The fault that too few members agreed.
    pub(super) fn fault(&self, kind: leasehold_core::FaultKind, quorum_report: QuorumReport) -> Fault {
        Fault::of_quorum(kind, &self.name, quorum_report)
    }

    /// A warning about an even number of members.
    pub(super) fn one_for_nothing(&self) -> Option<String> {
        let (count, lost) = (self.members.len(), self.members.len() - self.majority());
        count
            .is_multiple_of(2)
            .then(|| format!("{count} stores survive the loss of {lost}, as {} would", count - 1))
    }

    /// The fault that two members turn out to be the same store.
    pub(super) fn same_place_twice(&self) -> Option<Fault> {
        let known: Vec<_> =
            self.members.iter().filter_map(|m| Some((&m.name, m.store.identity()?))).collect();
        let twice = known.iter().enumerate().find_map(|(n, (name, identity))| {
            let (other, _) = known[..n].iter().find(|(_, before)| before == identity)?;
            Some((other, name))
        });
        let (one, other) = twice?;
        let reason = format!("{one} and {other} are one server and would be counted twice: name it once");
        Some(Fault::lasting(&self.name, reason))
    }

    pub(super) fn round(&self, until: Instant) -> Round {
        let leap = u64::try_from(self.runtime.random() & 0x3ff).unwrap_or(0);
        Round::new(self.members.len(), until).leaping(leap)
    }

    /// A random duration between half of this time and the whole.
    pub(super) fn about(&self, whole: Duration) -> Duration {
        part_of(whole, self.runtime.random())
    }
}

/// Half of a duration, plus a random share of the other half.
fn part_of(whole: Duration, drawn: u128) -> Duration {
    let share = u32::try_from(drawn & 0xffff).unwrap_or(0);
    whole / 2 + whole / 2 * share / 0x1_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result depends only on the last 16 bits of the random number.
    #[test]
    fn a_rest_lies_between_half_of_its_time_and_the_whole() {
        let rest = |drawn| part_of(Duration::from_secs(1), drawn);
        let millis = |n| Duration::from_millis(n);
        assert_eq!([0, 0x4000, 0x8000].map(rest), [500, 625, 750].map(millis));
        assert!(rest(0xffff) < millis(1_000) && rest(0xffff) > millis(999));
        assert_eq!(rest(u128::MAX), rest(0xffff));
        assert_eq!(rest(0xffff_0000), rest(0));
    }
}
