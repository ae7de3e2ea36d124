//! Outages, for one process or for all.

use std::time::Duration;

use leasehold::testing::Outage;
use leasehold::{FaultCause, LockError, Loss};

use super::{SECOND, TTL, in_a_world, while_holding};

const EACH: [Outage; 4] = [Outage::Silent, Outage::Down, Outage::AnswersLost, Outage::Refused];

#[test]
fn a_short_outage_loses_nothing() {
    for outage in EACH {
        while_holding(async |world, guard| {
            for _ in 0..10 {
                world.outage(outage);
                world.advance(TTL / 2).await;
                world.heal();
                world.advance(TTL / 2).await;
                assert!(guard.is_held(), "{outage:?}");
            }
            guard.release().await.unwrap();
        });
    }
}

#[test]
fn an_outage_longer_than_the_lease_loses_it_at_its_end() {
    for outage in EACH {
        while_holding(async |world, guard| {
            world.advance(TTL / 3 - SECOND).await;
            world.outage(outage);
            world.advance(TTL - TTL / 3 + SECOND - SECOND / 1000).await;
            assert!(guard.is_held(), "{outage:?}");
            world.advance(SECOND / 1000).await;
            assert!(!guard.is_held(), "{outage:?}");
            let Loss::Expired { fault: Some(fault) } = guard.lost().await else { panic!("{outage:?}") };
            assert!(fault.to_string().starts_with("memory:: "), "{fault}");
            let unanswered = matches!(outage, Outage::Silent | Outage::AnswersLost);
            assert_eq!(fault.cause == FaultCause::TimedOut, unanswered, "{fault:?}");
        });
    }
}

#[test]
fn a_request_fails_as_unreachable_when_the_outage_limit_is_over() {
    for (outage, says) in [
        (Outage::Silent, "timed out"),
        (Outage::Down, "connection refused"),
        (Outage::AnswersLost, "timed out"),
    ] {
        in_a_world(async |world| {
            let locks = world.locks();
            world.outage(outage);
            let error = world.within(11 * SECOND, locks.mutex("k").lock().into_future()).await.unwrap_err();
            let LockError::Unreachable { fault: Some(fault), waited, .. } = error else { panic!("{error}") };
            assert_eq!((&*fault.reason, waited), (says, 10 * SECOND), "{outage:?}");
        });
    }
}

#[test]
fn a_call_to_a_silent_store_is_served_when_the_outage_ends_in_time() {
    in_a_world(async |world| {
        let locks = world.locks();
        world.outage(Outage::Silent);
        let asked = tokio::spawn(locks.mutex("k").lock().into_future());
        world.settle().await;
        assert!(!asked.is_finished());
        world.heal();
        assert!(asked.await.unwrap().is_ok_and(|guard| guard.attempts() == 1));
        assert_eq!(world.passed(), Duration::ZERO);
    });
}

#[test]
fn a_grant_without_an_answer_is_undone() {
    in_a_world(async |world| {
        let cut_off = world.process();
        let locks = cut_off.locks();
        cut_off.outage(Outage::AnswersLost);
        let asked = tokio::spawn(locks.mutex("k").lock().into_future());
        world.until_held("k").await;
        world.settle().await;
        assert!(!asked.is_finished());
        asked.abort();
        cut_off.heal();
        world.advance(SECOND).await;
        world.until("k", |state| state.holders.is_empty()).await;
        assert!(world.passed() < TTL);
    });
}

#[test]
fn an_outage_of_one_process_concerns_nobody_else() {
    in_a_world(async |world| {
        let cut_off = world.process();
        let lost = cut_off.locks().mutex("mine").lock().await.unwrap();
        let kept = world.locks().mutex("other").lock().await.unwrap();
        cut_off.outage(Outage::Down);
        world.advance(2 * TTL).await;
        assert!(!lost.is_held() && kept.is_held());
        assert!(world.locks().mutex("mine").try_lock().await.unwrap().is_some());
        cut_off.heal();
        assert!(cut_off.locks().mutex("third").try_lock().await.unwrap().is_some());
    });
}

#[test]
fn an_outage_of_all_concerns_those_who_come_later_too() {
    in_a_world(async |world| {
        world.outage(Outage::Refused);
        assert!(matches!(world.locks().mutex("k").lock().await, Err(LockError::Refused { .. })));
        world.heal();
        assert!(world.locks().mutex("k").lock().await.is_ok());
    });
}

/// A waiter that is cut off misses its turn, and has the next.
#[test]
fn a_waiter_that_is_cut_off_holds_nobody_up() {
    while_holding(async |world, guard| {
        let cut_off = world.process();
        let first = tokio::spawn(cut_off.locks().mutex("k").lock().into_future());
        world.until("k", |state| state.waiters.len() == 1).await;
        let second = tokio::spawn(world.locks().mutex("k").lock().into_future());
        world.until("k", |state| state.waiters.len() == 2).await;
        world.settle().await;
        cut_off.outage(Outage::Silent);
        guard.release().await.unwrap();
        let second = world.within(4 * SECOND, second).await.unwrap().unwrap();
        assert!(!first.is_finished());
        cut_off.heal();
        second.release().await.unwrap();
        let first = world.within(TTL, first).await.unwrap().unwrap();
        assert!(first.is_held());
    });
}
