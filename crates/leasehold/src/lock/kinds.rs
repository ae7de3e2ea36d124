//! Guards of readers, writers and permits: a [`Guard`] whose type says how the lock is held.

use super::guard::Guard;

/// A guard that a request can become, made of a plain one.
///
/// No program can name it, and so turn the guard of a reader into that of a writer.
pub trait GuardKind<Plain = Guard>: Send + 'static {
    fn of(guard: Plain) -> Self;
}

impl<Plain: Send + 'static> GuardKind<Plain> for Plain {
    fn of(guard: Plain) -> Self {
        guard
    }
}

/// Makes a kind of the `Guard` in scope; with `async.await`, of an async one.
macro_rules! kind_of_guard {
    ($(#[$doc:meta])* $name:ident $(: $async:tt.$await:tt)?) => {
        $(#[$doc])*
        #[derive(Debug)]
        #[must_use = "dropping the guard releases the lock"]
        pub struct $name(pub(super) Guard);

        impl $name {
            /// Releases the lock, and returns an error if it was not held to the end, as
            /// [`Guard::release`].
            ///
            /// # Errors
            ///
            /// [`ReleaseError`](crate::ReleaseError), as for [`Guard::release`].
            $(#[doc = kind_of_guard!(@ $await)])?
            #[doc(alias = "unlock")]
            pub $($async)? fn release(self) -> Result<crate::Released, crate::ReleaseError> {
                self.0.release()$(.$await)?
            }
        }

        impl std::ops::Deref for $name {
            type Target = Guard;

            fn deref(&self) -> &Guard {
                &self.0
            }
        }

        /// For code that keeps guards of all kinds together.
        impl From<$name> for Guard {
            fn from(guard: $name) -> Self {
                guard.0
            }
        }

        impl $crate::lock::GuardKind<Guard> for $name {
            fn of(guard: Guard) -> Self {
                Self(guard)
            }
        }
    };
    (@ await) => {
        "\n# Cancel safety\n\nDropping the future does not keep the lock: the release continues in the background."
    };
}
pub(crate) use kind_of_guard;

kind_of_guard! {
    /// The guard of a reader: others may read too, and nobody writes. It does everything that a
    /// [`Guard`] does.
    #[doc(alias = "SharedGuard")]
    RwLockReadGuard: async.await
}

kind_of_guard! {
    /// The guard of a writer: nobody else reads or writes. It does everything that a [`Guard`]
    /// does, and a function that demands it cannot be called with the guard of a reader:
    ///
    /// ```
    /// use leasehold::{Locks, RwLockWriteGuard};
    ///
    /// fn store(guard: &RwLockWriteGuard, text: &str) {
    ///     println!("write {text:?} with fence {}", guard.fence());
    /// }
    ///
    /// # async fn example(locks: Locks) -> Result<(), leasehold::Error> {
    /// let writing = locks.rw_lock("doc:7").write().await?;
    /// store(&writing, "new text");
    /// writing.release().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// ```compile_fail,E0308
    /// # use leasehold::{Locks, RwLockWriteGuard};
    /// # fn store(guard: &RwLockWriteGuard, text: &str) {}
    /// # async fn example(locks: Locks) -> Result<(), leasehold::Error> {
    /// let reading = locks.rw_lock("doc:7").read().await?;
    /// store(&reading, "new text"); // mismatched types
    /// # Ok(()) }
    /// ```
    #[doc(alias = "ExclusiveGuard")]
    RwLockWriteGuard: async.await
}

impl RwLockWriteGuard {
    /// Becomes a reader, with no other writer in between. The readers that wait next are let in, as
    /// after a release.
    ///
    /// It returns at once, and the store learns it in the background: within a round trip, or as
    /// soon as a store that does not answer does again. Until then others wait as for a writer. The
    /// guard is that of a reader from now on in any case, so write nothing under it. If the lease
    /// is lost meanwhile, the guard says so like any other.
    ///
    /// The fence stays: all that the writer wrote carries it, and the next writer has a greater
    /// one.
    ///
    /// ```
    /// # async fn example(locks: leasehold::Locks) -> Result<(), leasehold::Error> {
    /// let writing = locks.rw_lock("doc:7").write().await?;
    /// // Here it writes.
    /// let reading = writing.downgrade();
    /// // Others read now, too; what it wrote is still there.
    /// reading.release().await?;
    /// # Ok(()) }
    /// ```
    pub fn downgrade(self) -> RwLockReadGuard {
        self.0.downgrade();
        RwLockReadGuard(self.0)
    }
}

kind_of_guard! {
    /// Permits of a semaphore: as many as were requested together, which are also released
    /// together. It does everything that a [`Guard`] does.
    #[doc(alias = "OwnedSemaphorePermit")]
    SemaphorePermit: async.await
}
