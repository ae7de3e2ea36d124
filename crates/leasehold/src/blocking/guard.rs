//! The guard of a held lock, for callers that block.

use std::time::Duration;

use super::wait;
use crate::lock::{Holding, facts_of_holding, kind_of_guard};
use crate::{Held, Loss, ReleaseError, Released, RenewError, TransferError, TransferToken, Ttl};

/// A lock that is held, as [`leasehold::Guard`](crate::Guard).
///
/// While it exists, another thread renews the lease, even while this thread blocks. Dropping it
/// releases the lock, and blocks until the store has confirmed that, for at most 2 s. Inside a
/// runtime the drop does not block; the shutdown of that runtime waits instead.
///
/// ```
/// use leasehold::blocking::Locks;
///
/// let guard = Locks::in_memory()?.mutex("import").lock().wait()?;
/// for row in 0..1000 {
///     if !guard.is_held() {
///         println!("stop at row {row}: {:?}", guard.held().loss());
///         break;
///     }
/// }
/// guard.release()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
#[doc(alias = "lease")]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard(pub(super) crate::Guard);

impl Guard {
    facts_of_holding!();

    fn holding(&self) -> &Holding {
        self.0.holding()
    }

    /// A view of this holding, to lend to code that works under the lock.
    #[must_use]
    pub fn held(&self) -> Held {
        self.0.held()
    }

    /// How long the lease lasts without renewal.
    #[must_use]
    pub fn ttl(&self) -> Ttl {
        self.0.ttl()
    }

    /// Why the lease was lost, if that is known.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.0.held().loss()
    }

    /// Blocks until the lease is lost, for a thread that watches the lock while others work under
    /// it. It takes a view, because it may outlive the guard: after a normal release it blocks for
    /// ever, so let that thread end with the program.
    ///
    /// ```
    /// # let locks = leasehold::blocking::Locks::in_memory().unwrap();
    /// # let guard = locks.mutex("k").lock().wait().unwrap();
    /// use leasehold::blocking::Guard;
    /// let held = guard.held();
    /// std::thread::spawn(move || {
    ///     let loss = Guard::await_loss(&held);
    ///     eprintln!("stop: {loss}");
    /// });
    /// ```
    #[must_use]
    pub fn await_loss(held: &Held) -> Loss {
        wait(held.lost())
    }

    /// Extends the lease to at least `ttl` from now, as
    /// [`leasehold::Guard::renew`](crate::Guard::renew).
    ///
    /// # Errors
    ///
    /// [`RenewError`].
    #[doc(alias = "extend")]
    #[doc(alias = "heartbeat")]
    pub fn renew(&self, ttl: Duration) -> Result<Duration, RenewError> {
        wait(self.0.renew(ttl))
    }

    /// Transfers the lock to another process, which adopts it within this time, as
    /// [`leasehold::Guard::transfer`](crate::Guard::transfer).
    ///
    /// # Errors
    ///
    /// [`TransferError`].
    pub fn transfer(self, within: Duration) -> Result<TransferToken, TransferError> {
        wait(self.0.transfer(within))
    }

    /// Releases the lock, and returns an error if it was not held to the end, as
    /// [`leasehold::Guard::release`](crate::Guard::release).
    ///
    /// # Errors
    ///
    /// [`ReleaseError`].
    #[doc(alias = "unlock")]
    pub fn release(self) -> Result<Released, ReleaseError> {
        wait(self.0.release())
    }
}

kind_of_guard! {
    /// The guard of a reader, as [`leasehold::RwLockReadGuard`](crate::RwLockReadGuard). It does
    /// everything that a [`Guard`] does.
    #[doc(alias = "SharedGuard")]
    RwLockReadGuard
}

kind_of_guard! {
    /// The guard of a writer, as [`leasehold::RwLockWriteGuard`](crate::RwLockWriteGuard). It does
    /// everything that a [`Guard`] does.
    #[doc(alias = "ExclusiveGuard")]
    RwLockWriteGuard
}

impl RwLockWriteGuard {
    /// Becomes a reader, with no other writer in between, as
    /// [`leasehold::RwLockWriteGuard::downgrade`](crate::RwLockWriteGuard::downgrade). It does not
    /// block.
    pub fn downgrade(self) -> RwLockReadGuard {
        self.0.0.downgrade();
        RwLockReadGuard(self.0)
    }
}

kind_of_guard! {
    /// Permits of a semaphore, as [`leasehold::SemaphorePermit`](crate::SemaphorePermit). It does
    /// everything that a [`Guard`] does.
    #[doc(alias = "OwnedSemaphorePermit")]
    SemaphorePermit
}
