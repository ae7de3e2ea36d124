//! Locks that are lost while their holder cannot act.

use std::time::Duration;

use leasehold::testing::World;
use leasehold::{Event, Loss, ReleaseError};

use super::{SECOND, TTL, in_a_world, while_holding};

#[test]
fn a_lease_that_is_deleted_is_lost_with_the_next_renewal() {
    while_holding(async |world, guard| {
        world.lose("k");
        world.advance(TTL / 3 - SECOND).await;
        assert!(guard.is_held(), "nobody can know yet");
        world.advance(SECOND).await;
        assert!(!guard.is_held());
        assert!(matches!(guard.lost().await, Loss::Gone { .. }));
        assert!(matches!(guard.release().await, Err(ReleaseError::Expired { .. })));
    });
}

#[test]
fn a_lease_that_is_deleted_and_taken_says_by_whom() {
    while_holding(async |world, guard| {
        world.lose("k");
        let other = world.locks().mutex("k").label("usurper").try_lock().await.unwrap().unwrap();
        assert!(other.fence() > guard.fence());
        world.advance(TTL / 3).await;
        let Loss::TakenByOther { held_by, .. } = guard.lost().await else { panic!("lost otherwise") };
        assert_eq!(held_by.fence, Some(other.fence()));
        assert!(other.is_held());
    });
}

#[test]
fn readers_are_deleted_together() {
    in_a_world(async |world| {
        let doc = world.locks().rw_lock("doc");
        let (one, two) = (doc.read().await.unwrap(), doc.read().await.unwrap());
        world.lose("doc");
        world.advance(TTL / 3).await;
        assert!(!one.is_held() && !two.is_held());
    });
}

#[test]
fn a_lease_that_is_broken_is_lost_at_once_and_the_next_holds() {
    while_holding(async |world, guard| {
        let next = tokio::spawn(world.locks().mutex("k").lock().into_future());
        world.until("k", |state| state.waiters.len() == 1).await;
        world.settle().await;
        world.break_lease("k");
        assert!(matches!(guard.lost().await, Loss::Broken { .. }));
        assert!(next.await.unwrap().unwrap().fence() > guard.fence());
        assert_eq!(world.passed(), Duration::ZERO);
    });
}

#[test]
fn a_store_that_forgot_everything_says_so_at_the_next_renewal() {
    while_holding(async |world, guard| {
        let once = world.locks().once("migrate");
        once.run(async |_| Ok::<_, ReleaseError>(())).await.unwrap();
        world.forget();
        assert!(world.locks().mutex("k").try_lock().await.unwrap().is_some());
        assert_eq!(once.mark().await.unwrap(), None);
        world.advance(TTL).await;
        assert!(!guard.is_held());
    });
}

#[test]
#[should_panic(expected = "k: nobody holds it, so it cannot be lost")]
fn a_free_lock_cannot_be_lost() {
    World::new().lose("k");
}

#[test]
#[should_panic(expected = "k: nobody holds it, so its lease cannot be broken")]
fn a_free_lock_cannot_be_broken() {
    World::new().break_lease("k");
}

#[test]
fn a_paused_process_renews_nothing_and_finds_out_when_it_continues() {
    in_a_world(async |world| {
        let (sleeper, other) = (world.process(), world.locks().mutex("other").lock().await.unwrap());
        let guard = sleeper.locks().mutex("k").lock().await.unwrap();
        let mut events = sleeper.locks().events();
        sleeper.pause();
        world.advance(TTL - SECOND).await;
        assert!(guard.is_held());
        world.advance(SECOND).await;
        assert!(!guard.is_held());
        assert_eq!(guard.held().loss(), None, "nobody can have told it");
        let next = world.locks().mutex("k").try_lock().await.unwrap().expect("free");

        sleeper.resume();
        assert!(matches!(guard.lost().await, Loss::Expired { .. }));
        assert!(matches!(events.next().await, Some(Event::Lost { .. })));
        assert!(next.is_held() && other.is_held());
    });
}

#[test]
fn a_process_paused_for_less_than_its_lease_loses_nothing() {
    in_a_world(async |world| {
        let sleeper = world.process();
        let guard = sleeper.locks().mutex("k").lock().await.unwrap();
        for _ in 0..10 {
            sleeper.pause();
            world.advance(TTL - SECOND).await;
            sleeper.resume();
            world.settle().await;
            assert!(guard.remaining() > TTL - SECOND, "it was renewed when it went on");
        }
    });
}

/// Its requests stop with it, including those of the test itself.
#[test]
fn a_paused_process_acquires_no_lock() {
    in_a_world(async |world| {
        let sleeper = world.process();
        let locks = sleeper.locks();
        sleeper.pause();
        let asked = tokio::spawn(locks.mutex("k").lock().into_future());
        world.advance(5 * SECOND).await;
        assert!(!asked.is_finished());
        assert!(world.locks().inspect("k").await.unwrap().holders.is_empty());
        sleeper.resume();
        assert!(asked.await.unwrap().is_ok_and(|guard| guard.is_held()));
    });
}

/// A dead waiter may not delay the next one for longer than any waiter is waited for.
#[test]
fn a_process_that_never_goes_on_is_followed_at_its_leases_end() {
    in_a_world(async |world| {
        let (dead, dead_too) = (world.process(), world.process());
        let guard = dead.locks().mutex("k").lock().await.unwrap();
        let _waits = tokio::spawn(dead_too.locks().mutex("k").lock().into_future());
        world.until("k", |state| state.waiters.len() == 1).await;
        let next = tokio::spawn(world.locks().mutex("k").lock().into_future());
        world.until("k", |state| state.waiters.len() == 2).await;
        world.settle().await;
        dead.pause();
        dead_too.pause();
        drop(guard);
        world.advance(TTL - SECOND).await;
        assert!(!next.is_finished(), "a killed process releases nothing");
        let next = world.within(6 * SECOND, next).await.unwrap().unwrap();
        assert!(next.is_held());
    });
}
