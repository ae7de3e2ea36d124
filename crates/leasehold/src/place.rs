//! One place where leases live, with all that this process needs to use it.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Backoff, Claim, Drift, Fault, Key, KeyState, Misuse, Runtime, Store, Ttl};

use crate::lock::{Holding, Roster, keep};
use crate::report::Report;

/// A store, the runtime that serves it, and the guards that this process has there.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) drift: Drift,
    pub(crate) roster: Arc<Roster>,
    pub(crate) report: Arc<Report>,
}

impl Place {
    /// A place with its keeper running.
    pub(crate) fn new(store: Arc<dyn Store>, runtime: Arc<dyn Runtime>, drift: Drift) -> Arc<Self> {
        let report = Arc::new(Report::new(store.name()));
        let roster = Arc::new(Roster::new(report.clone()));
        runtime.spawn(Box::pin(keep(roster.clone(), store.clone(), runtime.clone())));
        Arc::new(Self { store, runtime, drift, roster, report })
    }

    /// Refuses what the store cannot serve, before it is asked.
    pub(crate) fn admit(&self, claim: &Claim, ttl: Ttl) -> Result<(), Misuse> {
        self.check(ttl)?;
        self.store.admit(claim)
    }

    /// Refuses a ttl that the store cannot keep.
    pub(crate) fn check(&self, ttl: Ttl) -> Result<(), Misuse> {
        match self.store.longest_ttl().filter(|longest| ttl > *longest) {
            Some(longest) => Err(Misuse::TtlOverLongest { asked: ttl, longest }),
            None => Ok(()),
        }
    }

    /// Who holds a key, and who waits for it.
    pub(crate) async fn inspect(&self, key: &Key) -> Result<KeyState, Fault> {
        let state = self.store.inspect(key).await;
        self.report.answered(&state);
        state
    }

    /// Gives an attempt up in the background, trying for as long as it could last in the store.
    ///
    /// Never blocks and never panics, so it may be called where things are dropped.
    pub(crate) fn give_up(&self, attempt: Attempt) {
        self.undo(attempt, |_| {});
    }

    /// Releases a holding in the background, in the same way, and tells what came of it.
    pub(crate) fn give_back(&self, holding: &Arc<Holding>, held_for: Duration) {
        let (report, of) = (self.report.clone(), holding.clone());
        self.undo(holding.attempt.clone(), move |done| {
            report.tell(|| of.was_given_back(held_for, done));
        });
    }

    fn undo(&self, attempt: Attempt, done: impl FnOnce(Result<(), Fault>) + Send + 'static) {
        let (store, runtime, report) = (self.store.clone(), self.runtime.clone(), self.report.clone());
        let under_way = self.roster.begin_undertaking();
        let end = runtime.now() + attempt.lingers();
        self.runtime.spawn(Box::pin(async move {
            let _under_way = under_way;
            let mut tries = 0;
            loop {
                let given_up = store.give_up(&attempt).await;
                report.answered(&given_up);
                let now = runtime.now();
                if !given_up.as_ref().is_err_and(|fault| !fault.is_lasting() && now < end) {
                    return done(given_up);
                }
                let again = now + rest(tries, &*runtime);
                tries += 1;
                // Once more at the end: a store that comes back just before it has the place still.
                runtime.sleep_until(again.min(end)).await;
            }
        }));
    }
}

/// How long to rest before a silent store is asked again.
pub(crate) fn rest(tries: u32, runtime: &dyn Runtime) -> Duration {
    Backoff::WHILE_SILENT.delay(tries, low_bits(runtime.random()))
}

/// Enough of a random number to spread rests by.
pub(crate) fn low_bits(random: u128) -> u64 {
    u64::try_from(random & u128::from(u64::MAX)).unwrap_or(0)
}
