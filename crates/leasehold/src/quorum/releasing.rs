//! Releasing leases at the members, and giving attempts up.

use std::sync::{Arc, Mutex};

use leasehold_core::{
    Attempt, BackgroundRelease, Ballot, Fault, Fence, HoldAnswer, Holder, Instant, QuorumAttempt, Vote,
    locked,
};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::attempts::SharedAttempt;
use super::batch_request::{Asker, Done, Request};
use super::calls::MemberResult;
use super::member::End;
use super::state::QuorumState;
use crate::lock::rest;

type Answer = Result<HoldAnswer, Fault>;

/// The release of one attempt at all members.
struct Release {
    quorum: Arc<QuorumState>,
    shared: Arc<SharedAttempt>,
    attempt: Attempt,
    /// The attempt's id at each member.
    ids: Vec<Holder>,
    count: Mutex<Count>,
    /// Notified when the result is decided, and after each later answer.
    decided: Notify,
    /// Notified when each member has answered or failed.
    over: Notify,
}

struct Count {
    ballot: Ballot,
    /// The members that have neither answered nor failed.
    open: Vec<usize>,
    /// A program that ends waits for the first result at each member.
    unheard: Option<BackgroundRelease>,
}

impl Release {
    fn new(quorum: &Arc<QuorumState>, attempt: &Attempt) -> Self {
        let shared = quorum.shared(attempt);
        let open: Vec<_> = (0..quorum.members.len()).collect();
        let ids = {
            let mut machine = shared.machine();
            open.iter().map(|member| machine.release(*member)).collect()
        };
        let ballot = Ballot::new(quorum.members.len());
        let count = Count { ballot, open, unheard: Some(quorum.releases.begin()) };
        Self {
            quorum: quorum.clone(),
            shared,
            attempt: attempt.clone(),
            ids,
            count: Mutex::new(count),
            decided: Notify::new(),
            over: Notify::new(),
        }
    }

    /// The attempt at all members that know it by its own id.
    fn there(&self) -> Attempt {
        self.at(self.attempt.holder)
    }

    fn at(&self, id: Holder) -> Attempt {
        self.attempt.at_member(id, self.quorum.proposal(Fence::MAX))
    }

    /// Starts the release at all members. If a member does not answer, its release continues in the
    /// background.
    fn start(self: &Arc<Self>) {
        let there = self.there();
        let in_batches = self.quorum.serves_in_batch(&there);
        let in_batch = |member: &usize| {
            in_batches && self.ids[*member] == there.holder && self.quorum.has_batches(*member)
        };
        let (together, alone): (Vec<_>, Vec<_>) = (0..self.ids.len()).partition(in_batch);
        alone.into_iter().for_each(|member| self.ask(member));
        if together.is_empty() {
            return;
        }
        let (release, generation) = (self.clone(), self.quorum.runtime.generation());
        self.quorum.runtime.spawn_cleanup(Box::new(move || {
            let (release, together) = (release.clone(), together.clone());
            Box::pin(async move {
                let quorum = &release.quorum;
                if quorum.runtime.generation() == generation {
                    let (asker, there) = (release.clone(), release.there());
                    let sends = quorum.queue(Request { asker, there, members: together, is_grant: false });
                    return tokio::select! { () = sends => {} () = release.ends() => {} };
                }
                // The runtime has ended. Its end may wait for this before it drops the task that
                // sends batches, so each member is asked alone, by a cleanup of its own.
                let open = locked(&release.count).open.clone();
                open.into_iter().for_each(|member| release.ask(member));
                release.ends().await;
            })
        }));
    }

    /// Releases at one member, apart from the others.
    fn ask(self: &Arc<Self>, member: usize) {
        let there = self.at(self.ids[member]);
        let release = self.clone();
        self.quorum.runtime.spawn_cleanup(Box::new(move || {
            let (release, there) = (release.clone(), there.clone());
            Box::pin(async move {
                let quorum = &release.quorum;
                let call = quorum.members[member].store.release(&there);
                let answer = quorum.in_time(member, &there, call).await;
                release.handle(member, answer);
            })
        }));
    }

    /// Notes a member's first answer or fault.
    fn handle(&self, member: usize, answer: Answer) {
        if !locked(&self.count).open.contains(&member) {
            return;
        }
        let (quorum, id) = (&self.quorum, self.ids[member]);
        if self.shared.machine().handle_released(member, id, &answer) {
            // A program that ends does not wait for a member that failed to release.
            let unheard = answer.is_ok().then(|| quorum.releases.begin());
            quorum.undo(&self.shared, &self.at(id), member, id, None, unheard);
        }
        let mut count = locked(&self.count);
        count.ballot.handle(member, answer);
        count.open.retain(|open| *open != member);
        if count.open.is_empty() {
            count.unheard = None;
            self.over.notify_waiters();
        }
        let is_decided = count.ballot.vote() != Vote::Open;
        drop(count);
        if is_decided {
            self.decided.notify_one();
        }
    }

    /// Waits until a majority has answered, and the queue member.
    async fn wait(&self) {
        let quorum = &self.quorum;
        // The next requester is refused until the queue member knows of the release, so wait for its
        // answer, as a grant does.
        let queue_member = quorum.queue_member();
        let courtesy = quorum.runtime.now() + QuorumAttempt::COURTESY;
        let mut courtesy = quorum.runtime.sleep_until(courtesy);
        loop {
            let is_decided = {
                let count = locked(&self.count);
                let is_decided = count.ballot.vote() != Vote::Open;
                if is_decided && !count.open.contains(&queue_member) || count.open.is_empty() {
                    return;
                }
                is_decided
            };
            tokio::select! {
                biased;
                () = self.decided.notified() => {}
                () = &mut courtesy, if is_decided => return,
            }
        }
    }

    /// Resolves when each member has answered or failed.
    async fn ends(&self) {
        let over = self.over.notified();
        if !locked(&self.count).open.is_empty() {
            over.await;
        }
    }
}

impl Asker for Release {
    fn is_wanted(&self) -> bool {
        true
    }

    /// Notes how the release in a batch goes. What comes after a fault is ignored.
    fn goes(self: Arc<Self>, _: &Attempt, member: usize, end: End<Done>) {
        if !locked(&self.count).open.contains(&member) {
            return;
        }
        match end {
            End::Answer(Ok(Done::Released)) => self.handle(member, Ok(HoldAnswer::Done)),
            End::Answer(Err(fault)) | End::Late(fault) => self.handle(member, Err(fault)),
            End::Answer(Ok(_)) | End::Dropped => self.ask(member),
        }
    }
}

/// Releases at all members, whatever they answered before, and returns the majority's answer.
pub(super) async fn release(quorum: &Arc<QuorumState>, attempt: &Attempt) -> Answer {
    let release = Arc::new(Release::new(quorum, attempt));
    release.start();
    release.wait().await;
    let ballot = locked(&release.count).ballot.clone();
    let answer = quorum.verdict(&ballot, "released");
    if answer.is_ok() {
        quorum.note_votes(attempt, quorum.votes_in(&ballot, "released"));
        quorum.attempts.remove(attempt.holder);
    }
    answer
}

/// Gives up everything that the attempt has, or may still be granted. Resolves when that is done at
/// all members that answer, and at a majority at least; for the silent ones it continues in the
/// background.
pub(super) async fn give_up(quorum: &Arc<QuorumState>, attempt: &Attempt) -> Result<(), Fault> {
    let shared = quorum.attempts.remove(attempt.holder).unwrap_or_else(|| quorum.unknown(attempt));
    let mut ballot = Ballot::new(quorum.members.len());
    let mut unheard: Vec<_> = (0..quorum.members.len()).collect();
    let (tell, mut heard) = unbounded_channel();
    for member in 0..quorum.members.len() {
        let id = shared.machine().give_up(member);
        let (tell, first) = (Some(tell.clone()), Some(quorum.releases.begin()));
        quorum.undo(&shared, attempt, member, id, tell, first);
    }
    drop(tell);
    while !unheard.is_empty() || ballot.vote() != Vote::Done {
        let Some((member, answer)) = heard.recv().await else { break };
        unheard.retain(|waits| *waits != member);
        ballot.handle(member, answer.map(|()| HoldAnswer::Done));
    }
    quorum.verdict(&ballot, "released").map(drop)
}

/// The background release of one id at one member.
struct Undoing {
    quorum: Arc<QuorumState>,
    shared: Arc<SharedAttempt>,
    member: usize,
    /// The attempt as the member knows it.
    attempt: Attempt,
    tell: Option<UnboundedSender<MemberResult<()>>>,
    end: Instant,
}

impl Undoing {
    /// Tries once; returns true if the release is over.
    async fn try_once(&self) -> bool {
        let (runtime, member) = (&*self.quorum.runtime, &self.quorum.members[self.member]);
        let give_up = member.store.give_up(&self.attempt);
        let answer = self.quorum.in_time(self.member, &self.attempt, give_up).await;
        let over = match &answer {
            Ok(()) => true,
            Err(fault) => fault.is_lasting() || runtime.now() >= self.end,
        };
        if over {
            self.quorum.with(&self.shared, &self.attempt, QuorumAttempt::handle_undone);
        }
        if let Some(tell) = &self.tell {
            // The caller may have gone.
            let _ = tell.send((self.member, answer));
        }
        over
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

impl QuorumState {
    /// Gives up an attempt's id at a member, and retries for as long as the lease could last there.
    /// Sends the result of each try to the caller; `unheard` ends with the first result. The end of
    /// a program waits for at most two tries.
    pub(super) fn undo(
        self: &Arc<Self>,
        shared: &Arc<SharedAttempt>,
        attempt: &Attempt,
        member: usize,
        id: Holder,
        tell: Option<UnboundedSender<MemberResult<()>>>,
        mut unheard: Option<BackgroundRelease>,
    ) {
        let attempt = attempt.at_member(id, self.proposal(Fence::MAX));
        let end = self.runtime.now() + attempt.lingers().max(self.settings.max_ttl.duration());
        let (quorum, shared) = (self.clone(), shared.clone());
        let undoing = Arc::new(Undoing { quorum, shared, member, attempt, tell, end });
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
}
