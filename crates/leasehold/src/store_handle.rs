//! One store in use: the store with everything that this process needs to use it, and the knowledge
//! whether anything can still request a lock there.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasehold_core::{
    Attempt, BackgroundReleases, Backoff, Claim, Drift, Fault, FaultCause, HolderInfo, Instant, Key,
    KeyState, Loss, Misuse, Runtime, Store, Ttl,
};

use crate::error::{ConnectError, InspectError};
use crate::lock::{GuardRegistry, Holding, PendingRelease, keep, rest, undo};
use crate::pauses::{Pauses, Refusals};
use crate::report::Report;

/// A store, the runtime that serves it, and the guards that this process has there.
pub(crate) struct StoreHandle {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) drift: Drift,
    pub(crate) registry: Arc<GuardRegistry>,
    pub(crate) report: Arc<Report>,
    /// Rests after releases, if waiters poll.
    pub(crate) pauses: Option<Pauses>,
    /// Rests after refusals. Few programs ever have one.
    pub(crate) refusals: OnceLock<Refusals>,
}

impl StoreHandle {
    /// Creates the handle and starts the keeper of its guards.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        runtime: Arc<dyn Runtime>,
        drift: Drift,
        poll: Option<Backoff>,
    ) -> Arc<Self> {
        let report = Arc::new(Report::new(store.name()));
        let registry = Arc::new(GuardRegistry::new(report.clone()));
        runtime.spawn(Box::pin(keep(registry.clone(), store.clone(), runtime.clone())));
        let (pauses, refusals) = (poll.map(Pauses::new), OnceLock::new());
        Arc::new(Self { store, runtime, drift, registry, report, pauses, refusals })
    }

    /// Waits until the store is ready, and retries after temporary faults.
    pub(crate) async fn open(&self, outage_limit: Duration) -> Result<(), ConnectError> {
        let started = self.runtime.now();
        self.look_until(started + outage_limit, || self.store.open()).await.map_err(|fault| {
            if fault.is_lasting() {
                return ConnectError::Refused(fault);
            }
            ConnectError::Unreachable { fault, waited: self.runtime.now().saturating_since(started) }
        })
    }

    /// Asks the store until it answers a question that changes nothing: again after each passing fault.
    /// Returns the last fault at `until`, even if a call is in flight then.
    pub(crate) async fn look_until<T, Looking: Future<Output = Result<T, Fault>>>(
        &self,
        until: Instant,
        look: impl Fn() -> Looking,
    ) -> Result<T, Fault> {
        /// In the last part of the limit, the store is not asked again.
        const LAST_REST: Duration = Duration::from_millis(10);
        let runtime = &*self.runtime;
        let mut last = Fault::passing(self.store.name(), "no answer").caused_by(FaultCause::TimedOut);
        let mut tries = 0;
        loop {
            match runtime.before(until, look()).await {
                Some(Ok(answer)) => return Ok(answer),
                Some(Err(fault)) => last = fault,
                None => {}
            }
            let now = runtime.now();
            let left = until.saturating_since(now);
            if last.is_lasting() || left < LAST_REST {
                return Err(last);
            }
            // The last rests are shorter: a limit of a second is not to be over after half of it.
            runtime.sleep_until(now + rest(tries, runtime).min(left * 3 / 4)).await;
            tries += 1;
        }
    }

    /// Removes a guard that is released or dropped: its lease is not renewed any more.
    pub(crate) fn leaves(&self, holding: &Holding, number: u64, now: Instant) -> PendingRelease {
        holding.leave();
        if let Some(pauses) = &self.pauses {
            pauses.note(&holding.attempt.claim, now);
        }
        self.registry.leave(number, now)
    }

    /// How long a request should rest before it asks: for others, or because it was only refused.
    pub(crate) fn rest_first(
        &self,
        claim: &Claim,
        within: Option<Duration>,
        now: Instant,
        seed: u64,
    ) -> Duration {
        let for_others = self.pauses.as_ref().map_or(Duration::ZERO, |pauses| pauses.left(claim, now, seed));
        // A single try does not wait for others. Leave some of a time limit for asking.
        let for_others = within.map_or(for_others, |within| for_others.min(within / 2));
        let refused = self.refusals.get().map_or(Duration::ZERO, |refusals| refusals.left(claim, now, seed));
        let is_limited = within.filter(|within| !within.is_zero());
        for_others.max(is_limited.map_or(refused, |within| refused.min(within / 2)))
    }

    /// Refuses a request that the store cannot serve, before anything is sent.
    pub(crate) fn admit(&self, claim: &Claim, ttl: Ttl) -> Result<(), Misuse> {
        check_ttl(&*self.store, ttl)?;
        self.store.admit(claim)
    }

    /// The holders of a key and its waiters.
    pub(crate) async fn inspect(&self, key: &Key) -> Result<KeyState, InspectError> {
        self.looked(async { self.store.inspector()?.inspect(key).await }).await
    }

    /// Returns true if somebody holds one of these keys.
    pub(crate) async fn is_held(&self, keys: impl Iterator<Item = &Key>) -> Result<bool, InspectError> {
        for key in keys {
            if !self.inspect(key).await?.holders.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The answer to a question that changes no lease.
    pub(crate) async fn looked<T>(
        &self,
        looking: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, InspectError> {
        self.reported(looking).await.map_err(InspectError::Store)
    }

    /// Waits for an answer of the store, and reports it.
    pub(crate) async fn reported<T>(
        &self,
        asking: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let answer = asking.await;
        self.report.answered(&answer);
        answer
    }

    /// Asks the store until it answers: again after each passing fault, as long as it is not `until`.
    /// Returns the answer, and true if an earlier request may have been served although its answer was
    /// lost.
    pub(crate) async fn ask_until<T, Asking: Future<Output = Result<T, Fault>>>(
        &self,
        until: Instant,
        ask: impl Fn() -> Asking,
    ) -> (Result<T, Fault>, bool) {
        let mut tries = 0;
        loop {
            let answer = self.reported(ask()).await;
            match &answer {
                Err(fault) if goes_on(&*self.runtime, fault, tries, until).await => tries += 1,
                _ => return (answer, tries > 0),
            }
        }
    }

    /// The loss that the store reports for this attempt.
    pub(crate) fn loss(&self, attempt: &Attempt, key: Key, held_by: Option<HolderInfo>) -> Loss {
        let mut loss = Loss::not_held(key, held_by);
        self.store.take_report(attempt).iter().for_each(|votes| loss.explain(votes));
        loss
    }

    /// Resolves when no guard is held and no release is in the background, neither ours nor the
    /// store's.
    pub(crate) async fn quiet(&self) {
        self.registry.quiet().await;
        if let Some(releases) = self.store.background_releases() {
            releases.none_left().await;
        }
    }

    /// The number of releases in the background.
    pub(crate) fn under_way(&self) -> usize {
        let behind = self.store.background_releases().map_or(0, BackgroundReleases::count);
        self.registry.pending_releases() + behind
    }

    /// Gives an attempt up in the background, and retries for as long as it could last in the
    /// store.
    ///
    /// Never blocks and never panics, so it may be called from `drop`.
    pub(crate) fn give_up(&self, attempt: Attempt) {
        self.undo(attempt, |_| {});
    }

    /// Releases a holding in the background in the same way, and reports the result.
    pub(crate) fn give_back(&self, holding: &Arc<Holding>, held_for: Duration) {
        let (report, of) = (self.report.clone(), holding.clone());
        self.undo(holding.left(self.runtime.now()), move |done| {
            report.tell(|| of.was_given_back(held_for, done));
        });
    }

    /// The same for a holding that was transferred, for the TTL of the successor's attempt, which the
    /// store did not confirm. First nothing of the holder is left, so that no late request can make
    /// its successor a holder; then nothing of the successor.
    pub(crate) fn give_back_with_successor(
        self: &Arc<Self>,
        holding: &Arc<Holding>,
        held_for: Duration,
        successor: Attempt,
    ) {
        let (handle, of) = (self.clone(), holding.clone());
        let left = holding.left(self.runtime.now());
        self.undo(left.with_ttl(left.ttl.max(successor.ttl)), move |done| {
            handle.report.tell(|| of.was_given_back(held_for, done));
            handle.give_up(successor.clone());
        });
    }

    fn undo(&self, attempt: Attempt, done: impl Fn(Result<(), Fault>) + Send + Sync + 'static) {
        undo(&self.store, &self.runtime, &self.registry, attempt, done);
    }
}

/// Short output, because it is printed with each lock of the place.
impl fmt::Debug for StoreHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("StoreHandle");
        shown.field("store", &self.store.name()).field("registry", &self.registry).finish_non_exhaustive()
    }
}

/// Shared by everything that can request a lock: [`Locks`], [`Mutex`] and the like, and requests,
/// but not guards. When the last of them is dropped, the keeper is notified, so that it ends with
/// the last guard.
#[derive(Debug)]
pub(crate) struct Askers {
    pub(crate) handle: Arc<StoreHandle>,
}

impl Drop for Askers {
    fn drop(&mut self) {
        self.handle.registry.orphan();
    }
}

/// Refuses a TTL that the store does not support.
pub(crate) fn check_ttl(store: &dyn Store, ttl: Ttl) -> Result<(), Misuse> {
    match store.limits().longest_ttl.filter(|longest| ttl > *longest) {
        Some(longest) => Err(Misuse::TtlOverLongest { asked: ttl, longest }),
        None => Ok(()),
    }
}

/// Rests after so many tries, and returns true; `false` if the fault is lasting or it would be `until`
/// by then.
async fn goes_on(runtime: &dyn Runtime, fault: &Fault, tries: u32, until: Instant) -> bool {
    if fault.is_lasting() {
        return false;
    }
    let again = runtime.now() + rest(tries, runtime);
    if again < until {
        runtime.sleep_until(again).await;
    }
    again < until
}
