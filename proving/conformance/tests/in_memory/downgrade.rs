//! The guard of a writer that becomes a reader, while the store answers and while it does not.

use std::time::Duration;

use leasehold::testing::{Outage, World};
use leasehold::{Event, Locks, Loss, Mode, Renewal};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_writer_that_becomes_a_reader_tells_the_store_at_once() {
    let world = World::new();
    for renewal in [Renewal::Automatic, Renewal::Off, Renewal::AtMost(TTL)] {
        let locks = world.locks();
        let doc = locks.rw_lock("doc").ttl(TTL).renewal(renewal);
        let writing = doc.write().await.unwrap();
        let (fence, seen) = (writing.fence(), writing.held());
        let reading = writing.downgrade();
        world.until("doc", |state| state.holders.iter().all(|holder| holder.mode == Mode::Shared)).await;
        assert!(doc.try_read().await.unwrap().is_some());
        assert!(doc.try_write().await.unwrap().is_none());
        assert!(reading.is_held() && seen.is_held(), "views of the writer are those of the reader");
        assert_eq!(reading.fence(), fence);
        let mut events = locks.events();
        reading.release().await.unwrap();
        let Some(Event::Released { request, .. }) = events.next().await else { panic!("{renewal:?}") };
        assert_eq!(request.claim.wants()[0].mode, Mode::Shared);
        world.until("doc", |state| state.holders.is_empty()).await;
    }
    assert_eq!(world.passed(), Duration::ZERO);
}

/// Until the store knows, others wait as for a writer; then they read.
#[tokio::test]
async fn a_pending_downgrade_reaches_the_store_when_it_is_back() {
    for (renewal, outage) in [
        (Renewal::Automatic, Outage::Down),
        (Renewal::Automatic, Outage::AnswersLost),
        (Renewal::Off, Outage::Down),
        (Renewal::Off, Outage::AnswersLost),
    ] {
        let world = World::new();
        let (process, others) = (world.process(), world.process());
        let doc = process.locks().rw_lock("doc").ttl(TTL).renewal(renewal);
        let writing = doc.write().await.unwrap();
        process.outage(outage);
        let reading = writing.downgrade();
        world.advance(SECOND).await;
        assert!(reading.is_held());
        let read = others.locks().rw_lock("doc").try_read().await.unwrap();
        assert_eq!(read.is_some(), outage == Outage::AnswersLost, "{outage:?}");
        process.heal();
        world.advance(2 * SECOND).await;
        assert!(reading.is_held());
        assert!(others.locks().rw_lock("doc").try_read().await.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_reader_is_renewed_and_lost_like_any_other() {
    let world = World::new();
    let reading = world.locks().rw_lock("doc").ttl(TTL).write().await.unwrap().downgrade();
    world.advance(5 * TTL).await;
    assert!(reading.is_held());
    world.lose("doc");
    world.advance(TTL).await;
    assert!(matches!(reading.lost().await, Loss::Gone { .. }));
    // A guard that was lost before its writer became a reader stays lost.
    let writing = world.locks().rw_lock("doc").write().await.unwrap();
    world.break_lease("doc");
    writing.lost().await;
    let reading = writing.downgrade();
    world.settle().await;
    assert!(!reading.is_held());
    assert!(reading.release().await.is_err());
}

#[test]
fn a_writer_that_blocks_becomes_a_reader_too() {
    let locks = leasehold::blocking::Locks::in_memory().unwrap();
    let doc = locks.rw_lock("doc");
    let reading = doc.write().wait().unwrap().downgrade();
    // The store is told by another thread.
    let other = doc.read().within(SECOND).wait().unwrap();
    assert!(doc.try_write().unwrap().is_none());
    other.release().unwrap();
    reading.release().unwrap();
}

/// For code that keeps guards of all kinds together.
#[tokio::test]
async fn guards_of_all_kinds_are_guards() {
    let locks = Locks::in_memory();
    let guards: Vec<leasehold::Guard> = vec![
        locks.mutex("m").lock().await.unwrap(),
        locks.rw_lock("r").read().await.unwrap().into(),
        locks.rw_lock("w").write().untyped().await.unwrap(),
        locks.semaphore("s", 2).acquire().await.unwrap().into(),
    ];
    for guard in guards {
        assert!(guard.is_held());
        guard.release().await.unwrap();
    }
}
