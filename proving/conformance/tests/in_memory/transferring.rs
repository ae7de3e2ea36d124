//! Transferring a lock while the store answers and while it does not.

use std::time::Duration;

use conformance::faulty::{self, CallFate};
use leasehold::testing::{Outage, World};
use leasehold::{Event, HolderInfo, Loss, Misuse, Renewal, TransferError};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(10);

async fn holders(world: &World) -> Vec<HolderInfo> {
    world.locks().inspect("k").await.unwrap().holders
}

/// Both sides ask again, and find that the request which was not answered was served.
#[tokio::test]
async fn a_transfer_and_an_adoption_whose_answers_are_lost_succeed_once_answers_come() {
    let world = World::new();
    let (giver, adopter) = (world.process(), world.process());
    let guard = giver.locks().mutex("k").ttl(TTL).lock().await.unwrap();
    let held = guard.held();
    giver.outage(Outage::AnswersLost);
    let transferring = tokio::spawn(guard.transfer(2 * TTL));
    world.advance(2 * SECOND).await;
    assert!(!held.is_held(), "the store may have the next holder by now");
    giver.heal();
    let token = world.within(5 * SECOND, transferring).await.unwrap().unwrap();

    adopter.outage(Outage::AnswersLost);
    let locks = adopter.locks();
    let same = token.clone();
    let adopting = tokio::spawn(async move { locks.adopt(&same).await });
    world.advance(2 * SECOND).await;
    let second = world.locks().adopt(&token).await;
    assert!(matches!(second, Err(TransferError::Lost(Loss::TakenByOther { .. }))), "{second:?}");
    adopter.heal();
    let guard = world.within(5 * SECOND, adopting).await.unwrap().unwrap();
    world.advance(5 * TTL).await;
    assert!(guard.is_held(), "it is renewed like any other");
}

#[tokio::test]
async fn whoever_waits_for_the_loss_of_a_lock_is_woken_by_its_transfer() {
    let world = World::new();
    let guard = world.locks().mutex("k").ttl(TTL).lock().await.unwrap();
    let held = guard.held();
    let lost = tokio::spawn(async move { held.lost().await });
    world.settle().await;
    guard.transfer(TTL).await.unwrap();
    assert_eq!(world.within(SECOND, lost).await.unwrap(), Loss::Transferred);
}

/// They adopted it, and then released it, so that nobody had it.
#[tokio::test]
async fn locks_that_are_closed_leave_a_transferred_lock_to_others() {
    let world = World::new();
    let token = world.locks().mutex("k").lock().await.unwrap().transfer(TTL).await.unwrap();
    let closed = world.locks();
    closed.close(SECOND).await.unwrap();
    let error = closed.adopt(&token).await.unwrap_err();
    assert!(matches!(error, TransferError::Lost(Loss::Closed { .. })), "{error:?}");
    world.settle().await;
    assert!(world.locks().adopt(&token).await.unwrap().is_held());
}

/// Regression: such an adoption went on to its outage limit, and closing left the lock behind silently.
#[tokio::test]
async fn closing_the_locks_ends_an_adoption_that_the_store_does_not_answer() {
    let world = World::new();
    let adopter = world.process();
    let token = world.locks().mutex("k").lock().await.unwrap().transfer(2 * TTL).await.unwrap();
    let locks = adopter.locks();
    adopter.outage(Outage::AnswersLost);
    let adopting = tokio::spawn({
        let locks = locks.clone();
        async move { locks.adopt(&token).await }
    });
    world.advance(SECOND).await;
    let closing = tokio::spawn(async move { locks.close(2 * SECOND).await });
    world.advance(SECOND / 10).await;
    assert!(adopting.is_finished());
    let error = adopting.await.unwrap().unwrap_err();
    assert!(matches!(error, TransferError::Lost(Loss::Closed { .. })), "{error:?}");
    adopter.heal();
    world.within(3 * SECOND, closing).await.unwrap().unwrap();
    assert!(holders(&world).await.is_empty());
}

/// The adopter counts from before the request that was answered, whatever came before it.
#[tokio::test]
async fn an_adopter_relies_on_its_lease_from_before_its_last_request() {
    let world = World::new();
    let adopter = world.process();
    let token = world.locks().mutex("k").lock().await.unwrap().transfer(TTL).await.unwrap();
    adopter.outage(Outage::AnswersLost);
    let locks = adopter.locks();
    let adopting = tokio::spawn(async move { locks.adopt(&token).await });
    world.advance(3 * SECOND).await;
    adopter.heal();
    let guard = world.within(5 * SECOND, adopting).await.unwrap().unwrap();
    let left = holders(&world).await[0].remaining.unwrap();
    assert!(guard.remaining() <= left, "{:?} of {left:?}", guard.remaining());
    assert!(guard.remaining() > 25 * SECOND, "{:?}", guard.remaining());
}

/// The store counts from when it served the request, and may have ended the lease since.
#[tokio::test(start_paused = true)]
async fn an_adopted_lease_counts_from_before_its_request_and_is_given_up_if_it_has_ended() {
    let world = faulty::World::begin(TTL);
    let token = world.others().mutex("k").lock().await.unwrap().transfer(6 * TTL).await.unwrap();
    world.store.once("transfer", CallFate::Slow(2 * SECOND));
    let guard = world.locks.adopt(&token).await.unwrap();
    let left = guard.remaining();
    assert!(left > TTL - 3 * SECOND && left <= TTL - 2 * SECOND, "{left:?}");
    guard.release().await.unwrap();

    let token = world.others().mutex("k").lock().await.unwrap().transfer(6 * TTL).await.unwrap();
    world.store.once("transfer", CallFate::Slow(TTL));
    let error = world.locks.adopt(&token).await.unwrap_err();
    assert!(matches!(error, TransferError::Lost(Loss::Expired { .. })), "{error:?}");
    tokio::time::sleep(SECOND).await;
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_release_of_a_transferred_lock_counts_although_its_answer_was_lost() {
    let world = faulty::World::begin(TTL);
    let token = world.locks.mutex("k").lock().await.unwrap().transfer(TTL).await.unwrap();
    world.store.once("release", CallFate::AnswerLost);
    world.locks.release_transfer(&token).await.unwrap();
    assert!(world.is_empty());
}

/// Regression: a repeated release took "the token holds nothing" for success, though it was adopted.
#[tokio::test(start_paused = true)]
async fn a_release_of_a_transferred_lock_that_is_tried_again_says_that_it_was_adopted_before() {
    let world = faulty::World::begin(TTL);
    let token = world.locks.mutex("k").lock().await.unwrap().transfer(TTL).await.unwrap();
    world.store.once("release", CallFate::Lost);
    let (locks, its) = (world.locks.clone(), token.clone());
    let released = tokio::spawn(async move { locks.release_transfer(&its).await });
    tokio::time::sleep(SECOND / 2).await;
    let adopted = world.others().adopt(&token).await.unwrap();
    let released = released.await.unwrap();
    assert!(matches!(released, Err(TransferError::Lost(Loss::TakenByOther { .. }))), "{released:?}");
    assert!(adopted.is_held());
}

/// The store must not keep the lock for an adopter that never gets a token.
#[tokio::test]
async fn a_transfer_that_is_not_confirmed_releases_the_lock_soon_after() {
    for outage in [Outage::AnswersLost, Outage::Down] {
        let world = World::new();
        let giver = world.process();
        let guard = giver.locks().mutex("k").ttl(TTL).lock().await.unwrap();
        giver.outage(outage);
        let transferring = tokio::spawn(guard.transfer(3600 * SECOND));
        let error = world.within(2 * TTL, transferring).await.unwrap().unwrap_err();
        assert!(matches!(error, TransferError::Unconfirmed(_)), "{error:?}");
        assert!(error.to_string().starts_with("the store did not confirm the transfer: memory:"), "{error}");
        giver.heal();
        world.advance(2 * TTL).await;
        assert_eq!(holders(&world).await, [], "{outage:?}");
    }
}

#[tokio::test]
async fn a_transfer_and_an_adoption_that_are_dropped_leave_nothing() {
    let world = World::new();
    let (giver, adopter) = (world.process(), world.process());
    let giving = giver.locks();
    let guard = giving.mutex("k").ttl(TTL).lock().await.unwrap();
    let mut events = giving.events();
    giver.outage(Outage::AnswersLost);
    let transferring = tokio::spawn(guard.transfer(3600 * SECOND));
    world.advance(SECOND).await;
    // The store keeps it for longer than this outage lasts.
    giver.outage(Outage::Down);
    transferring.abort();
    world.advance(10 * TTL).await;
    giver.heal();
    world.advance(2 * TTL).await;
    assert_eq!(holders(&world).await, []);
    let told = loop {
        match events.next().await {
            Some(Event::StoreFault { .. } | Event::StoreBack { .. }) => {}
            told => break told,
        }
    };
    assert!(matches!(told, Some(Event::Released { .. })), "{told:?}");

    let token = giver.locks().mutex("k").lock().await.unwrap().transfer(3600 * SECOND).await.unwrap();
    adopter.outage(Outage::AnswersLost);
    let locks = adopter.locks();
    let adopting = tokio::spawn(async move { locks.adopt(&token).await });
    world.advance(SECOND).await;
    adopting.abort();
    adopter.heal();
    world.advance(2 * SECOND).await;
    assert_eq!(holders(&world).await, []);
}

#[tokio::test]
async fn a_lock_that_is_lost_is_not_transferred() {
    let world = World::new();
    let guard = world.locks().mutex("k").ttl(TTL).lock().await.unwrap();
    world.lose("k");
    let error = guard.transfer(TTL).await.unwrap_err();
    assert!(matches!(error, TransferError::Lost(Loss::Gone { .. })), "{error:?}");

    let guard = world.locks().mutex("k").ttl(TTL).renewal(Renewal::Off).lock().await.unwrap();
    world.advance(TTL).await;
    let error = guard.transfer(TTL).await.unwrap_err();
    assert!(matches!(error, TransferError::Lost(Loss::Expired { .. })), "{error:?}");

    let guard = world.locks().mutex("k").lock().await.unwrap();
    let error = guard.transfer(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, TransferError::Misuse(Misuse::TtlTooShort { .. })), "{error:?}");
    world.settle().await;
    assert_eq!(holders(&world).await, [], "the guard is gone in every case");
}

/// During and after the transfer, even if the store does not know it yet.
#[tokio::test]
async fn a_writer_that_became_a_reader_goes_over_as_a_reader() {
    let world = World::new();
    let writing = world.locks().rw_lock("doc").write().await.unwrap();
    let waiting = tokio::spawn(world.locks().rw_lock("doc").read().into_future());
    world.settle().await;
    let reading = writing.downgrade();
    let token = leasehold::Guard::from(reading).transfer(TTL).await.unwrap();
    world.settle().await;
    assert!(waiting.is_finished(), "the reader behind it is let in at once");
    let guard = world.locks().adopt(&token).await.unwrap();
    world.advance(60 * SECOND).await;
    assert!(guard.is_held());
    assert!(world.locks().rw_lock("doc").try_read().await.unwrap().is_some());
}

#[tokio::test]
async fn each_side_reports_its_part() {
    let world = World::new();
    let (giver, adopter) = (world.locks(), world.locks());
    let (mut gives, mut adopts) = (giver.events(), adopter.events());
    let token = giver.mutex("k").lock().await.unwrap().transfer(TTL).await.unwrap();
    let guard = adopter.adopt(&token).await.unwrap();
    assert!(matches!(gives.next().await, Some(Event::Acquired { .. })));
    assert!(matches!(gives.next().await, Some(Event::Transferred { fence, .. }) if fence == token.fence));
    assert!(matches!(adopts.next().await, Some(Event::Acquired { fence, .. }) if fence == token.fence));
    guard.release().await.unwrap();
    assert!(matches!(adopts.next().await, Some(Event::Released { .. })));
}

#[test]
fn threads_transfer_and_adopt_too() {
    let locks = leasehold::blocking::Locks::in_memory().unwrap();
    let guard = locks.mutex("k").lock().wait().unwrap();
    let fence = guard.fence();
    let token = guard.transfer(TTL).unwrap();
    locks.renew_transfer(&token, 2 * TTL).unwrap();
    let guard = locks.adopt(&token).unwrap();
    assert_eq!(guard.fence(), fence);
    let token = guard.transfer(TTL).unwrap();
    locks.release_transfer(&token).unwrap();
    assert!(locks.mutex("k").try_lock().unwrap().is_some());
}

/// Regression: a call that was under way when the outage limit ended was awaited.
#[tokio::test]
async fn nothing_about_a_transfer_waits_for_a_silent_store_past_the_outage_limit() {
    let world = World::new();
    let token = world.locks().mutex("k").lock().await.unwrap().transfer(TTL).await.unwrap();
    let process = world.process();
    let limit = SECOND / 5;
    let locks = process.locks().with_outage_limit(limit);
    process.outage(Outage::Silent);
    for nth in 0..3 {
        let began = world.passed();
        let asking = async {
            match nth {
                0 => locks.adopt(&token).await.map(drop),
                1 => locks.renew_transfer(&token, TTL).await,
                _ => locks.release_transfer(&token).await,
            }
        };
        let refused = world.within(SECOND, asking).await;
        assert!(matches!(refused, Err(TransferError::Unconfirmed(_))), "{nth}: {refused:?}");
        assert!(world.passed() - began <= limit, "{nth}: {:?}", world.passed() - began);
    }
}
