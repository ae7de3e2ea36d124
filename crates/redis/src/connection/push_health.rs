//! Tracks whether this process can be notified of its turn.

use std::sync::{Arc, Mutex};

use leasehold_core::{Fault, Notice, NoticeBus, Notices, locked};

/// Remembers if the server accepts the waiters' subscriptions, and reports each change once.
#[derive(Debug)]
pub(crate) struct PushHealth {
    fault: Mutex<Option<Fault>>,
    notice_bus: Arc<NoticeBus>,
}

impl PushHealth {
    pub(crate) fn new(notice_bus: Arc<NoticeBus>) -> Self {
        Self { fault: Mutex::default(), notice_bus }
    }

    /// Notes that there is a subscription.
    pub(crate) fn is_good(&self, store: &Arc<str>) {
        // Reported while the mutex is held, so that readers get the changes in order.
        let mut fault = locked(&self.fault);
        if fault.take().is_some() {
            self.notice_bus.say(&Notice::PushBack { store: store.clone() });
        }
    }

    /// Notes that there is no subscription, with the reason.
    pub(crate) fn is_bad(&self, fault: Fault) {
        let mut reported = locked(&self.fault);
        if reported.is_none() {
            self.notice_bus.say(&Notice::PushDown { fault: fault.clone() });
        }
        *reported = Some(fault);
    }

    pub(crate) fn push_unavailable(&self) -> Option<Fault> {
        locked(&self.fault).clone()
    }

    /// The current state of all connections that report to this bus, and all changes from now on.
    pub(crate) fn read<'a>(all: impl Iterator<Item = &'a Self>, notice_bus: &NoticeBus) -> Box<dyn Notices> {
        let faults: Vec<_> = all.map(|health| locked(&health.fault)).collect();
        let down = faults.iter().filter_map(|fault| Option::clone(fault));
        notice_bus.read_after(down.map(|fault| Notice::PushDown { fault }))
    }
}
