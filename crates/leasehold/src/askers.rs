//! Everything that can request a lock, so that the keeper knows when nobody can.

use std::sync::Arc;

use crate::store_handle::StoreHandle;

/// Shared by everything that can request a lock: [`Locks`], [`Mutex`] and the like, and requests,
/// but not guards. When the last of them is dropped, the keeper is notified, so that it ends with
/// the last guard.
#[derive(Debug)]
pub(crate) struct Askers {
    pub(crate) handle: Arc<StoreHandle>,
}

impl Drop for Askers {
    fn drop(&mut self) {
        self.handle.registry.orphan();
    }
}
