//! The locks of one process on a memory store whose calls can fail, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use conformance::faulty::Faulty;
use conformance::virtual_time::VirtualTime;
use leasehold::{Event, Events, Locks, LocksBuilder, MemoryStore};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const TTL: Duration = Duration::from_secs(9);

pub(crate) struct World {
    pub(crate) time: Arc<VirtualTime>,
    pub(crate) memory: Arc<MemoryStore>,
    pub(crate) store: Arc<Faulty>,
    pub(crate) locks: Locks,
}

impl World {
    pub(crate) fn begin() -> Self {
        Self::with(|builder| builder)
    }

    pub(crate) fn with(set: impl FnOnce(LocksBuilder) -> LocksBuilder) -> Self {
        let time = VirtualTime::begin();
        let memory = Arc::new(MemoryStore::new(time.clone()));
        let store = Faulty::over(memory.clone());
        let builder = set(Locks::builder().ttl(TTL).runtime(time.clone()));
        let locks = builder.over(store.clone()).unwrap();
        Self { time, memory, store, locks }
    }

    /// Another process on the same store, without faults.
    pub(crate) fn others(&self) -> Locks {
        Locks::builder().ttl(TTL).runtime(self.time.clone()).over(self.memory.clone()).unwrap()
    }
}

/// All events that can be read now.
pub(crate) async fn drain(events: &mut Events) -> Vec<Event> {
    let mut read = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(1), events.next()).await {
        read.push(event);
    }
    read
}

/// The kinds of events, in order.
pub(crate) fn kinds(events: &[Event]) -> Vec<&'static str> {
    let kind = |event: &Event| match event {
        Event::Waiting { .. } => "waiting",
        Event::Acquired { .. } => "acquired",
        Event::GaveUp { .. } => "gave up",
        Event::Renewed { .. } => "renewed",
        Event::Released { .. } => "released",
        Event::NotReleased { .. } => "not released",
        Event::Lost { .. } => "lost",
        Event::Broke { .. } => "broke",
        Event::StoreFault { .. } => "store fault",
        Event::StoreBack { .. } => "store back",
        Event::MemberDown { .. } => "member down",
        Event::MemberBack { .. } => "member back",
        Event::PushDown { .. } => "push down",
        Event::PushBack { .. } => "push back",
        Event::Missed { .. } => "missed",
        _ => "another",
    };
    events.iter().map(kind).collect()
}
