//! The guard of a held lock, for callers that block.

use std::time::{Duration, SystemTime};

use super::wait;
use crate::{
    Fence, Held, Holder, Key, Loss, ReleaseError, Released, RenewError, TransferError, TransferToken, Ttl,
};

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
    /// A view of this holding, to lend to code that works under the lock.
    #[must_use]
    pub fn held(&self) -> Held {
        self.0.held()
    }

    /// The keys that are held, in byte order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.0.keys()
    }

    /// The id of this holding, shown by its first eight digits.
    #[must_use]
    pub fn holder(&self) -> Holder {
        self.0.holder()
    }

    /// The fence of this holding: send it with every write to the resource that the lock protects.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.0.fence()
    }

    /// How long the lease lasts without renewal.
    #[must_use]
    pub fn ttl(&self) -> Ttl {
        self.0.ttl()
    }

    /// How long the lock has been held.
    #[must_use]
    pub fn held_for(&self) -> Duration {
        self.0.held_for()
    }

    /// How long the lease remains valid from now without another renewal; zero if it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// The end of the lease by the wall clock, if no renewal comes: for reports and for people.
    ///
    /// Wall clocks are set back and forth, so base no decision on it. [`is_held`](Self::is_held)
    /// and [`remaining`](Self::remaining) do not depend on the wall clock.
    #[must_use]
    pub fn expires_at(&self) -> SystemTime {
        self.0.expires_at()
    }

    /// How often the store was asked before it granted the lock.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.0.attempts()
    }

    /// Returns true while the lease is valid. This reads the clock; the answer may change a moment
    /// later.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
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

    /// Extends the lease to at least `ttl` from now; later automatic renewals use that TTL too. A
    /// renewal never shortens the time that is left. Returns how long the lease now lasts, as
    /// [`remaining`](Self::remaining) does.
    ///
    /// # Errors
    ///
    /// [`RenewError`], as for [`leasehold::Guard::renew`](crate::Guard::renew).
    #[doc(alias = "extend")]
    #[doc(alias = "heartbeat")]
    pub fn renew(&self, ttl: Duration) -> Result<Duration, RenewError> {
        wait(self.0.renew(ttl))
    }

    /// Transfers the lock to another process, which adopts it within this time.
    ///
    /// # Errors
    ///
    /// [`TransferError`], as for [`leasehold::Guard::transfer`](crate::Guard::transfer).
    pub fn transfer(self, within: Duration) -> Result<TransferToken, TransferError> {
        wait(self.0.transfer(within))
    }

    /// Releases the lock, and returns an error if it was not held to the end. If the store does not
    /// answer, the release is retried until the lease ends.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`], as for [`leasehold::Guard::release`](crate::Guard::release).
    #[doc(alias = "unlock")]
    pub fn release(self) -> Result<Released, ReleaseError> {
        wait(self.0.release())
    }
}
