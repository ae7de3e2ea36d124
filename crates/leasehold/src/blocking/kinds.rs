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

kind_of_guard! {
    /// Permits of a semaphore, as [`leasehold::SemaphorePermit`](crate::SemaphorePermit). It does
    /// everything that a [`Guard`] does.
    #[doc(alias = "OwnedSemaphorePermit")]
    SemaphorePermit
}
