//! Whether this process can be told that its turn has come.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold_core::{Fault, Notice, NoticeBus, Notices};

/// Whether the server takes the subscriptions of those who wait; each change is told once.
#[derive(Debug)]
pub(crate) struct Hearing {
    /// Why it takes none, if so.
    deaf: Mutex<Option<Fault>>,
    notice_bus: Arc<NoticeBus>,
}

impl Hearing {
    pub(crate) fn new(notice_bus: Arc<NoticeBus>) -> Self {
        Self { deaf: Mutex::default(), notice_bus }
    }

    /// There is a subscription.
    pub(crate) fn is_good(&self, store: &Arc<str>) {
        // Told while nothing can change, so that who reads hears of the changes in their order.
        let mut deaf = self.deaf();
        if deaf.take().is_some() {
            self.notice_bus.say(&Notice::PushBack { store: store.clone() });
        }
    }

    /// There is none, for this reason.
    pub(crate) fn is_bad(&self, fault: Fault) {
        let mut deaf = self.deaf();
        if deaf.is_none() {
            self.notice_bus.say(&Notice::PushDown { fault: fault.clone() });
        }
        *deaf = Some(fault);
    }

    pub(crate) fn deaf_because(&self) -> Option<Fault> {
        self.deaf().clone()
    }

    /// How it is, and what changes from now on.
    pub(crate) fn read(&self) -> Box<dyn Notices> {
        let deaf = self.deaf();
        self.notice_bus.read_after(deaf.clone().map(|fault| Notice::PushDown { fault }))
    }

    fn deaf(&self) -> MutexGuard<'_, Option<Fault>> {
        self.deaf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
