//! What a store remembers beyond leases: what was done, and which leases were broken.

use leasehold_core::{BoxFuture, BreakRecord, Fault, Key, Mark, Marked, Store};

use crate::error::InspectError;
use crate::locks::Locks;

impl Locks {
    /// Whether what a name stands for was done, by [`once`](Self::once) or [`every`](Self::every), and the time at the store.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses, or the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn marked(&self, name: impl AsRef<[u8]>) -> Result<Marked, InspectError> {
        let key = self.key(name.as_ref())?;
        self.looked(|store| Box::pin(async move { store.marks()?.marked(&key).await })).await
    }

    /// The marks of all names that begin so, in the order of their bytes: what was done by [`once`](Self::once) and
    /// [`every`](Self::every), when, by whom, and when it is due. On a server this looks through all its keys, as
    /// [`list`](Self::list) does.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn marks(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<(Key, Marked)>, InspectError> {
        let prefix = self.full_prefix(prefix.as_ref());
        self.looked(|store| Box::pin(async move { store.marks()?.list_marks(&prefix).await })).await
    }

    /// Takes back the mark of a name, so that what it stands for counts as not done and the next one does it; says which mark that was.
    /// Whoever is at it now leaves a new one when it is done. In a quorum every store must answer, because one that kept the mark
    /// would bring it back.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses, or the name cannot be a key. Without an answer the mark may be gone
    /// or not.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the mark may be gone or not.
    pub async fn forget(&self, name: impl AsRef<[u8]>) -> Result<Option<Mark>, InspectError> {
        let key = self.key(name.as_ref())?;
        self.looked(|store| Box::pin(async move { store.marks()?.forget(&key).await })).await
    }

    /// Which lease on a lock was [broken](Self::break_lease) last, by whom and why; `None` if none was within
    /// [`BreakRecord::KEPT_FOR`].
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses, or the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn last_break(&self, name: impl AsRef<[u8]>) -> Result<Option<BreakRecord>, InspectError> {
        let key = self.key(name.as_ref())?;
        self.looked(|store| Box::pin(async move { store.admin()?.last_break(&key).await })).await
    }

    /// The same of all names that begin so, in the order of their bytes. On a server this looks through all its keys, as
    /// [`list`](Self::list) does.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn breaks(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<BreakRecord>, InspectError> {
        let prefix = self.full_prefix(prefix.as_ref());
        self.looked(|store| Box::pin(async move { store.admin()?.list_breaks(&prefix).await })).await
    }

    async fn looked<'a, T>(
        &'a self,
        look: impl FnOnce(&'a dyn Store) -> BoxFuture<'a, Result<T, Fault>>,
    ) -> Result<T, InspectError> {
        let place = self.place();
        let looked = look(&*place.store).await;
        place.report.answered(&looked);
        looked.map_err(InspectError::Store)
    }
}
