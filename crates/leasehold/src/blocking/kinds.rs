//! Guards of readers, writers and permits, for callers that block.

use super::guard::Guard;
use crate::lock::kind_of_guard;

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
