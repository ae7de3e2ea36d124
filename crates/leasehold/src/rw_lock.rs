//! A lock that readers hold together and a writer alone, on one key or several.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Claim, Key, Label, Misuse, Renewal, Ttl};

use crate::defaults::Defaults;
use crate::error::LockError;
use crate::lock::{Acquire, Guard};
use crate::locks::Askers;

/// A lock that readers hold together and a writer alone: the description of what to take. Making and cloning it does no I/O.
///
/// All stand in one line, first come, first served. Readers do not pass a writer that waits, so that writers are not kept waiting
/// for ever; when it is the turn of a reader, all who stand directly behind it and read as well are let in with it.
///
/// Every guard has a fence of its own, greater than all earlier ones. A resource that refuses smaller fences must do so for writes
/// alone: readers come in any order.
///
/// A holder that crashed is missed from the end of its lease on, a reader as a writer. A guard of a reader cannot become a
/// writer's: release it and ask again.
///
/// ```
/// # tokio_test(async {
/// let locks = leasehold::Locks::in_memory();
/// let doc = locks.rw_lock("doc:7");
/// let reading = doc.read().await?;
/// assert!(doc.try_read().await?.is_some());
/// assert!(doc.try_write().await?.is_none());
/// reading.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # });
/// # fn tokio_test(test: impl Future<Output = Result<(), Box<dyn std::error::Error>>>) {
/// #     tokio::runtime::Runtime::new().unwrap().block_on(test).unwrap();
/// # }
/// ```
///
/// # What this does not promise
///
/// Who holds a read guard and asks for another may wait for ever, if a writer came in between: it waits for the first guard, and
/// the second request for it.
#[derive(Clone, Debug)]
#[must_use = "a description takes nothing: call read() or write()"]
pub struct RwLock {
    askers: Arc<Askers>,
    keys: Result<Vec<Key>, Misuse>,
    defaults: Defaults,
}

impl RwLock {
    pub(crate) const fn new(askers: Arc<Askers>, keys: Result<Vec<Key>, Misuse>, defaults: Defaults) -> Self {
        Self { askers, keys, defaults }
    }

    /// How long a lease lasts without renewal: how long a crashed holder keeps the others out. 10 ms to a year.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = Ttl::new(ttl);
        self
    }

    /// What the holder says of itself to those who ask: printable text of up to 256 bytes.
    pub fn label(mut self, label: &str) -> Self {
        self.defaults.label = Label::new(label).map(Some);
        self
    }

    /// Whether and for how long the lease is renewed while the guard lives.
    pub const fn renewal(mut self, renewal: Renewal) -> Self {
        self.defaults.renewal = renewal;
        self
    }

    /// Waits until the lock can be held together with the other readers, as long as it takes; [`Acquire::within`] bounds the wait.
    ///
    /// # Errors
    ///
    /// Awaiting it gives a [`LockError`].
    pub fn read(&self) -> Acquire {
        self.request(Claim::shared)
    }

    /// Takes the lock together with the other readers, if no writer holds it or waits for it; `None` otherwise.
    ///
    /// # Errors
    ///
    /// [`LockError`], when the store did not answer within the outage limit or refuses, or the request makes no sense. That a
    /// writer holds the lock, or waits for it, is no error.
    ///
    /// # Cancel safety
    ///
    /// As [`Acquire`].
    pub async fn try_read(&self) -> Result<Option<Guard>, LockError> {
        self.read().once().await
    }

    /// Waits until the lock can be held alone, as long as it takes; [`Acquire::within`] bounds the wait.
    ///
    /// # Errors
    ///
    /// Awaiting it gives a [`LockError`].
    pub fn write(&self) -> Acquire {
        self.request(Claim::exclusive_all)
    }

    /// Takes the lock alone if nobody holds it; `None` when a reader or a writer does.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`try_read`](Self::try_read).
    ///
    /// # Cancel safety
    ///
    /// As [`Acquire`].
    pub async fn try_write(&self) -> Result<Option<Guard>, LockError> {
        self.write().once().await
    }

    fn request(&self, claim: impl FnOnce(Vec<Key>) -> Result<Claim, Misuse>) -> Acquire {
        let claim = self.keys.clone().and_then(claim);
        Acquire::new(self.askers.clone(), self.defaults.terms(claim))
    }
}
