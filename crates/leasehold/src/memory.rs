//! The store in this process's memory.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::{
    AdminStore, ApplyContext, Attempt, BatchServed, BoxFuture, BreakAnswer, BreakRecord, Drift, Fault, Fence,
    GrantAnswer, HoldAnswer, InspectStore, Instant, Key, KeyState, LeaseBreak, Limits, Mark, MarkStore,
    Marked, MemberStore, Notice, NoticeBus, Notices, Parts, PushEvent, Quarantined, RaiseAnswer, Records,
    Runtime, Served, Stamp, Store, StoreFuture, Successor, TransferStore, Wait, WaitMode, WaiterRegistry,
    Wake, locked, serve,
};
use tokio::task::coop::consume_budget;

/// Leases in this process's memory: for programs of one process, and for tests.
///
/// Waiters are served in the order in which they came. Fences rise even from one run of the program
/// to the next, as long as the machine's clock is not set back in between.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{AnyStore, Locks, MemoryStore, Store, TokioRuntime};
/// use std::{sync::Arc, time::Duration};
///
/// let runtime = Arc::new(TokioRuntime::current().expect("called within a runtime"));
/// let member = |name| -> AnyStore {
///     let store: Arc<dyn Store> = Arc::new(MemoryStore::new(runtime.clone()).named(name));
///     store.into()
/// };
/// let locks = Locks::quorum(["a", "b", "c"].map(member), Duration::from_secs(60))?;
/// # drop(locks);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct MemoryStore {
    name: Arc<str>,
    runtime: Arc<dyn Runtime>,
    waiting: Arc<WaiterRegistry>,
    shared: Arc<Shared>,
    /// For whoever reads first: a lease may be broken before its holder has begun to read.
    first_notices: Mutex<Option<Box<dyn Notices>>>,
}

/// The records that several stores share; see [`beside`](MemoryStore::beside).
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    notice_bus: NoticeBus,
}

#[derive(Debug, Default)]
struct State {
    records: Records,
    /// The waiters of each store that shares these records.
    waiting: Vec<Arc<WaiterRegistry>>,
    /// The number of records after the last sweep.
    swept: usize,
}

impl MemoryStore {
    /// A store without any lease.
    #[must_use]
    pub fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self::over("memory:".into(), runtime, Arc::default())
    }

    /// A store on the same records, as another process would have it: with its own waiters, which
    /// this runtime serves.
    #[cfg(feature = "testing")]
    pub(crate) fn beside(&self, runtime: Arc<dyn Runtime>) -> Self {
        Self::over(self.name.clone(), runtime, self.shared.clone())
    }

    fn over(name: Arc<str>, runtime: Arc<dyn Runtime>, shared: Arc<Shared>) -> Self {
        let waiting = Arc::new(WaiterRegistry::new(runtime.random_bits()));
        locked(&shared.state).waiting.push(waiting.clone());
        let first_notices = Mutex::new(Some(shared.notice_bus.read()));
        Self { name, runtime, waiting, shared, first_notices }
    }

    /// The same store under the name `memory:` plus this name, so that several of them can form a
    /// quorum in a test.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: format!("memory:{name}").into(), ..self }
    }

    /// All records of the store. For tests and diagnosis.
    #[must_use]
    pub fn dump(&self) -> Records {
        self.with(|state, context| {
            state.records.forget_ended(context.now);
            state.records.forget_ended_marks(Stamp::from_micros(context.floor.get()));
            state.records.clone()
        })
    }

    /// The number of waiting attempts. For tests and diagnosis.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Deletes all records, like a server that restarts without its state. For tests of the
    /// consequences.
    pub fn forget(&self) {
        self.with(|state, context| {
            state.records = Records::default();
            state.records.voided = Some(context.now);
        });
    }

    /// Deletes the data at a key without notifying anybody, as an operator can. `false` if there is
    /// none.
    #[cfg(feature = "testing")]
    pub(crate) fn delete(&self, key: &Key) -> bool {
        self.with(|state, context| {
            let held = state.records.lock(key, context.now).is_some();
            state.records.locks.remove(key);
            state.records.shares.remove(key);
            held
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut State, &ApplyContext<'_>) -> T) -> T {
        let mut state = locked(&self.shared.state);
        let now = self.runtime.now().as_nanos() / 1000;
        let wall = u64::try_from(self.runtime.since_epoch().as_micros()).unwrap_or(u64::MAX);
        let floor = Fence::new(wall).unwrap_or(Fence::MAX);
        work(&mut state, &ApplyContext::new(Stamp::from_micros(now), floor))
    }

    /// Serves a request and notifies those whom it concerns. Both happen under one mutex, so that
    /// notices arrive in order.
    fn serve<T>(
        &self,
        request: impl FnOnce(&mut Records, &ApplyContext<'_>) -> Result<Served<T>, Quarantined>,
    ) -> Result<T, Fault> {
        self.with(|state, context| {
            let served = request(&mut state.records, context);
            let Served { answer, mut pushes, mut unfinished } =
                served.map_err(|Quarantined { left }| Fault::quarantined(self.name(), left))?;
            while !unfinished.is_empty() {
                let more = serve::advance(&mut state.records, &unfinished, context);
                pushes.extend(more.pushes);
                unfinished = more.unfinished;
            }
            let now = instant_of(context);
            for push in pushes {
                if push.event == PushEvent::Broken {
                    self.shared.notice_bus.say(&Notice::Broken { holder: push.holder });
                    continue;
                }
                // A waiter that is no longer here is about to release what it got.
                for waiting in &state.waiting {
                    let _ = waiting.hears(push.holder, push.event, None, now, now);
                }
            }
            state.sweep(context);
            Ok(answer)
        })
    }

    /// Serves a request that notifies nobody.
    fn serve_quietly<'a, T: 'a>(
        &'a self,
        request: impl FnOnce(&mut Records, &ApplyContext<'_>) -> T + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { self.serve(|records, context| Ok(Served::quietly(request(records, context)))) })
    }
}

/// The store's clock is that of its runtime.
const fn instant_of(context: &ApplyContext<'_>) -> Instant {
    Instant::from_nanos(context.now.as_micros() * 1000)
}

/// Shows only the name; [`dump`](MemoryStore::dump) returns the records.
impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("name", &self.name).finish_non_exhaustive()
    }
}

impl State {
    /// Removes ended records each time their number has doubled, so that the cost per request is
    /// constant.
    fn sweep(&mut self, context: &ApplyContext<'_>) {
        const FEW: usize = 1024;
        if self.count() > FEW.max(2 * self.swept) {
            self.records.forget_ended(context.now);
            self.records.forget_ended_marks(Stamp::from_micros(context.floor.get()));
            self.swept = self.count();
        }
    }

    fn count(&self) -> usize {
        let Records { locks, shares, fences, queues, marks, breaks, .. } = &self.records;
        breaks.len() + locks.len() + shares.len() + fences.len() + queues.len() + marks.len()
    }
}

/// Nothing here waits, so a task that sends one request after the other would block all other tasks of
/// its thread if its requests did not consume its budget.
impl Store for MemoryStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn limits(&self) -> Limits {
        Limits::with_drift(Drift::ON_ONE_CLOCK)
    }

    fn open(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer> {
        Box::pin(async move {
            consume_budget().await;
            // Under one mutex, so that nothing happens between the refusal and joining the queue.
            self.serve(|records, context| {
                let WaitMode::Wait { queue_limit } = wait_mode else {
                    return serve::grant(records, attempt, None, None, context);
                };
                let now = instant_of(context);
                let ticket = self.waiting.asks(attempt.holder, None, now);
                let wait = Wait { ticket, queue_limit, ..Wait::default() };
                let served = serve::grant(records, attempt, Some(&wait), None, context);
                match &served {
                    Ok(served) => self.waiting.answered(attempt, &served.answer, now),
                    Err(_) => {
                        self.waiting.leave(attempt.holder, now);
                    }
                }
                served
            })
        })
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(async move {
            consume_budget().await;
            let renew = |attempt| self.serve(|records, context| serve::renew(records, attempt, context));
            attempts.iter().map(renew).collect()
        })
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async move {
            consume_budget().await;
            self.serve(|records, context| {
                self.waiting.leave(attempt.holder, instant_of(context));
                Ok(serve::release(records, attempt, context))
            })
        })
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.release(attempt).await.map(drop) })
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        self.waiting.called(attempt.holder, &*self.runtime)
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

impl MemberStore for MemoryStore {
    fn serves_batches(&self) -> bool {
        true
    }

    fn serve_batch<'a>(
        &'a self,
        grants: &'a [&'a Attempt],
        releases: &'a [&'a Attempt],
    ) -> StoreFuture<'a, BatchServed> {
        Box::pin(BatchServed::one_by_one(self, grants, releases))
    }

    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(async move {
            let rejoin =
                |attempt| self.serve(|records, context| serve::rejoin(records, attempt, None, context));
            attempts.iter().map(rejoin).collect()
        })
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, RaiseAnswer> {
        Box::pin(async move { self.serve(|records, context| serve::raise(records, attempt, context)) })
    }
}

impl TransferStore for MemoryStore {
    fn transfer<'a>(&'a self, attempt: &'a Attempt, successor: &'a Successor) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async move {
            self.serve(|records, context| serve::transfer(records, attempt, successor, None, context))
        })
    }
}

impl InspectStore for MemoryStore {
    fn inspect<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, KeyState> {
        self.serve_quietly(move |records, context| serve::inspect(records, key.clone(), context))
    }

    fn list<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<KeyState>> {
        self.serve_quietly(move |records, context| {
            let keys = records.keys_in_use(prefix, context.now).into_iter();
            keys.map(|key| serve::inspect(records, key, context)).collect()
        })
    }

    fn notices(&self) -> Option<Box<dyn Notices>> {
        let first = locked(&self.first_notices).take();
        Some(first.unwrap_or_else(|| self.shared.notice_bus.read()))
    }
}

impl MarkStore for MemoryStore {
    /// The mark lasts as long as the process does.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> StoreFuture<'a, HoldAnswer> {
        self.serve_quietly(move |records, context| serve::mark(records, attempt, mark, keep, context))
    }

    fn marked<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Marked> {
        self.serve_quietly(move |records, context| serve::marked(records, key, context))
    }

    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<Mark>> {
        self.serve_quietly(move |records, context| serve::forget(records, key, context))
    }

    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<(Key, Marked)>> {
        self.serve_quietly(move |records, context| serve::list_marks(records, prefix, context))
    }
}

impl AdminStore for MemoryStore {
    fn break_lease<'a>(&'a self, key: &'a Key, lease: &'a LeaseBreak) -> StoreFuture<'a, BreakAnswer> {
        Box::pin(async move {
            self.serve(|records, context| Ok(serve::break_lease(records, key, lease, context)))
        })
    }

    fn last_break<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<BreakRecord>> {
        self.serve_quietly(move |records, context| serve::last_break(records, key, context))
    }

    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<BreakRecord>> {
        self.serve_quietly(move |records, context| serve::list_breaks(records, prefix, context))
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Claim, Holder, Ttl};

    use super::*;
    use crate::runtime::TokioRuntime;

    #[tokio::test(start_paused = true)]
    async fn it_does_not_grow_with_what_has_ended() {
        let store = MemoryStore::new(Arc::new(TokioRuntime::current_or_paused().unwrap()));
        for n in 0..10_000 {
            let claim = Claim::exclusive(Key::new(format!("job-{n}")).unwrap());
            let attempt = Attempt::new(claim, Holder::from_bits(n), None, Ttl::DEFAULT);
            let granted = store.grant(&attempt, WaitMode::Try).await.unwrap();
            assert!(matches!(granted, GrantAnswer::Granted { .. }), "{granted:?}");
            // Fences are remembered for ten minutes, which is 600 of these.
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let count = store.with(|state, _| state.count());
        assert!(count < 4_000, "{count} records");
    }
}
