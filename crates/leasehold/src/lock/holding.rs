//! One holding: the state that its guard, its keeper and all views of it share.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_core::{Attempt, Fault, Fence, Instant, Lease, Loss, Runtime, Ttl};
use tokio::sync::Notify;

use crate::event::{Event, RequestInfo};

/// One holding. The keeper writes its end and its loss; everybody may read them.
pub(crate) struct Holding {
    pub(crate) attempt: Attempt,
    pub(crate) fence: Fence,
    pub(crate) granted: Instant,
    pub(crate) asks: u32,
    /// True if it was granted to a writer that has become a reader.
    reads: AtomicBool,
    /// True once its guard is dropped, released or transferred.
    has_ended: AtomicBool,
    pub(crate) runtime: Arc<dyn Runtime>,
    /// The lease's end, in nanoseconds of the lease clock.
    end: AtomicU64,
    /// Boxed because it is rare, and there may be very many guards.
    loss: OnceLock<Box<Loss>>,
    /// Notifies of a new end and of a loss.
    changed: Notify,
}

impl Holding {
    pub(crate) fn new(
        attempt: Attempt,
        fence: Fence,
        granted: Instant,
        asks: u32,
        lease: Lease,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        let end = AtomicU64::new(lease.end().as_nanos());
        let (loss, changed) = (OnceLock::new(), Notify::new());
        let [reads, has_ended] = [(); 2].map(|()| AtomicBool::new(false));
        Self { attempt, fence, granted, asks, reads, has_ended, runtime, end, loss, changed }
    }

    /// Makes its writer a reader: from now on every request says so.
    pub(crate) fn downgrade(&self) {
        self.reads.store(true, Ordering::Release);
    }

    /// Returns true for a writer that has become a reader.
    pub(crate) fn is_downgraded(&self) -> bool {
        self.reads.load(Ordering::Acquire)
    }

    /// The attempt, in the mode in which it is held now, for a request to the store.
    pub(crate) fn request(&self, ttl: Ttl) -> Attempt {
        let attempt = self.attempt.with_ttl(ttl);
        if self.is_downgraded() { attempt.reading() } else { attempt }
    }

    /// The attempt for a release in the background: its TTL is at least the time that is left, for
    /// which the release is worth retrying.
    pub(crate) fn left(&self, now: Instant) -> Attempt {
        let Attempt { ttl, .. } = self.attempt;
        let left = Ttl::new(self.end().saturating_since(now));
        self.attempt.with_ttl(left.map_or(ttl, |left| left.max(ttl)))
    }

    /// Publishes the current end of the lease. Returns true if it changed: then it has to be
    /// [announced](Self::announce).
    pub(crate) fn believe(&self, lease: Lease) -> bool {
        let end = lease.end().as_nanos();
        self.end.swap(end, Ordering::AcqRel) != end
    }

    /// Notes that its guard is gone. From now on no view says that the lock is held; somebody else
    /// may be granted it at any moment.
    pub(crate) fn leave(&self) {
        self.has_ended.store(true, Ordering::Release);
    }

    /// Records the loss. Returns true if it is the first one: then it has to be announced.
    pub(crate) fn lose(&self, loss: Loss) -> bool {
        self.loss.set(Box::new(loss)).is_ok()
    }

    /// Wakes all that wait for a new end or a loss. Whoever is woken may drop a guard, so none of our
    /// mutexes may be locked.
    pub(crate) fn announce(&self) {
        self.changed.notify_waiters();
    }

    pub(crate) fn loss(&self) -> Option<&Loss> {
        self.loss.get().map(|loss| &**loss)
    }

    pub(crate) fn end(&self) -> Instant {
        Instant::from_nanos(self.end.load(Ordering::Acquire))
    }

    /// Reads the clock, so it is correct even while the keeper gets no processor time.
    pub(crate) fn is_held(&self) -> bool {
        !self.has_ended.load(Ordering::Acquire) && self.is_valid_at(self.runtime.now())
    }

    /// Returns true while the lease lasts, also for a guard that is gone and whose lease is still
    /// to be released.
    pub(crate) fn is_valid_at(&self, now: Instant) -> bool {
        self.loss.get().is_none() && now < self.end()
    }

    pub(crate) fn held_for(&self, now: Instant) -> Duration {
        now.saturating_since(self.granted)
    }

    pub(crate) fn remaining(&self) -> Duration {
        if self.loss.get().is_some() || self.has_ended.load(Ordering::Acquire) {
            Duration::ZERO
        } else {
            self.end().saturating_since(self.runtime.now())
        }
    }

    pub(crate) fn expires_at(&self) -> SystemTime {
        let (now, end) = (self.runtime.now(), self.end());
        let by_wall_clock = self.runtime.since_epoch() + end.saturating_since(now);
        // It may have ended already.
        UNIX_EPOCH + by_wall_clock.saturating_sub(now.saturating_since(end))
    }

    fn request_info(&self) -> RequestInfo {
        (&self.request(self.attempt.ttl)).into()
    }

    /// The event for its grant.
    pub(crate) fn was_acquired(&self, waited: Duration, refusals: u32) -> Event {
        let Self { attempt, fence, asks, .. } = self;
        let (request, ttl) = (attempt.into(), attempt.ttl);
        Event::Acquired { request, fence: *fence, ttl, waited, attempts: *asks, refusals }
    }

    /// The event for its renewal.
    pub(crate) fn was_renewed(&self, now: Instant) -> Event {
        let remaining = self.end().saturating_since(now);
        Event::Renewed { request: self.request_info(), fence: self.fence, remaining }
    }

    /// The event for its loss.
    pub(crate) fn was_lost(&self, now: Instant, why: Loss) -> Event {
        let held_for = self.held_for(now);
        Event::Lost { request: self.request_info(), fence: self.fence, held_for, why }
    }

    /// The event for its transfer.
    pub(crate) fn was_transferred(&self, held_for: Duration) -> Event {
        Event::Transferred { request: self.request_info(), fence: self.fence, held_for }
    }

    /// The event for its release.
    pub(crate) fn was_given_back(&self, held_for: Duration, done: Result<(), Fault>) -> Event {
        let (request, fence) = (self.request_info(), self.fence);
        match done {
            Ok(()) => Event::Released { request, fence, held_for },
            Err(fault) => Event::NotReleased { request, fence, held_for, fault },
        }
    }

    /// The debug output, which is the same for a guard and for a view, except for the name.
    pub(crate) fn describe(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        let Attempt { claim, holder, .. } = &self.attempt;
        let mut shown = f.debug_struct(name);
        shown.field("keys", &claim.keys().map(ToString::to_string).collect::<Vec<_>>());
        shown.field("holder", &format_args!("{holder}")).field("fence", &self.fence.get());
        match self.loss() {
            Some(loss) => shown.field("lost", loss),
            None => shown.field("remaining", &self.remaining()),
        };
        shown.finish()
    }

    async fn lost(&self) -> Loss {
        self.until(|| self.loss().cloned()).await
    }

    /// Resolves when the end differs from this one.
    async fn renewed_since(&self, end: Instant) {
        self.until(|| (self.end() != end).then_some(())).await;
    }

    async fn until<T>(&self, seen: impl Fn() -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(seen) = seen() {
                return seen;
            }
            changed.await;
        }
    }
}

impl fmt::Debug for Holding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.describe(f, "Holding")
    }
}

/// Defines what views and guards of all kinds tell of their `holding`.
macro_rules! facts_of_holding {
    () => {
        /// The keys that are held, in byte order.
        pub fn keys(&self) -> impl ExactSizeIterator<Item = &leasehold_core::Key> {
            self.holding().attempt.claim.keys()
        }

        /// The id of this holding, shown by its first eight digits.
        #[must_use]
        pub fn holder(&self) -> leasehold_core::Holder {
            self.holding().attempt.holder
        }

        /// The fence of this holding: send it with every write to the resource that the lock
        /// protects.
        #[must_use]
        pub fn fence(&self) -> leasehold_core::Fence {
            self.holding().fence
        }

        /// How long the lock has been held.
        #[must_use]
        pub fn held_for(&self) -> std::time::Duration {
            self.holding().held_for(self.holding().runtime.now())
        }

        /// How long the lease remains valid from now without another renewal; zero if it is lost or
        /// the guard is gone.
        #[must_use]
        pub fn remaining(&self) -> std::time::Duration {
            self.holding().remaining()
        }

        /// Returns true while the lease is valid and the guard is neither dropped, released nor
        /// transferred. This reads the clock, so it is correct even after the program was paused or
        /// its runtime was blocked. The answer may change a moment later.
        #[must_use]
        pub fn is_held(&self) -> bool {
            self.holding().is_held()
        }

        /// The end of the lease by the wall clock, if no renewal comes: for reports and for people.
        ///
        /// Wall clocks are set back and forth, so base no decision on it:
        /// [`is_held`](Self::is_held) and [`remaining`](Self::remaining) do not depend on it.
        #[must_use]
        pub fn expires_at(&self) -> std::time::SystemTime {
            self.holding().expires_at()
        }

        /// How often the store was asked before it granted the lock.
        #[must_use]
        pub fn attempts(&self) -> u32 {
            self.holding().asks
        }
    };
}
pub(crate) use facts_of_holding;

/// A view of a guard's holding, to lend to code that works under the lock. It neither keeps nor
/// releases the lock.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use leasehold::{Held, Locks};
///
/// /// Stops by itself when the lock is lost.
/// fn import(rows: u32, held: &Held) -> u32 {
///     (0..rows).take_while(|_| held.is_held()).map(|_| 1).sum()
/// }
///
/// let guard = Locks::in_memory().mutex("import").lock().await?;
/// assert_eq!(import(7, &guard.held()), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Held(pub(crate) Arc<Holding>);

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.describe(f, "Held")
    }
}

impl Held {
    facts_of_holding!();

    fn holding(&self) -> &Holding {
        &self.0
    }

    /// The holder's description of itself, as observers see it.
    #[must_use]
    pub fn label(&self) -> Option<&str> {
        self.0.attempt.label.as_ref().map(leasehold_core::Label::as_str)
    }

    /// Why the lease was lost, if that is known.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.0.loss().cloned()
    }

    /// Resolves when the lease ends later than at this call, even if the future is awaited only
    /// later: at the first renewal, unless that asks for less than remains.
    /// [`remaining`](Self::remaining) then returns the new time. This is for programs that pass the
    /// lease's end on.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn renewed(&self) -> impl Future<Output = ()> + Send {
        self.0.renewed_since(self.0.end())
    }

    /// Resolves when the lease is lost: at its end at the latest, and at once when the store
    /// reports that the lease is gone. After a normal release it never resolves.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static + use<> {
        let holding = self.0.clone();
        async move { holding.lost().await }
    }
}
