//! A lock with one holder at a time, on one key or several.

use std::sync::Arc;

use leasehold_core::{Claim, Misuse};

use crate::error::{InspectError, LockError};
use crate::lock::{Acquire, Defaults, Guard, Unlocked, lock_settings};
use crate::store_handle::Askers;

/// A lock with one holder at a time: it describes what to acquire. Making and cloning it does no
/// I/O.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let locks = leasehold::Locks::in_memory();
/// let invoice = locks.mutex("invoice:42").ttl(std::time::Duration::from_secs(10));
/// let guard = invoice.lock().await?;
/// assert!(invoice.try_lock().await?.is_none());
/// guard.release().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a description takes nothing: call lock() or try_lock()"]
pub struct Mutex {
    pub(crate) askers: Arc<Askers>,
    pub(crate) claim: Result<Claim, Misuse>,
    pub(crate) defaults: Defaults,
}

impl Mutex {
    lock_settings!();

    /// Waits for the lock, for as long as it takes; [`Acquire::within`] limits the wait.
    ///
    /// # Errors
    ///
    /// Awaiting it may return a [`LockError`].
    pub fn lock(&self) -> Acquire {
        Acquire::new(self.askers.clone(), self.defaults.terms(self.claim.clone()))
    }

    /// Acquires the lock if it is free; `None` if somebody else holds it.
    ///
    /// # Errors
    ///
    /// [`LockError`] if the store did not answer within the outage limit or refuses, or the request
    /// is invalid. A lock that is held is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`Acquire`].
    pub async fn try_lock(&self) -> Result<Option<Guard>, LockError> {
        self.lock().once().await
    }

    /// Returns true if somebody holds the lock, or one of its keys, in this or another program. It
    /// asks the store once for each key and takes nothing. The answer may change a moment later.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn is_locked(&self) -> Result<bool, InspectError> {
        self.askers.handle.is_held(self.claim.clone()?.keys()).await
    }

    /// Waits until nobody holds the lock, without acquiring it and without joining its queue;
    /// [`Unlocked::within`] limits the wait.
    ///
    /// ```
    /// # async fn example(locks: leasehold::Locks) -> Result<(), leasehold::LockError> {
    /// locks.mutex("migration").unlocked().within(std::time::Duration::from_secs(60)).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Awaiting it may return a [`LockError`]; on a timeout it says who holds the lock.
    pub fn unlocked(&self) -> Unlocked {
        Unlocked::new(self.askers.clone(), self.claim.clone(), self.defaults.outage_limit)
    }
}
