//! Tracks whether this process can be notified of its turn, and on which channel.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use leasehold_core::{Channel, Fault, Notice, NoticeBus, Notices, locked};
use tokio::sync::watch;

use crate::channel;

/// The state of the notification connection.
#[derive(Clone, Debug, Default)]
pub(crate) enum PushState {
    /// Nobody has waited yet, or a connection is being opened or reopened.
    #[default]
    NotYet,
    /// On the channel of this number.
    Listening(i64),
    /// Nobody can be notified for now.
    Unavailable(Fault),
}

/// The state of the notification connection, for requests and for readers of notices.
#[derive(Debug)]
pub(crate) struct PushMonitor {
    notice_bus: Arc<NoticeBus>,
    state: watch::Sender<PushState>,
    /// True while a task listens, or tries to.
    is_kept: AtomicBool,
    /// Held while a change is reported, so that readers get the changes in order.
    telling: Mutex<()>,
}

impl PushMonitor {
    pub(crate) fn new(notice_bus: Arc<NoticeBus>) -> Self {
        Self { notice_bus, state: watch::Sender::default(), is_kept: false.into(), telling: Mutex::default() }
    }

    /// The channel of this process, if it listens.
    pub(crate) fn channel(&self) -> Option<Channel> {
        self.own().map(channel::of_number)
    }

    /// The number of that channel.
    pub(crate) fn own(&self) -> Option<i64> {
        match *self.state.borrow() {
            PushState::Listening(number) => Some(number),
            _ => None,
        }
    }

    /// Returns true if no task listens. The caller then starts one.
    pub(crate) fn begins(&self) -> bool {
        !self.is_kept.swap(true, Ordering::Relaxed)
    }

    /// Notes that the task that listened has ended.
    pub(crate) fn ends(&self, store: &Arc<str>) {
        self.set(store, PushState::NotYet);
        self.is_kept.store(false, Ordering::Relaxed);
    }

    /// The channel, as soon as it is known whether there is one.
    pub(crate) async fn settled(&self) -> Option<Channel> {
        let is_settled =
            |state: &PushState| matches!(state, PushState::Listening(_) | PushState::Unavailable(_));
        let _ = self.state.subscribe().wait_for(is_settled).await;
        self.channel()
    }

    /// The reason why nobody can be notified, if so.
    pub(crate) fn push_unavailable(&self) -> Option<Fault> {
        match &*self.state.borrow() {
            PushState::Unavailable(fault) => Some(fault.clone()),
            _ => None,
        }
    }

    /// The current state, and all changes from now on.
    pub(crate) fn read(&self) -> Box<dyn Notices> {
        let _turn = locked(&self.telling);
        self.notice_bus.read_after(self.push_unavailable().map(|fault| Notice::PushDown { fault }))
    }

    pub(crate) fn set(&self, store: &Arc<str>, new: PushState) {
        let _turn = locked(&self.telling);
        let was_unavailable = self.push_unavailable().is_some();
        match &new {
            PushState::Unavailable(fault) if !was_unavailable => {
                self.notice_bus.say(&Notice::PushDown { fault: fault.clone() });
            }
            PushState::Listening(_) if was_unavailable => {
                self.notice_bus.say(&Notice::PushBack { store: Arc::clone(store) });
            }
            _ => {}
        }
        // While it is being reopened, the reported state does not change.
        if !was_unavailable || !matches!(new, PushState::NotYet) {
            self.state.send_replace(new);
        }
    }
}
