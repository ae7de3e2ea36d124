//! Attempts that are given up in the background, and calls that a store never answers.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Backoff, Fault, FaultCause, Instant, Runtime, Store, WaitQueue};

use super::registry::{GuardRegistry, PendingRelease};
use crate::report::Report;

/// Gives an attempt up in the background, and retries for as long as it could last in the store;
/// then calls `done`. After a refusal that lasts until somebody repairs the store, `done` is called
/// at once, and nobody waits for the tries that follow.
pub(crate) fn undo(
    store: &Arc<dyn Store>,
    runtime: &Arc<dyn Runtime>,
    registry: &Arc<GuardRegistry>,
    attempt: Attempt,
    done: impl Fn(Result<(), Fault>) + Send + Sync + 'static,
) {
    let undo = Arc::new(Undo {
        store: store.clone(),
        runtime: runtime.clone(),
        report: registry.report.clone(),
        end: runtime.now() + attempt.lingers(),
        attempt,
        done,
        _under_way: registry.begin_release(),
    });
    runtime.spawn_cleanup(Box::new(move || Box::pin(undo.clone().run())));
}

/// An attempt that is given up in the background.
struct Undo<Done> {
    store: Arc<dyn Store>,
    runtime: Arc<dyn Runtime>,
    report: Arc<Report>,
    end: Instant,
    attempt: Attempt,
    done: Done,
    _under_way: PendingRelease,
}

impl<Done: Fn(Result<(), Fault>)> Undo<Done> {
    async fn run(self: Arc<Self>) {
        let (runtime, end) = (&*self.runtime, self.end);
        let mut tries = 0;
        loop {
            let giving_up = self.store.give_up(&self.attempt);
            let given_up = answered(&*self.store, runtime, end, giving_up).await;
            self.report.answered(&given_up);
            let (now, is_refused) = (runtime.now(), given_up.as_ref().is_err_and(Fault::is_lasting));
            if given_up.is_ok() || is_refused || now >= end {
                if is_refused {
                    let (store, attempt) = (self.store.clone(), self.attempt.clone());
                    let end = end.min(now + WaitQueue::KEPT_FOR);
                    runtime.spawn(Box::pin(try_on(store, self.runtime.clone(), attempt, end)));
                }
                return (self.done)(given_up);
            }
            rest_until(end, tries, runtime).await;
            tries += 1;
        }
    }
}

/// Retries after a refusal for as long as a queue is kept: once the store is repaired, the attempt's
/// place in it would delay those behind it.
async fn try_on(store: Arc<dyn Store>, runtime: Arc<dyn Runtime>, attempt: Attempt, end: Instant) {
    let mut tries = 0;
    while runtime.now() < end {
        rest_until(end, tries, &*runtime).await;
        if answered(&*store, &*runtime, end, store.give_up(&attempt)).await.is_ok() {
            return;
        }
        tries += 1;
    }
}

/// Rests before the next try, which is at the end at the latest: a store that comes back just before it
/// may still have the attempt's place in the queue.
async fn rest_until(end: Instant, tries: u32, runtime: &dyn Runtime) {
    let again = runtime.now() + rest(tries, runtime);
    runtime.sleep_until(again.min(end)).await;
}

/// How long to wait before a silent store is asked again.
pub(crate) fn rest(tries: u32, runtime: &dyn Runtime) -> Duration {
    Backoff::WHILE_SILENT.delay(tries, runtime.random_bits())
}

/// The answer to a call that is of no use after `until`. A store of the application's own may never
/// answer: then this is a fault, by that time or after the longest that a call should take.
pub(crate) async fn answered<T>(
    store: &dyn Store,
    runtime: &dyn Runtime,
    until: Instant,
    call: impl Future<Output = Result<T, Fault>>,
) -> Result<T, Fault> {
    /// Our own stores answer sooner, be it with a fault.
    const LONGEST_CALL: Duration = Duration::from_secs(10);
    let silent = || Fault::passing(store.name(), "it left a call unanswered").caused_by(FaultCause::TimedOut);
    let end = until.max(runtime.now() + LONGEST_CALL);
    runtime.before(end, call).await.unwrap_or_else(|| Err(silent()))
}
