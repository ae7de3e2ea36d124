//! A semaphore: a limited number of permits, on one key or several.

use std::sync::Arc;

use leasehold_core::{Claim, Key, Misuse, Mode};

use crate::error::{InspectError, LockError};
use crate::lock::{Acquire, Defaults, SemaphorePermit, lock_settings};
use crate::store_handle::Askers;

/// A number of permits, each with one holder at a time: it describes what to acquire. Making and
/// cloning it does no I/O.
///
/// Permits expire like any lease, so a crash cannot leak one. A guard holds all the permits that
/// were requested together, and releases them together.
///
/// All requests wait in one queue, first come, first served. A request for many permits is not
/// passed by requests for few: while it waits, free permits that would suffice for those stay free.
///
/// **All users of a semaphore must name the same number.** Processes that disagree are never
/// granted permits together: each waits until nobody holds a permit under another number, as for a
/// mutex, and sees a message such as "held by web-3 (0f3a91c2) with 1 of 2 permits". So the number
/// can be changed while programs run: until the last program uses the new number, fewer may work at
/// a time, never more.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let locks = leasehold::Locks::in_memory();
/// let gpus = locks.semaphore("gpus", 4);
/// let three = gpus.acquire_many(3).await?;
/// let one = gpus.acquire().await?;
/// assert!(gpus.try_acquire().await?.is_none());
/// three.release().await?;
/// # drop(one);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
///
/// # What this does not promise
///
/// Permits are not numbered: a guard does not say which of four GPUs to use.
///
/// A quorum does not support semaphores: there every request is a [`Misuse`].
#[derive(Clone, Debug)]
#[must_use = "a description takes nothing: call acquire() or try_acquire()"]
pub struct Semaphore {
    pub(crate) askers: Arc<Askers>,
    pub(crate) keys: Result<Vec<Key>, Misuse>,
    pub(crate) permits: u32,
    pub(crate) defaults: Defaults,
}

impl Semaphore {
    lock_settings!();

    /// Waits for a permit, for as long as it takes; [`Acquire::within`] limits the wait.
    ///
    /// # Errors
    ///
    /// Awaiting it may return a [`LockError`].
    pub fn acquire(&self) -> Acquire<SemaphorePermit> {
        self.acquire_many(1)
    }

    /// Waits for several permits together, for as long as it takes.
    ///
    /// # Errors
    ///
    /// Awaiting it may return a [`LockError`], and returns a [`Misuse`] if the number is zero or
    /// greater than the number of all permits.
    pub fn acquire_many(&self, permits: u32) -> Acquire<SemaphorePermit> {
        let claim = self.keys.clone().and_then(|keys| Claim::permits(keys, permits, self.permits));
        Acquire::new(self.askers.clone(), self.defaults.terms(claim))
    }

    /// Acquires a permit if one is free and nobody waits for one; `None` otherwise.
    ///
    /// # Errors
    ///
    /// [`LockError`] if the store did not answer within the outage limit or refuses, or the request
    /// is invalid. That no permit is free is not an error.
    ///
    /// # Cancel safety
    ///
    /// As [`Acquire`].
    pub async fn try_acquire(&self) -> Result<Option<SemaphorePermit>, LockError> {
        self.try_acquire_many(1).await
    }

    /// Acquires several permits together if they are free and nobody waits for any; `None`
    /// otherwise.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`try_acquire`](Self::try_acquire); a [`Misuse`] if the number is zero or
    /// greater than the number of all permits.
    ///
    /// # Cancel safety
    ///
    /// As [`Acquire`].
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<SemaphorePermit>, LockError> {
        self.acquire_many(permits).once().await
    }

    /// Returns how many permits nobody holds: of several keys, the number at the key that has the
    /// fewest. It is zero while the key is held in another way, also by a semaphore of another
    /// number of permits. It looks at each key and acquires nothing; the answer may change a moment
    /// later, and waiters go first.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store did not answer or refuses, the name cannot be a key, or there
    /// cannot be a semaphore of so many permits.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    #[doc(alias = "available_permits")]
    pub async fn available(&self) -> Result<u32, InspectError> {
        let mut available = self.permits;
        for key in Claim::permits(self.keys.clone()?, 1, self.permits)?.keys() {
            let state = self.askers.handle.inspect(key).await?;
            let held = state.holders.iter().map(|holder| match holder.mode {
                Mode::Permits { weight, of } if of == self.permits => weight,
                _ => self.permits,
            });
            let left = held.fold(self.permits, u32::saturating_sub);
            available = available.min(left);
        }
        Ok(available)
    }
}
