//! Tracks whether this process can be notified of its turn.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use leasehold_core::{Fault, Notice, NoticeBus, Notices, locked};

/// Remembers if the server accepts the waiters' subscriptions, and reports each change once.
#[derive(Debug)]
pub(crate) struct PushHealth {
    fault: Mutex<Option<Fault>>,
    is_retired: AtomicBool,
    notice_bus: Arc<NoticeBus>,
}

impl PushHealth {
    pub(crate) fn new(notice_bus: Arc<NoticeBus>) -> Self {
        Self { fault: Mutex::default(), is_retired: AtomicBool::new(false), notice_bus }
    }

    /// Notes that there is a subscription.
    pub(crate) fn is_good(&self, store: &Arc<str>) {
        // Reported while the mutex is held, so that readers get the changes in order.
        let mut fault = locked(&self.fault);
        if fault.take().is_some() {
            self.notice_bus.say(&Notice::PushBack { store: store.clone() });
        }
    }

    /// Notes that nobody waits there any more. A subscription that fails later changes nothing.
    pub(crate) fn retire(&self, store: &Arc<str>) {
        self.is_retired.store(true, Ordering::Relaxed);
        self.is_good(store);
    }

    /// Notes that there is no subscription, with the reason.
    pub(crate) fn is_bad(&self, fault: Fault) {
        let mut reported = locked(&self.fault);
        if self.is_retired.load(Ordering::Relaxed) {
            return;
        }
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

#[cfg(test)]
mod tests {
    use std::future::Future as _;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// Regression: a subscription that timed out after its node had left the cluster was reported, and
    /// nothing ever said that it was over: the gauge `leasehold_push_down` stayed at 1.
    #[test]
    fn a_subscription_that_fails_when_nobody_waits_there_any_more_is_not_reported() {
        let (notice_bus, store) = (Arc::new(NoticeBus::default()), Arc::from("redis+cluster://a"));
        let health = PushHealth::new(Arc::clone(&notice_bus));
        let mut notices = PushHealth::read([&health].into_iter(), &notice_bus);
        let mut reported = || {
            let mut context = Context::from_waker(Waker::noop());
            pin!(notices.next()).as_mut().poll(&mut context).is_ready()
        };
        health.is_bad(Fault::passing(&store, "no subscription"));
        assert!(reported());
        health.retire(&store);
        assert!(reported());
        health.is_bad(Fault::passing(&store, "no subscription"));
        assert!(!reported() && health.push_unavailable().is_none());
    }
}
