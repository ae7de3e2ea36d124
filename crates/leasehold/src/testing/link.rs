//! The link between a process and the store, where outages occur.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    AdminStore, Attempt, BatchServed, BoxFuture, BreakAnswer, BreakRecord, Fault, FaultCause, GrantAnswer,
    HoldAnswer, InspectStore, Key, KeyState, LeaseBreak, Limits, Mark, MarkStore, Marked, MemberStore,
    Notice, Notices, Parts, RaiseAnswer, Runtime, Store, StoreFuture, Successor, TransferStore, WaitMode,
    Wake,
};

use super::world_runtime::{Watched, WorldRuntime};
use super::world_state::{Outage, ProcessId, WorldState};
use crate::memory::MemoryStore;

/// How long a call waits for its answer: the same as on a server.
const CALL_LIMIT: Duration = Duration::from_millis(500);

/// The store as one process reaches it.
#[derive(Debug)]
pub(super) struct Link {
    store: MemoryStore,
    world: Arc<WorldState>,
    process: ProcessId,
    runtime: Arc<WorldRuntime>,
}

impl Link {
    pub(super) fn new(store: &MemoryStore, process: ProcessId, runtime: Arc<WorldRuntime>) -> Self {
        let (store, world) = (store.beside(runtime.clone()), runtime.world.clone());
        Self { store, world, process, runtime }
    }

    /// A call through the link, with the effects of an outage.
    fn call<'a, T: Send + 'a>(
        &'a self,
        call: impl Future<Output = Result<T, Fault>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        let limit = self.runtime.now() + CALL_LIMIT;
        let timed_out = || Fault::passing(self.store.name(), "timed out").caused_by(FaultCause::TimedOut);
        let work = async move {
            loop {
                let mut changed = pin!(self.world.changed.notified());
                changed.as_mut().enable();
                match self.world.outage(self.process) {
                    None => return call.await,
                    Some(Outage::Silent) => tokio::select! {
                        biased;
                        () = changed => {}
                        () = self.runtime.sleep_until(limit) => return Err(timed_out()),
                    },
                    Some(Outage::Down) => {
                        return Err(Fault::passing(self.store.name(), "connection refused"));
                    }
                    Some(Outage::AnswersLost) => {
                        call.await?;
                        self.runtime.sleep_until(limit).await;
                        return Err(timed_out());
                    }
                    Some(Outage::Slow { by }) => {
                        let served = self.runtime.now() + by;
                        self.runtime.sleep_until(served.min(limit)).await;
                        return if served < limit { call.await } else { Err(timed_out()) };
                    }
                    Some(Outage::Refused) => return Err(Fault::lasting(self.store.name(), "not allowed")),
                }
            }
        };
        Box::pin(Watched::part(&self.world, self.process, Box::pin(work)))
    }

    /// A call about several attempts.
    fn call_all<'a>(
        &'a self,
        attempts: &'a [Attempt],
        call: BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>>,
    ) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let whole = self.call(async { Ok(call.await) });
        Box::pin(async { whole.await.unwrap_or_else(|fault| vec![Err(fault); attempts.len()]) })
    }
}

impl Store for Link {
    fn name(&self) -> &str {
        self.store.name()
    }

    fn limits(&self) -> Limits {
        self.store.limits()
    }

    fn open(&self) -> StoreFuture<'_, ()> {
        self.call(self.store.open())
    }

    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer> {
        self.call(self.store.grant(attempt, wait_mode))
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        self.call_all(attempts, self.store.renew(attempts))
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer> {
        self.call(self.store.release(attempt))
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()> {
        self.call(self.store.give_up(attempt))
    }

    /// Wake-ups for a process that is cut off arrive when the outage is over.
    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        let work = async move {
            loop {
                let mut changed = pin!(self.world.changed.notified());
                changed.as_mut().enable();
                if !self.world.is_notified(self.process) {
                    changed.await;
                    continue;
                }
                // Check for a change of the outage first, so that no message passes through an
                // outage.
                tokio::select! {
                    biased;
                    () = changed => {}
                    wake = self.store.woken(attempt) => return wake,
                }
            }
        };
        Box::pin(Watched::part(&self.world, self.process, Box::pin(work)))
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            member: Some(self),
            inspect: Some(self),
            marks: Some(self),
            transfer: Some(self),
            admin: Some(self),
            ..Parts::default()
        }
    }
}

impl MemberStore for Link {
    fn serves_batches(&self) -> bool {
        self.store.serves_batches()
    }

    fn serve_batch<'a>(
        &'a self,
        grants: &'a [&'a Attempt],
        releases: &'a [&'a Attempt],
    ) -> StoreFuture<'a, BatchServed> {
        self.call(self.store.serve_batch(grants, releases))
    }

    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        self.call_all(attempts, self.store.rejoin(attempts))
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, RaiseAnswer> {
        self.call(self.store.raise(attempt))
    }
}

impl TransferStore for Link {
    fn transfer<'a>(&'a self, attempt: &'a Attempt, successor: &'a Successor) -> StoreFuture<'a, HoldAnswer> {
        self.call(self.store.transfer(attempt, successor))
    }
}

impl InspectStore for Link {
    fn inspect<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, KeyState> {
        self.call(self.store.inspect(key))
    }

    fn list<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<KeyState>> {
        self.call(self.store.list(prefix))
    }

    fn notices(&self) -> Option<Box<dyn Notices>> {
        let notices = self.store.notices()?;
        Some(Box::new(ProcessNotices { notices, world: self.world.clone(), process: self.process }))
    }
}

impl MarkStore for Link {
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> StoreFuture<'a, HoldAnswer> {
        self.call(self.store.mark(attempt, mark, keep))
    }

    fn marked<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Marked> {
        self.call(self.store.marked(key))
    }

    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<Mark>> {
        self.call(MarkStore::forget(&self.store, key))
    }

    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<(Key, Marked)>> {
        self.call(self.store.list_marks(prefix))
    }
}

impl AdminStore for Link {
    fn break_lease<'a>(&'a self, key: &'a Key, lease: &'a LeaseBreak) -> StoreFuture<'a, BreakAnswer> {
        self.call(self.store.break_lease(key, lease))
    }

    fn last_break<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<BreakRecord>> {
        self.call(self.store.last_break(key))
    }

    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<BreakRecord>> {
        self.call(self.store.list_breaks(prefix))
    }
}

/// The store's notices to a process. None arrives while it is cut off.
#[derive(Debug)]
struct ProcessNotices {
    notices: Box<dyn Notices>,
    world: Arc<WorldState>,
    process: ProcessId,
}

impl Notices for ProcessNotices {
    fn next(&mut self) -> BoxFuture<'_, Notice> {
        Box::pin(async {
            loop {
                let notice = self.notices.next().await;
                if self.world.is_notified(self.process) {
                    return notice;
                }
            }
        })
    }
}
