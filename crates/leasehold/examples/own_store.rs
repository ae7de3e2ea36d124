//! A store of your own, and locks over it: records in a map, requests served by the one semantics
//! that every store has. `cargo run --example own_store`. Yours would load the records of a
//! request's keys, call the same functions, and save what they changed, in one transaction.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold::store::{
    AdminStore, ApplyContext, Attempt, BoxFuture, BreakAnswer, BreakRecord, Fault, GrantAnswer, HoldAnswer,
    InspectStore, LeaseBreak, Limits, MarkStore, Marked, Parts, Quarantined, Records, Served, Store,
    StoreFuture, Wait, WaitMode, WaiterRegistry, Wake, serve,
};
use leasehold::{Drift, Fence, Key, KeyState, Locks, Mark, Runtime, Stamp, TokioRuntime};

/// Leases in this process, for all who share one `Arc` of it.
#[derive(Debug)]
pub(crate) struct MapStore {
    records: Mutex<Records>,
    /// Those who wait in this process, and when each is to ask again.
    waiters: WaiterRegistry,
    runtime: Arc<dyn Runtime>,
}

impl MapStore {
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        Self { records: Mutex::default(), waiters: WaiterRegistry::new(0), runtime }
    }

    /// Serves one request while nobody else is served, and wakes the waiters that it concerns.
    fn serve<T>(
        &self,
        request: impl FnOnce(&mut Records, &ApplyContext<'_>) -> Result<Served<T>, Quarantined>,
    ) -> Result<T, Fault> {
        let now = self.runtime.now();
        // No fence is below the wall clock in microseconds, so that fences rise even when all
        // records are lost.
        let floor = u64::try_from(self.runtime.since_epoch().as_micros()).ok().and_then(Fence::new);
        let context =
            ApplyContext::new(Stamp::from_micros(now.as_nanos() / 1000), floor.unwrap_or(Fence::MAX));
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let served = request(&mut records, &context);
        let Served { answer, mut pushes, mut unfinished } =
            served.map_err(|refused| Fault::quarantined(self.name(), refused.left))?;
        while !unfinished.is_empty() {
            let more = serve::advance(&mut records, &unfinished, &context);
            pushes.extend(more.pushes);
            unfinished = more.unfinished;
        }
        for push in pushes {
            // A waiter that has gone is about to release what it was given.
            let _ = self.waiters.hears(push.holder, push.event, None, now, now);
        }
        Ok(answer)
    }

    /// Serves a request that notifies nobody.
    fn serve_quietly<'a, T: 'a>(
        &'a self,
        request: impl FnOnce(&mut Records, &ApplyContext<'_>) -> T + Send + 'a,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move { self.serve(|records, context| Ok(Served::quietly(request(records, context)))) })
    }
}

impl Store for MapStore {
    fn name(&self) -> &str {
        "map"
    }

    /// Holders and store read one clock.
    fn limits(&self) -> Limits {
        Limits::with_drift(Drift::ON_ONE_CLOCK)
    }

    fn open(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer> {
        Box::pin(async move {
            let now = self.runtime.now();
            let wait = match wait_mode {
                WaitMode::Wait { queue_limit } => {
                    let ticket = self.waiters.asks(attempt.holder, None, now);
                    Some(Wait { ticket, queue_limit, ..Wait::default() })
                }
                _ => None,
            };
            self.serve(|records, context| {
                let served = serve::grant(records, attempt, wait.as_ref(), None, context)?;
                if wait.is_some() {
                    self.waiters.answered(attempt, &served.answer, now);
                }
                Ok(served)
            })
        })
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(async move {
            let renew = |attempt| self.serve(|records, context| serve::renew(records, attempt, context));
            attempts.iter().map(renew).collect()
        })
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async move {
            self.waiters.leave(attempt.holder, self.runtime.now());
            self.serve(|records, context| Ok(serve::release(records, attempt, context)))
        })
    }

    /// A release is enough: no request is under way once its future is gone.
    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.release(attempt).await.map(drop) })
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        self.waiters.called(attempt.holder, &*self.runtime)
    }

    /// It cannot be a member of a quorum, and there is nothing for operators to diagnose.
    fn parts(&self) -> Parts<'_> {
        Parts { inspect: Some(self), marks: Some(self), admin: Some(self), ..Parts::default() }
    }
}

impl InspectStore for MapStore {
    fn inspect<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, KeyState> {
        self.serve_quietly(move |records, context| serve::inspect(records, key.clone(), context))
    }

    fn list<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<KeyState>> {
        self.serve_quietly(move |records, context| {
            let keys = records.keys_in_use(prefix, context.now);
            keys.into_iter().map(|key| serve::inspect(records, key, context)).collect()
        })
    }
}

impl MarkStore for MapStore {
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

impl AdminStore for MapStore {
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

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime: Arc<dyn Runtime> = Arc::new(TokioRuntime::current().ok_or("no tokio runtime")?);
    let locks = Locks::builder().over(Arc::new(MapStore::new(runtime)))?;

    let guard = locks.mutex("invoice:42").lock().await?;
    println!("free for others: {}", locks.mutex("invoice:42").try_lock().await?.is_some());
    guard.release().await?;
    println!("free for others: {}", locks.mutex("invoice:42").try_lock().await?.is_some());
    locks.close(Duration::from_secs(1)).await?;
    Ok(())
}
