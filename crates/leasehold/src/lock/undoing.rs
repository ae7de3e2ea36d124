//! Attempts that are given up in the background, and calls that a store never answers.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Backoff, Fault, FaultCause, Instant, Runtime, Store};

use super::registry::{GuardRegistry, PendingRelease};
use crate::report::Report;

/// Gives an attempt up in the background, and retries for as long as it could last in the store;
/// then calls `done`.
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
            let now = runtime.now();
            if !given_up.as_ref().is_err_and(|fault| !fault.is_lasting() && now < end) {
                return (self.done)(given_up);
            }
            let again = now + rest(tries, runtime);
            tries += 1;
            // Try once more at the end: a store that comes back just before it may still have the
            // attempt's place in the queue.
            runtime.sleep_until(again.min(end)).await;
        }
    }
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
