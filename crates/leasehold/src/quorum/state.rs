//! The state that all tasks of a quorum share: the members, and the attempts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::{
    Attempt, BackgroundReleases, BatchQueue, Contended, Drift, Fault, FaultKind, Fence, Holder, Proposal,
    QuorumAttempt, QuorumProcess, QuorumReport, QuorumSettings, QuorumView, Runtime, Store, Ttl, locked,
};
use tokio::sync::watch;

use super::attempts::{Attempts, SharedAttempt};
use super::batch_request::Waiting;
use super::member::{Health, Member};
use crate::recent::Recent;

#[derive(Debug)]
pub(super) struct QuorumState {
    pub(super) settings: Arc<QuorumSettings>,
    pub(super) members: Vec<Member>,
    pub(super) runtime: Arc<dyn Runtime>,
    pub(super) attempts: Attempts,
    /// The greatest fence that any member has answered.
    last_seen: AtomicU64,
    /// The number of members that answer.
    answering: watch::Sender<usize>,
    pub(super) health: Health,
    pub(super) releases: BackgroundReleases,
    /// How the members voted on what nobody has asked about yet, by attempt.
    votes: Mutex<Recent<Holder, Arc<QuorumReport>>>,
    /// What attempts ask of all members.
    pub(super) batches: BatchQueue<Waiting>,
    /// Keys that the quorum refused lately.
    pub(super) contended: Contended,
}

/// The votes of a request are taken directly after its answer.
const VOTES_COUNT_FOR: Duration = Duration::from_secs(5);

impl QuorumState {
    pub(super) fn new(
        name: String,
        stores: Vec<Arc<dyn Store>>,
        max_ttl: Ttl,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        let drift = stores.iter().map(|store| store.limits().drift).fold(Drift::NONE, Drift::widest);
        let members: Vec<_> = stores.into_iter().map(Member::new).collect();
        let random = runtime.random();
        let names = members.iter().map(|member| member.name.clone()).collect();
        Self {
            settings: Arc::new(QuorumSettings { name, members: names, drift, max_ttl }),
            answering: watch::Sender::new(members.len()),
            health: Health::of(members.len()),
            members,
            runtime,
            attempts: Attempts::default(),
            last_seen: AtomicU64::new(0),
            releases: BackgroundReleases::default(),
            votes: Mutex::new(Recent::new(VOTES_COUNT_FOR)),
            batches: BatchQueue::default(),
            contended: Contended::new(random),
        }
    }

    pub(super) fn majority(&self) -> usize {
        self.settings.majority()
    }

    /// The facts that a machine needs now.
    pub(super) fn view(&self) -> QuorumView<'_> {
        QuorumView { now: self.runtime.now(), process: self }
    }

    pub(super) fn proposal(&self, fence: Fence) -> Proposal {
        Proposal { fence, max_ttl: self.settings.max_ttl }
    }

    /// Notes that a member answered this fence.
    pub(super) fn sees(&self, fence: Fence) {
        self.last_seen.fetch_max(fence.get(), Ordering::Relaxed);
    }

    /// Notes that an attempt was refused: its keys are contended.
    pub(super) fn note_refused(&self, attempt: &Attempt) {
        for key in attempt.claim.keys() {
            self.contended.note(self.contended.digest(key), self.runtime.now());
        }
    }

    /// The first member that answers, in configured order.
    pub(super) fn queue_member(&self) -> usize {
        self.view().queue_member(self.members.len())
    }

    /// Resolves when too few members answer for any grant.
    pub(super) async fn loses_majority(&self) {
        let needed = self.majority();
        // The sender is a field of this struct, so it outlives this future.
        let _ = self.answering.subscribe().wait_for(|answering| *answering < needed).await;
    }

    /// Notes how a call to a member has ended; `votes` says whether it asked for its vote.
    pub(super) fn ended(&self, member: usize, fault: Option<&Fault>, votes: bool) {
        self.note(member, fault.is_some());
        self.health.note(member, &self.members[member].name, fault, votes);
    }

    /// Notes whether a member answers soon enough to wait for it.
    pub(super) fn note(&self, member: usize, silent: bool) {
        if self.members[member].set_silent(silent) {
            let answering = || self.members.iter().filter(|member| !member.is_silent()).count();
            self.answering.send_modify(|count| *count = answering());
        }
    }

    /// The attempt after a change; it is created if there is none.
    pub(super) fn enter(
        &self,
        attempt: &Attempt,
        change: impl FnOnce(&mut QuorumAttempt),
    ) -> Arc<SharedAttempt> {
        self.attempts.enter(attempt.holder, || self.unknown(attempt), change)
    }

    /// The attempt, entered or not.
    pub(super) fn shared(&self, attempt: &Attempt) -> Arc<SharedAttempt> {
        self.attempts.find(attempt.holder).unwrap_or_else(|| self.unknown(attempt))
    }

    /// An attempt that no member knows from this process.
    pub(super) fn unknown(&self, attempt: &Attempt) -> Arc<SharedAttempt> {
        let machine = QuorumAttempt::new(self.settings.clone(), attempt.holder);
        SharedAttempt::new(attempt.holder, machine)
    }

    /// Calls the machine, gives up at the members what it no longer wants, and forgets an attempt
    /// that is over once nothing of it is left.
    pub(super) fn with<T>(
        self: &Arc<Self>,
        shared: &Arc<SharedAttempt>,
        attempt: &Attempt,
        change: impl FnOnce(&mut QuorumAttempt) -> T,
    ) -> T {
        let (changed, undos, is_gone) = {
            let mut machine = shared.machine();
            let changed = change(&mut machine);
            (changed, machine.undo(), machine.is_gone())
        };
        for (member, id) in undos {
            self.undo(shared, attempt, member, id, None, Some(self.releases.begin()));
        }
        if is_gone {
            self.attempts.forget_gone(attempt.holder);
        }
        changed
    }

    /// Notes how the members voted on a request of this attempt.
    pub(super) fn note_votes(&self, attempt: &Attempt, votes: QuorumReport) {
        let now = self.runtime.now();
        locked(&self.votes).note(&attempt.holder, now, |_| Arc::new(votes));
    }

    /// How the members voted on the attempt's last request, if that is noted.
    pub(super) fn take_votes(&self, attempt: &Attempt) -> Option<Arc<QuorumReport>> {
        let noted = locked(&self.votes).take(&attempt.holder);
        noted.or_else(|| self.attempts.find(attempt.holder)?.take_votes())
    }

    /// The time limit for inspecting one key at a member.
    pub(super) fn look_limit(&self) -> Duration {
        Member::limit(self.settings.max_ttl)
    }

    /// The fault that too few members agreed; `is_lasting`: because of refusals that last.
    pub(super) fn fault(&self, is_lasting: bool, quorum_report: QuorumReport) -> Fault {
        let kind = if is_lasting { FaultKind::Lasting } else { FaultKind::Passing };
        Fault::of_quorum(kind, &self.settings.name, quorum_report)
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
        Some(Fault::lasting(&self.settings.name, reason))
    }
}

impl QuorumProcess for QuorumState {
    fn is_silent(&self, member: usize) -> bool {
        self.members[member].is_silent()
    }

    fn proposed(&self) -> Fence {
        let clock = u64::try_from(self.runtime.since_epoch().as_micros()).unwrap_or(u64::MAX);
        let proposed = clock.max(self.last_seen.load(Ordering::Relaxed).saturating_add(1));
        Fence::new(proposed).unwrap_or(Fence::MAX)
    }

    fn random(&self) -> u64 {
        self.runtime.random_bits()
    }
}
