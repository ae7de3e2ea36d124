//! Waits for an event of a kind.

use std::time::Duration;

use leasehold::{Event, Events};

/// The first event of this kind within a time; other events are skipped.
pub async fn wait_for<T>(events: &mut Events, within: Duration, kind: impl Fn(&Event) -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = kind(&events.next().await.expect("not over")) {
                return found;
            }
        }
    };
    tokio::time::timeout(within, found).await.expect("in time")
}
