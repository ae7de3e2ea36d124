//! The store through which a process talks to a node, with the essentials of the Redis store: one
//! connection, calls with time limits, and a not-after on each request that may create a holder.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, BatchServed, BoxFuture, Drift, Fault, GrantAnswer, HoldAnswer, Holder, InDoubtGrants,
    Instant, Limits, MemberStore, Nonce, Parts, Proof, RaiseAnswer, Request, Runtime, Stamp, Store,
    StoreFuture, Ttl, Wait, WaitMode, WaiterRegistry, Wake, locked,
};

use crate::connection::{Connection, ConnectionState};
use crate::flaw::Flaw;
use crate::machine::Machine;
use crate::message::channel_of;
use crate::world::World;

const CALL: Duration = Duration::from_millis(500);

pub(crate) const CONNECT: Duration = Duration::from_secs(1);

pub(crate) struct NodeStore {
    pub(crate) name: String,
    pub(crate) node: usize,
    pub(crate) world: Arc<World>,
    pub(crate) machine: Arc<Machine>,
    pub(crate) this: Weak<Self>,
    pub(crate) connection: Mutex<ConnectionState>,
    unsettled: InDoubtGrants,
    pub(crate) waiting: WaiterRegistry,
    /// Holders that were granted something here, for a flaw that releases nowhere else.
    granted: Mutex<Vec<Holder>>,
    /// Holders with a call in flight, whose caller undoes a grant that it brings after a release.
    calling: Mutex<Vec<Holder>>,
}

impl NodeStore {
    pub(crate) fn new(world: &Arc<World>, machine: &Arc<Machine>, node: usize) -> Arc<Self> {
        let seed = u64::try_from(machine.random() >> 64).unwrap_or(0);
        Arc::new_cyclic(|this| Self {
            name: format!("n{node}"),
            node,
            world: world.clone(),
            machine: machine.clone(),
            this: this.clone(),
            connection: Mutex::new(ConnectionState::Down),
            unsettled: InDoubtGrants::default(),
            waiting: WaiterRegistry::new(seed),
            granted: Mutex::default(),
            calling: Mutex::default(),
        })
    }

    /// The limit of a call: a quarter of the ttl, between what a slow network needs and `CALL`.
    fn limit(ttl: Ttl) -> Duration {
        CALL.min((ttl.duration() / 4).max(Duration::from_millis(50)))
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.world.flaw == Some(flaw)
    }

    pub(crate) fn fault(&self, reason: &str) -> Fault {
        Fault::passing(&self.name, reason)
    }

    /// The not-after of a request sent now, and the instant when it is surely past.
    fn not_after(&self, connection: &Connection, limit: Duration) -> (Stamp, Instant) {
        let reading = connection.since();
        let not_after = reading.latest(self.machine.now()) + limit;
        (not_after, reading.surely_past(not_after))
    }

    fn refused(&self, answer: &Answer) -> Fault {
        match answer {
            Answer::Quarantined { left } => Fault::quarantined(&self.name, *left),
            _ => Fault::lasting(&self.name, "the answer is to another request"),
        }
    }

    async fn ask(&self, attempt: &Attempt, wait_mode: WaitMode) -> Result<GrantAnswer, Fault> {
        let _calling = self.calling(std::slice::from_ref(attempt));
        let limit = Self::limit(attempt.ttl);
        let connection = self.connection(limit * 5).await?;
        let sent = self.machine.now();
        let waits = matches!(wait_mode, WaitMode::Wait { .. });
        let wait = match wait_mode {
            WaitMode::Wait { queue_limit } => {
                let channel = channel_of(connection.number);
                let nonce = Nonce::from_bits(self.machine.random());
                let proof = Proof { channel: channel.clone(), nonce };
                let ticket = self.waiting.asks(attempt.holder, Some(proof), sent);
                Some(Wait { channel: Some(channel), nonce: Some(nonce), ticket, queue_limit })
            }
            _ => None,
        };
        let (not_after, settles_at) = self.not_after(&connection, limit);
        let request = Request::Grant { attempt: attempt.clone(), wait, not_after: Some(not_after) };
        let sending = self.unsettled.sending(attempt.holder, connection.id(), sent, settles_at);
        let answer = self.call_one(&connection, request, limit).await?;
        self.unsettled.answered([sending]);
        match answer {
            Answer::Grant(answer) => {
                if waits {
                    self.waiting.answered(attempt, &answer, self.machine.now());
                }
                if let GrantAnswer::Granted { .. } = answer {
                    locked(&self.granted).push(attempt.holder);
                }
                Ok(answer)
            }
            other => {
                self.waiting.leave(attempt.holder, self.machine.now());
                Err(self.refused(&other))
            }
        }
    }

    /// Renews or rejoins; returns one answer for each attempt.
    async fn hold(&self, attempts: &[Attempt], rejoins: bool) -> Vec<Result<HoldAnswer, Fault>> {
        let held = self.hold_all(attempts, rejoins).await;
        held.unwrap_or_else(|fault| vec![Err(fault); attempts.len()])
    }

    async fn hold_all(
        &self,
        attempts: &[Attempt],
        rejoins: bool,
    ) -> Result<Vec<Result<HoldAnswer, Fault>>, Fault> {
        let Some(limit) = attempts.iter().map(|attempt| Self::limit(attempt.ttl)).min() else {
            return Ok(Vec::new());
        };
        let _calling = self.calling(attempts);
        let connection = self.connection(limit * 5).await?;
        let sent = self.machine.now();
        let (not_after, settles_at) = self.not_after(&connection, limit);
        let mut sending = Vec::new();
        let mut requests = Vec::new();
        for attempt in attempts.iter().cloned() {
            if rejoins {
                sending.push(self.unsettled.sending(attempt.holder, connection.id(), sent, settles_at));
                requests.push(Request::Rejoin { attempt, not_after: Some(not_after) });
            } else {
                requests.push(Request::Renew(attempt));
            }
        }
        let answers = self.call(&connection, requests, limit).await?;
        self.unsettled.answered(sending);
        let held = answers.into_iter().map(|answer| match answer {
            Answer::Renew(answer) | Answer::Rejoin(answer) => {
                if let HoldAnswer::NotHeld { key, .. } = &answer {
                    self.waiting.ask_for(key, sent);
                }
                Ok(answer)
            }
            other => Err(self.refused(&other)),
        });
        Ok(held.collect())
    }

    /// Releases what the attempt holds, and returns when to release again if a grant is in flight.
    async fn take_back(&self, attempt: &Attempt) -> Result<(HoldAnswer, Option<Instant>), Fault> {
        self.waiting.leave(attempt.holder, self.machine.now());
        let was_granted = || locked(&self.granted).contains(&attempt.holder);
        if self.has(Flaw::ReleasedOnlyWhereGranted) && !was_granted() {
            return Ok((HoldAnswer::Done, None));
        }
        let limit = Self::limit(attempt.ttl);
        let connection = self.connection(limit * 5).await?;
        let sent = self.machine.now();
        match self.call_one(&connection, Request::Release(attempt.clone()), limit).await? {
            Answer::Release(answer) => {
                Ok((answer, self.unsettled.released(attempt.holder, connection.id(), sent)))
            }
            other => Err(self.refused(&other)),
        }
    }

    fn calling(&self, attempts: &[Attempt]) -> Calling<'_> {
        let holders: Vec<_> = attempts.iter().map(|attempt| attempt.holder).collect();
        locked(&self.calling).extend(&holders);
        Calling { store: self, holders }
    }

    fn is_calling(&self, holder: Holder) -> bool {
        locked(&self.calling).contains(&holder)
    }

    /// Releases again in the background, so that no caller waits for a grant in flight.
    fn releases_again(&self, attempt: Attempt, settles_at: Instant) {
        let Some(this) = self.this.upgrade().filter(|_| !self.has(Flaw::LateGrantsNotUndone)) else { return };
        self.machine.spawn(Box::pin(async move {
            this.machine.sleep_until(settles_at).await;
            let end = settles_at + attempt.ttl.duration();
            while this.give_up(&attempt).await.is_err() && this.machine.now() < end {
                this.machine.sleep_until(this.machine.now() + CONNECT).await;
            }
        }));
    }

    pub(crate) fn connection_state(&self) -> MutexGuard<'_, ConnectionState> {
        locked(&self.connection)
    }

    /// The attempt under the id that the node sees.
    fn named(&self, attempt: &Attempt) -> Attempt {
        let mut named = attempt.clone();
        if self.has(Flaw::OneIdForAllRounds) {
            named.holder = Holder::from_bits(attempt.holder.bits() & !u128::from(u32::MAX));
        }
        named
    }
}

/// Attempts with a call in flight, until this is dropped.
struct Calling<'a> {
    store: &'a NodeStore,
    holders: Vec<Holder>,
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        let mut calling = locked(&self.store.calling);
        for holder in &self.holders {
            if let Some(nth) = calling.iter().position(|other| other == holder) {
                calling.swap_remove(nth);
            }
        }
    }
}

impl Store for NodeStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> Limits {
        Limits::with_drift(if self.has(Flaw::NoDrift) { Drift::NONE } else { Drift::BETWEEN_MACHINES })
    }

    fn open(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { self.connection(CONNECT).await.map(drop) })
    }

    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer> {
        Box::pin(async move { self.ask(&self.named(attempt), wait_mode).await })
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let named: Vec<_> = attempts.iter().map(|attempt| self.named(attempt)).collect();
        Box::pin(async move { self.hold(&named, false).await })
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async move {
            let sent = self.machine.now();
            let attempt = self.named(attempt);
            let (answer, settles_at) = self.take_back(&attempt).await?;
            if let Some(settles_at) = settles_at {
                self.releases_again(attempt, settles_at);
            }
            if let HoldAnswer::NotHeld { key, .. } = &answer {
                self.waiting.ask_for(key, sent);
            }
            Ok(answer)
        })
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let attempt = self.named(attempt);
            let alone = !self.is_calling(attempt.holder);
            while let (_, Some(settles_at)) = self.take_back(&attempt).await? {
                if self.has(Flaw::LateGrantsNotUndone) {
                    break;
                }
                self.machine.sleep_until(settles_at).await;
            }
            if alone && !self.is_calling(attempt.holder) {
                self.world.given_up(self.machine.number, self.node, attempt.holder);
            }
            Ok(())
        })
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        Box::pin(async move {
            let holder = self.named(attempt).holder;
            loop {
                let wake = self.waiting.called(holder, &*self.machine).await;
                if wake != Wake::AskAgain || !self.has(Flaw::PushWithoutAsking) {
                    return wake;
                }
            }
        })
    }

    fn parts(&self) -> Parts<'_> {
        Parts { member: Some(self), ..Parts::default() }
    }
}

impl MemberStore for NodeStore {
    fn serves_batches(&self) -> bool {
        true
    }

    fn serve_batch<'a>(
        &'a self,
        grants: &'a [&'a Attempt],
        releases: &'a [&'a Attempt],
    ) -> StoreFuture<'a, BatchServed> {
        let named: Vec<_> = grants.iter().map(|attempt| self.named(attempt)).collect();
        Box::pin(async move {
            let _calling = self.calling(&named);
            BatchServed::one_by_one(self, grants, releases).await
        })
    }

    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let named: Vec<_> = attempts.iter().map(|attempt| self.named(attempt)).collect();
        Box::pin(async move { self.hold(&named, true).await })
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, RaiseAnswer> {
        Box::pin(async move {
            let attempt = self.named(attempt);
            if let Some(proposal) = attempt.proposal.filter(|_| self.has(Flaw::NoRaise)) {
                return Ok(RaiseAnswer::Raised { fence: proposal.fence });
            }
            let limit = Self::limit(attempt.ttl);
            let connection = self.connection(limit * 5).await?;
            match self.call_one(&connection, Request::Raise(attempt), limit).await? {
                Answer::Raise(answer) => Ok(answer),
                other => Err(self.refused(&other)),
            }
        })
    }
}

impl fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodeStore").field(&self.name).finish()
    }
}
