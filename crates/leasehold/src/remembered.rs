//! A store's records besides leases: marks of jobs that were done, and records of broken leases.

use leasehold_core::{BreakRecord, Key, Mark, Marked};

use crate::error::InspectError;
use crate::locks::Locks;

impl Locks {
    /// Returns whether the job of this name was done by [`once`](Self::once) or
    /// [`every`](Self::every), and the store's time.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn marked(&self, name: impl AsRef<[u8]>) -> Result<Marked, InspectError> {
        let key = self.key(name.as_ref())?;
        self.handle().looked(async { self.handle().store.marks()?.marked(&key).await }).await
    }

    /// The marks of all names with this prefix, in byte order: which jobs of [`once`](Self::once)
    /// and [`every`](Self::every) were done, when, by whom, and when they are due. On a server this
    /// scans all keys, as [`list`](Self::list) does.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn marks(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<(Key, Marked)>, InspectError> {
        let prefix = self.full_prefix(prefix.as_ref());
        self.handle().looked(async { self.handle().store.marks()?.list_marks(&prefix).await }).await
    }

    /// Deletes the mark of a name, so that its job counts as not done and the next process does it.
    /// Returns the deleted mark. A process that is doing the job now leaves a new mark when it is
    /// done. In a quorum every store must answer, because one that kept the mark would bring it
    /// back.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    /// Without an answer the mark may or may not be deleted.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the mark may or may not be deleted.
    pub async fn forget(&self, name: impl AsRef<[u8]>) -> Result<Option<Mark>, InspectError> {
        let key = self.key(name.as_ref())?;
        self.handle().looked(async { self.handle().store.marks()?.forget(&key).await }).await
    }

    /// The last lease on a lock that was [broken](Self::break_lease), by whom and why; `None` if
    /// none was broken within [`BreakRecord::KEPT_FOR`].
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn last_break(&self, name: impl AsRef<[u8]>) -> Result<Option<BreakRecord>, InspectError> {
        let key = self.key(name.as_ref())?;
        self.handle().looked(async { self.handle().store.admin()?.last_break(&key).await }).await
    }

    /// The same for all names with this prefix, in byte order. On a server this scans all keys, as
    /// [`list`](Self::list) does.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn breaks(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<BreakRecord>, InspectError> {
        let prefix = self.full_prefix(prefix.as_ref());
        self.handle().looked(async { self.handle().store.admin()?.list_breaks(&prefix).await }).await
    }
}
