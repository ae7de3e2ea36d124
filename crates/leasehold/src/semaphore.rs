//! Permits of which there are so many, of one key or several.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Claim, Key, Label, Misuse, Renewal, Ttl};

use crate::defaults::Defaults;
use crate::error::LockError;
use crate::lock::{Acquire, Guard};
use crate::locks::Askers;

/// A number of permits, each of which one holder has at a time: the description of what to take. Making and cloning it does no
/// I/O.
///
/// A permit is a lease: of a holder that crashed it is back when that ends, so none is ever lost. A guard has all the permits that
/// were asked for together, and gives them back together.
///
/// All stand in one line, first come, first served. Whoever asks for many is not passed by those who ask for few: while it waits,
/// permits that would do for them stay free.
///
/// **All who use a semaphore must name the same number.** Processes that disagree are never let in together: each waits until
/// nobody of the other number holds any, as for a mutex, and is told so: "held by web-3 (0f3a91c2) with 1 of 2 permits". So a
/// number can be changed while programs run; until the last has the new one, fewer work at a time, never more.
///
/// ```
/// # tokio_test(async {
/// let locks = leasehold::Locks::in_memory();
/// let gpus = locks.semaphore("gpus", 4);
/// let three = gpus.acquire_many(3).await?;
/// let one = gpus.acquire().await?;
/// assert!(gpus.try_acquire().await?.is_none());
/// three.release().await?;
/// # drop(one);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # });
/// # fn tokio_test(test: impl Future<Output = Result<(), Box<dyn std::error::Error>>>) {
/// #     tokio::runtime::Runtime::new().unwrap().block_on(test).unwrap();
/// # }
/// ```
///
/// # What this does not promise
///
/// Permits have no numbers of their own: a guard does not say which of four GPUs is meant.
///
/// A quorum counts no permits: there every request is a [`Misuse`].
#[derive(Clone, Debug)]
#[must_use = "a description takes nothing: call acquire() or try_acquire()"]
pub struct Semaphore {
    askers: Arc<Askers>,
    keys: Result<Vec<Key>, Misuse>,
    permits: u32,
    defaults: Defaults,
}

impl Semaphore {
    pub(crate) const fn new(
        askers: Arc<Askers>,
        keys: Result<Vec<Key>, Misuse>,
        permits: u32,
        defaults: Defaults,
    ) -> Self {
        Self { askers, keys, permits, defaults }
    }

    /// How long a lease lasts without renewal: how long a crashed holder keeps its permits from the others. 10 ms to a year.
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

    /// Waits for a permit, as long as it takes; [`Acquire::within`] bounds the wait.
    ///
    /// # Errors
    ///
    /// Awaiting it gives a [`LockError`].
    pub fn acquire(&self) -> Acquire {
        self.acquire_many(1)
    }

    /// Waits for so many permits together, as long as it takes.
    ///
    /// # Errors
    ///
    /// Awaiting it gives a [`LockError`]; a [`Misuse`] where that is none or more than there are.
    pub fn acquire_many(&self, permits: u32) -> Acquire {
        let claim = self.keys.clone().and_then(|keys| Claim::permits(keys, permits, self.permits));
        Acquire::new(self.askers.clone(), self.defaults.terms(claim))
    }

    /// Takes a permit if one is free and nobody waits for it; `None` otherwise.
    ///
    /// # Errors
    ///
    /// [`LockError`], when the store did not answer within the outage limit or refuses, or the request makes no sense. That there
    /// is no permit left is no error.
    ///
    /// # Cancel safety
    ///
    /// As [`Acquire`].
    pub async fn try_acquire(&self) -> Result<Option<Guard>, LockError> {
        self.try_acquire_many(1).await
    }

    /// Takes so many permits together if they are free and nobody waits for any; `None` otherwise.
    ///
    /// # Errors
    ///
    /// [`LockError`], as [`try_acquire`](Self::try_acquire); a [`Misuse`] where that is none or more than there are.
    ///
    /// # Cancel safety
    ///
    /// As [`Acquire`].
    pub async fn try_acquire_many(&self, permits: u32) -> Result<Option<Guard>, LockError> {
        self.acquire_many(permits).once().await
    }
}
