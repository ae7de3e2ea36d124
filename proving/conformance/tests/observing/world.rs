//! The settings of the tests, and the events that they read.

use std::time::Duration;

pub(crate) use conformance::faulty::World;
use leasehold::{Event, Events};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const TTL: Duration = Duration::from_secs(9);

pub(crate) fn watched() -> (World, Events) {
    let world = World::begin(TTL);
    let events = world.locks.events();
    (world, events)
}

/// All events that can be read now.
pub(crate) async fn drain(events: &mut Events) -> Vec<Event> {
    let mut read = Vec::new();
    while let Ok(Some(event)) = tokio::time::timeout(Duration::from_millis(1), events.next()).await {
        read.push(event);
    }
    read
}

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
