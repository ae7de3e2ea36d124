//! A lock that is shared by readers and exclusive for a writer, on one key or several.

use std::sync::Arc;

use leasehold_core::{Claim, Key, Misuse};

use crate::error::{InspectError, LockError};
use crate::lock::{Acquire, Defaults, RwLockReadGuard, RwLockWriteGuard, lock_settings};
use crate::store_handle::Askers;

/// A lock that is shared by readers and exclusive for a writer: it describes what to acquire.
/// Making and cloning it does no I/O.
///
/// All requests wait in one queue, first come, first served. Readers do not pass a waiting writer,
/// so that writers are not starved. When it is a reader's turn, all readers directly behind it are
/// granted together with it.
///
/// Every guard has its own fence, greater than all earlier ones. A resource that refuses smaller
/// fences must do so only for writes, because readers come in any order.
///
/// A holder that crashed, whether reader or writer, blocks others until its lease ends. A writer's
/// guard can become a reader's ([`downgrade`](RwLockWriteGuard::downgrade)). A reader's cannot
/// become a writer's: release it and request again.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let locks = leasehold::Locks::in_memory();
/// let doc = locks.rw_lock("doc:7");
/// let reading = doc.read().await?;
/// assert!(doc.try_read().await?.is_some());
/// assert!(doc.try_write().await?.is_none());
/// reading.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # What this does not promise
///
/// A holder of a read guard that requests another one may wait for ever if a writer came in
/// between: the writer waits for the first guard, and the second request waits for the writer.
#[derive(Clone, Debug)]
#[must_use = "a description takes nothing: call read() or write()"]
pub struct RwLock {
    pub(crate) askers: Arc<Askers>,
    pub(crate) keys: Result<Vec<Key>, Misuse>,
    pub(crate) defaults: Defaults,
}

impl RwLock {
    lock_settings!();

    /// Waits for shared access, for as long as it takes; [`Acquire::within`] limits the wait.
    ///
    /// # Errors
    ///
    /// Awaiting it may return a [`LockError`].
    pub fn read(&self) -> Acquire<RwLockReadGuard> {
        self.request(Claim::shared)
    }

    /// Acquires shared access if no writer holds the lock or waits for it; `None` otherwise.
    ///
    /// # Errors
    ///
    /// [`LockError`] if the store did not answer within the outage limit or refuses, or the request
    /// is invalid. A writer that holds the lock or waits for it is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`Acquire`].
    pub async fn try_read(&self) -> Result<Option<RwLockReadGuard>, LockError> {
        self.read().once().await
    }

    /// Waits for exclusive access, for as long as it takes; [`Acquire::within`] limits the wait.
    ///
    /// # Errors
    ///
    /// Awaiting it may return a [`LockError`].
    pub fn write(&self) -> Acquire<RwLockWriteGuard> {
        self.request(Claim::exclusive_all)
    }

    /// Acquires exclusive access if nobody holds the lock; `None` if a reader or a writer does.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`try_read`](Self::try_read).
    ///
    /// # Cancel safety
    ///
    /// As [`Acquire`].
    pub async fn try_write(&self) -> Result<Option<RwLockWriteGuard>, LockError> {
        self.write().once().await
    }

    /// Returns whether a reader or a writer holds the lock, or one of its keys, also of another
    /// program. It looks at each key and acquires nothing; the answer may change a moment later.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store did not answer or refuses, or the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn is_locked(&self) -> Result<bool, InspectError> {
        self.askers.handle.is_held(Claim::shared(self.keys.clone()?)?.keys()).await
    }

    fn request<G>(&self, claim: impl FnOnce(Vec<Key>) -> Result<Claim, Misuse>) -> Acquire<G> {
        let claim = self.keys.clone().and_then(claim);
        Acquire::new(self.askers.clone(), self.defaults.terms(claim))
    }
}
