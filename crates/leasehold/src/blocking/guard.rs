//! The holding, as its holder has it in hand.

use std::time::Duration;

use super::wait;
use crate::{Fence, Held, Holder, Key, Loss, ReleaseError, RenewError, Ttl};

/// A lock that is held, as [`leasehold::Guard`](crate::Guard).
///
/// While it lives its lease is renewed by another thread, also while this one blocks. Dropping it releases the lock, and blocks until
/// the store has confirmed that, for 2 s at most; within a runtime it does not block, and the end of that runtime waits instead.
#[derive(Debug)]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard(pub(super) crate::Guard);

impl Guard {
    /// A view of this holding, to lend to those who work under it.
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

    /// The fence of this holding: send it with every write to what the lock guards.
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

    /// How long the lease is believed from now if no renewal comes; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.0.remaining()
    }

    /// How often the store was asked before it granted.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.0.attempts()
    }

    /// Whether the lease is still believed. This looks at the clock itself; a moment later it may have changed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.0.is_held()
    }

    /// Why the lease is lost, if it is known to be.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.0.held().loss()
    }

    /// Blocks until the lease is lost: for a thread that watches a holding while others work under it. It takes a view, because
    /// it may outlast the guard: after a normal release it blocks for ever, so let that thread end with the program.
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

    /// Makes the lease last at least `ttl` from now; later automatic renewals use that ttl too. A renewal never shortens
    /// what is left.
    ///
    /// # Errors
    ///
    /// [`RenewError`], as [`leasehold::Guard::renew`](crate::Guard::renew) has them.
    pub fn renew(&self, ttl: Duration) -> Result<(), RenewError> {
        wait(self.0.renew(ttl))
    }

    /// Releases the lock, and says whether it was held to the end. Where the store does not answer it is asked again until the lease
    /// ends.
    ///
    /// # Errors
    ///
    /// [`ReleaseError`], as [`leasehold::Guard::release`](crate::Guard::release) has them.
    pub fn release(self) -> Result<(), ReleaseError> {
        wait(self.0.release())
    }
}
