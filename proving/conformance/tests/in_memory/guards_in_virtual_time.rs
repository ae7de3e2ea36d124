//! Guards, requests and the keeper, in virtual time.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use conformance::faulty::{CallFate, World, passing};
use leasehold::{
    Backoff, ConnectError, Guard, HoldError, InspectError, JobError, LockError, Locks, Loss, MarkError,
    Misuse, NotDue, ReleaseError, RenewError, Renewal, TransferError,
};
use leasehold_core::{Key, Runtime as _};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);
const TTL: Duration = Duration::from_secs(10);

async fn holding() -> (World, Guard) {
    let world = World::begin(TTL);
    let guard = world.locks.mutex("k").lock().await.unwrap();
    (world, guard)
}

#[tokio::test(start_paused = true)]
async fn a_guard_outlives_the_locks_that_it_came_from() {
    let (world, guard) = holding().await;
    let World { locks, memory, .. } = world;
    drop(locks);
    sleep(5 * TTL).await;
    assert!(guard.is_held());
    drop(guard);
    sleep(Duration::from_millis(1)).await;
    assert!(memory.dump().locks.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_request_outlives_the_locks_that_it_came_from() {
    let world = World::begin(TTL);
    let guard = world.others().mutex("k").lock().await.unwrap();
    let World { locks, store: _store, .. } = world;
    let request = locks.mutex("k").lock();
    drop(locks);
    sleep(SECOND).await;
    let waiting = tokio::spawn(request.into_future());
    sleep(SECOND).await;
    drop(guard);
    assert!(waiting.await.unwrap().unwrap().is_held());
}

/// Without locks and guards, the keeper ends: besides this test, it is the store's last owner.
#[tokio::test(start_paused = true)]
async fn nothing_runs_on_when_locks_and_guards_are_gone() {
    let World { locks, memory, store, .. } = World::begin(TTL);
    drop(locks.mutex("k").lock().await.unwrap());
    drop(locks);
    drop(store);
    sleep(2 * TTL).await;
    assert_eq!(Arc::strong_count(&memory), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_keeps_the_guards_of_locks_that_are_closed() {
    let World { locks, store, .. } = World::begin(TTL);
    let others = locks.clone();
    drop(locks.mutex("k").lock().await.unwrap());
    others.ready().await.unwrap();
    locks.close(SECOND).await.unwrap();
    // Regression: it said that they were ready, and so did a program that serves nothing any more.
    assert!(matches!(others.ready().await, Err(ConnectError::Closed { .. })));
    sleep(SECOND).await;
    assert_eq!(Arc::strong_count(&store), 2, "the locks and this test have it, and no keeper");
}

#[tokio::test(start_paused = true)]
async fn a_store_is_waited_for_until_the_outage_limit_of_the_locks() {
    let world = World::with(TTL, |builder| builder.outage_limit(5 * SECOND));
    world.store.set(CallFate::Hung);
    for (locks, limit) in
        [(world.locks.clone(), 5 * SECOND), (world.locks.clone().with_outage_limit(2 * SECOND), 2 * SECOND)]
    {
        let Err(ConnectError::Unreachable { waited, .. }) = locks.ready().await else { panic!("{limit:?}") };
        assert_eq!(waited, limit);
    }
    // Regression: if the next rest was longer than what was left, it gave up after 0.4 to 1 s of 1 s.
    world.store.set(passing("connection refused"));
    for _ in 0..20 {
        let locks = world.locks.clone().with_outage_limit(SECOND);
        let Err(ConnectError::Unreachable { waited, .. }) = locks.ready().await else { panic!() };
        assert!(waited > SECOND * 95 / 100 && waited <= SECOND, "{waited:?}");
    }
}

/// Regression: after a panic of the store, the leases of that renewal were never renewed again.
#[tokio::test(start_paused = true)]
async fn leases_are_renewed_again_after_a_store_has_panicked() {
    let World { locks, store, .. } = World::begin(TTL);
    let guards = [locks.mutex("a").lock().await.unwrap(), locks.mutex("b").lock().await.unwrap()];
    for _ in 0..3 {
        store.once("renew", CallFate::Panics);
    }
    sleep(3 * TTL).await;
    assert!(guards.iter().all(Guard::is_held));
}

/// Regression: a renewal that a store of the application's own never answered lost all its leases.
#[tokio::test(start_paused = true)]
async fn leases_are_renewed_again_after_a_store_has_left_a_renewal_unanswered() {
    let World { locks, store, .. } = World::begin(TTL);
    let guards = [locks.mutex("a").lock().await.unwrap(), locks.mutex("b").lock().await.unwrap()];
    for _ in 0..3 {
        store.once("renew", CallFate::Hung);
        sleep(3 * TTL).await;
        assert!(guards.iter().all(Guard::is_held));
    }
    store.set(CallFate::Hung);
    let Loss::Expired { fault: Some(fault) } = guards[0].lost().await else { panic!("nobody says why") };
    assert_eq!(&*fault.reason, "it left a renewal unanswered");
}

/// Regression: a call that a store of the application's own never answered was waited for for ever.
#[tokio::test(start_paused = true)]
async fn nobody_waits_long_past_the_lease_for_a_store_that_leaves_a_call_unanswered() {
    for call in ["renew", "give_up"] {
        let (world, guard) = holding().await;
        world.store.set(CallFate::Hung);
        let answer = async {
            if call == "renew" {
                assert!(matches!(guard.renew(TTL).await, Err(RenewError::Unreachable(_))));
            }
            drop(guard);
        };
        timeout(TTL + SECOND, answer).await.expect(call);
        // The release in the background, too.
        sleep(3 * TTL).await;
        world.locks.close(SECOND).await.expect(call);
    }
}

/// Regression: its release was retried only for the TTL with which it was requested.
#[tokio::test(start_paused = true)]
async fn a_lock_that_was_renewed_for_longer_is_released_after_a_longer_outage() {
    const HOUR: Duration = Duration::from_secs(3600);
    for is_closed in [false, true] {
        let (world, guard) = holding().await;
        guard.renew(HOUR).await.unwrap();
        world.store.set(CallFate::Lost);
        if is_closed {
            world.locks.close(Duration::ZERO).await.unwrap_err();
        } else {
            drop(guard);
        }
        sleep(HOUR / 2).await;
        world.store.set(CallFate::Fair);
        sleep(TTL).await;
        assert!(world.memory.dump().locks.is_empty(), "{is_closed}");
    }
}

/// The notice arrives before the grant's answer and may be about an earlier lease: the store is asked.
#[tokio::test(start_paused = true)]
async fn a_guard_whose_lease_was_broken_on_its_way_is_lost_as_soon_as_the_store_says_so() {
    let world = World::begin(TTL);
    // A process that holds nothing does not listen.
    let _listens = world.locks.mutex("another").lock().await.unwrap();
    world.store.set(CallFate::Slow(SECOND));
    let granted = tokio::spawn(world.locks.mutex("k").lock().into_future());
    sleep(SECOND / 2).await;
    let holding = world.others().inspect("k").await.unwrap().holders.pop().unwrap();
    world.others().break_lease("k", holding.fence.unwrap()).await.unwrap();
    let guard = granted.await.unwrap().unwrap();
    let granted = world.time.now();
    assert!(matches!(guard.lost().await, Loss::Broken { .. }));
    assert_eq!(world.time.now(), granted + SECOND, "an answer takes a second");
}

/// The keeper is not woken for each of many short guards, and must nevertheless keep one that lasts.
#[tokio::test(start_paused = true)]
async fn a_guard_after_short_ones_is_renewed_and_lost_when_the_store_says_that_it_was_broken() {
    let world = World::begin(TTL);
    let mutex = world.locks.mutex("k");
    for _ in 0..3 {
        mutex.lock().await.unwrap().release().await.unwrap();
    }
    sleep(SECOND).await;
    let guard = mutex.lock().await.unwrap();
    for _ in 0..10 {
        sleep(TTL / 2).await;
        assert!(guard.is_held());
    }
    let before = world.time.now();
    world.others().break_lease("k", guard.fence()).await.unwrap();
    assert!(matches!(guard.lost().await, Loss::Broken { .. }));
    assert_eq!(world.time.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_guard_whose_lease_was_broken_is_lost_at_once() {
    let (world, guard) = holding().await;
    let bystander = world.locks.mutex("other").lock().await.unwrap();
    // The keeper begins to listen once there is something to lose.
    sleep(Duration::from_millis(1)).await;
    let broken = world.others().break_lease("k", guard.fence()).await.unwrap();
    assert_eq!(broken.fence, Some(guard.fence()));
    let loss = guard.lost().await;
    assert!(matches!(&loss, Loss::Broken { key, .. } if key.as_bytes() == b"k"), "{loss:?}");
    assert_eq!(guard.held_for(), Duration::from_millis(1));
    assert!(!guard.is_held() && bystander.is_held());
    assert!(world.others().mutex("k").try_lock().await.unwrap().unwrap().fence() > guard.fence());
    assert!(matches!(guard.release().await, Err(ReleaseError::Broken { .. })));
}

#[tokio::test(start_paused = true)]
async fn lost_pends_for_ever_after_a_release() {
    let (_world, guard) = holding().await;
    let lost = guard.lost();
    guard.release().await.unwrap();
    assert!(timeout(10 * TTL, lost).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_release_whose_answer_was_lost_counts() {
    let (world, broken) = holding().await;
    world.others().break_lease("k", broken.fence()).await.unwrap();
    drop(broken);
    // The break of an earlier lease says nothing about this one.
    let guard = world.locks.mutex("k").lock().await.unwrap();
    world.store.set(CallFate::AnswerLost);
    let release = tokio::spawn(guard.release());
    sleep(SECOND / 2).await;
    world.store.set(CallFate::Fair);
    release.await.unwrap().unwrap();
}

/// Regression: a release at its second try took "nobody holds it" for success: work seemed done alone.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_tried_again_says_that_the_lease_was_broken_before() {
    for broken in ["k", "l"] {
        let world = World::begin(TTL);
        let guard = world.locks.mutex_all(["k", "l"]).lock().await.unwrap();
        world.others().break_lease(broken, guard.fence()).await.unwrap();
        world.store.once("release", CallFate::Lost);
        let released = guard.release().await;
        assert!(matches!(released, Err(ReleaseError::Broken { .. })), "{released:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_tried_again_is_unconfirmed_if_nobody_knows_whether_the_lease_was_broken() {
    let (world, guard) = holding().await;
    world.store.once("release", CallFate::AnswerLost);
    world.store.on("last break", CallFate::Lost);
    let released = guard.release().await;
    assert!(matches!(released, Err(ReleaseError::Unreachable(_))), "{released:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_nobody_waits_for_goes_on() {
    let (world, guard) = holding().await;
    world.store.set(CallFate::Lost);
    assert!(timeout(SECOND / 2, guard.release()).await.is_err());
    world.store.set(CallFate::Fair);
    sleep(2 * SECOND).await;
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_release_gives_up_when_the_lease_has_ended_by_itself() {
    let (world, guard) = holding().await;
    world.store.set(CallFate::Lost);
    let begun = world.time.passed();
    assert!(matches!(guard.release().await, Err(ReleaseError::Unreachable(_))));
    assert!(world.time.passed() - begun <= TTL);
}

/// Somebody else may have held the lock between the end of the lease and the release.
#[tokio::test(start_paused = true)]
async fn a_release_that_is_answered_after_the_end_of_its_lease_does_not_say_that_the_lock_was_held() {
    let (world, guard) = holding().await;
    world.store.once("release", CallFate::AnswerLost);
    world.store.once("release", CallFate::Slow(TTL));
    let released = guard.release().await;
    assert!(matches!(released, Err(ReleaseError::Expired { .. })), "{released:?}");
}

/// redis-dlm: `extend` refuses to exceed the maxHoldTime.
#[tokio::test(start_paused = true)]
async fn a_longest_hold_ends_however_long_the_guard_lives() {
    let at_most = 25 * SECOND;
    let world = World::with(TTL, |builder| builder.renewal(Renewal::AtMost(at_most)));
    let guard = world.locks.mutex("k").lock().await.unwrap();
    sleep(6 * SECOND).await;
    guard.renew(19 * SECOND).await.unwrap();
    let error = guard.renew(19 * SECOND + SECOND / 1000).await.unwrap_err();
    assert!(matches!(error, RenewError::PastLongestHold { .. }), "{error:?}");
    let lost = guard.lost();
    std::mem::forget(guard);
    assert_eq!(lost.await, Loss::HeldTooLong { at_most });
    assert_eq!(world.time.passed(), at_most);
    sleep(SECOND).await;
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_ones_own_lengthens_the_lease() {
    let world = World::with(TTL, |builder| builder.renewal(Renewal::Off));
    let guard = world.locks.mutex("k").lock().await.unwrap();
    sleep(9 * SECOND).await;
    let view = guard.held();
    let mut renewed = pin!(view.renewed());
    guard.renew(30 * SECOND).await.unwrap();
    // It was renewed since the call.
    assert!(poll_fn(|context| Poll::Ready(renewed.as_mut().poll(context).is_ready())).await);
    // Except for the microsecond that the store may have cut off its clock.
    assert_eq!(guard.remaining(), 30 * SECOND - Duration::from_micros(1));
    assert_eq!(guard.ttl().duration(), 30 * SECOND);
    sleep(29 * SECOND).await;
    assert!(guard.is_held());
    world.store.set(CallFate::Lost);
    assert!(matches!(guard.renew(TTL).await, Err(RenewError::Unreachable(_) | RenewError::Lost(_))));
    sleep(SECOND).await;
    assert!(matches!(guard.renew(TTL).await, Err(RenewError::Lost(Loss::Expired { .. }))));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_of_ones_own_counts_from_before_its_request_was_sent_and_never_shortens() {
    let (world, guard) = holding().await;
    world.store.once("renew", CallFate::Slow(2 * SECOND));
    let left = guard.renew(3 * TTL).await.unwrap();
    assert!(left > 3 * TTL - 3 * SECOND && left <= 3 * TTL - 2 * SECOND, "{left:?}");
    assert_eq!(guard.renew(SECOND).await.unwrap(), left);
    world.locks.break_lease("k", guard.fence()).await.unwrap();
    assert!(matches!(guard.renew(SECOND).await, Err(RenewError::Lost(_))));
}

/// Regression: the renewal counted as under way for ever; a new reader was transferred as a writer.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_a_store_leaves_unanswered_is_made_again() {
    let (world, guard) = holding().await;
    world.store.says(|facts| facts.unanswered = true);
    sleep(TTL / 2).await;
    assert!(world.store.count("renew") > 0);
    assert!(matches!(guard.renew(TTL).await, Err(RenewError::Unreachable(_))));
    world.store.says(|facts| facts.unanswered = false);
    sleep(5 * TTL).await;
    assert!(guard.is_held());

    let doc = world.locks.rw_lock("doc");
    let reading = Guard::from(doc.write().await.unwrap().downgrade());
    world.store.says(|facts| facts.unanswered = true);
    let transferred = reading.transfer(TTL).await;
    assert!(matches!(transferred, Err(TransferError::Unconfirmed(_))), "{transferred:?}");
}

/// redislock: `acquire(key)` with `retries`. redisLocker: `waitLock`. node-redlock: `attempts`.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_it_should_and_says_who_holds() {
    let world = World::begin(TTL);
    let guard = world.others().mutex("k").label("web-3").lock().await.unwrap();
    let begun = world.time.passed();
    let error = world.locks.mutex("k").lock().within(3 * SECOND).await.unwrap_err();
    assert_eq!(world.time.passed() - begun, 3 * SECOND);
    let text = error.to_string();
    let LockError::TimedOut { held_by: Some(held_by), place, waited, attempts, .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!((waited, held_by.fence), (3 * SECOND, Some(guard.fence())));
    assert_eq!((attempts, place), (1, Some(1)), "a queued waiter does not ask again");
    assert!(text.starts_with("k: not free within 3.0 s, held by web-3 ("), "{text}");
    assert!(text.ends_with(", at place 1 in the queue"), "{text}");
    sleep(Duration::from_millis(1)).await;
    assert_eq!(world.memory.waiting(), 0, "the place in the queue is given up");
}

/// When the store was silent for longer than the TTL, dropped requests left their places behind.
#[tokio::test(start_paused = true)]
async fn a_place_in_the_queue_is_given_up_even_after_the_store_was_silent_beyond_the_ttl() {
    let world = World::with(TTL, |builder| builder.ttl(SECOND));
    let guard = world.others().mutex("k").lock().await.unwrap();
    let waits = tokio::spawn(world.locks.mutex("k").lock().into_future());
    sleep(SECOND).await;
    world.store.set(CallFate::Lost);
    waits.abort();
    sleep(6 * SECOND).await;
    assert!(!world.memory.dump().queues.values().all(leasehold_core::WaitQueue::is_empty));
    world.store.set(CallFate::Fair);
    sleep(3 * SECOND).await;
    assert!(world.memory.dump().queues.values().all(leasehold_core::WaitQueue::is_empty));
    drop(guard);
}

/// Its tries are up to a second apart, and the store may be back for less.
#[tokio::test(start_paused = true)]
async fn a_place_in_the_queue_is_given_up_once_more_when_the_queue_would_have_ended() {
    let world = World::begin(SECOND);
    let others = world.others();
    let _guard = others.mutex("k").lock().await.unwrap();
    let waits = tokio::spawn(world.locks.mutex("k").lock().into_future());
    sleep(SECOND).await;
    world.store.set(passing("busy"));
    waits.abort();
    sleep(SECOND).await;
    // Keeps the queue for longer.
    let _behind = tokio::spawn(others.mutex("k").lock().into_future());
    sleep(leasehold_core::WaitQueue::KEPT_FOR - SECOND - Duration::from_millis(1)).await;
    world.store.set(CallFate::Fair);
    assert_eq!(others.inspect("k").await.unwrap().waiters.len(), 2);
    sleep(SECOND).await;
    assert_eq!(others.inspect("k").await.unwrap().waiters.len(), 1);
}

/// redislock: `acquire(key)` without `retries`. redlock 4 takes `retryCount: 0` for "not set".
#[tokio::test(start_paused = true)]
async fn a_try_is_one_ask_and_leaves_nothing() {
    let world = World::begin(TTL);
    let guard = world.others().mutex("k").lock().await.unwrap();
    let before = world.store.calls();
    assert!(world.locks.mutex("k").try_lock().await.unwrap().is_none());
    assert_eq!(world.store.calls() - before, 1);
    let error = world.locks.mutex("k").lock().within(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { held_by: Some(_), .. }), "{error:?}");
    assert_eq!((world.memory.waiting(), world.store.count("give_up")), (0, 0));
    // A request without an answer may still reach the store after what was answered.
    for (answer, releases) in [(CallFate::Fair, 1), (CallFate::Refused, 2)] {
        world.store.once("grant", passing("timed out"));
        world.store.once("grant", answer);
        let _ = world.locks.mutex("k").try_lock().await;
        yield_now().await;
        assert_eq!(world.store.count("give_up"), releases);
    }
    // With an outage limit of zero, nothing is sent.
    let before = world.store.calls();
    let error = world.locks.mutex("k").lock().outage_limit(Duration::ZERO).await.unwrap_err();
    assert!(matches!(error, LockError::Unreachable { .. }), "{error:?}");
    assert_eq!(world.store.calls(), before);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_not_asked_again() {
    let world = World::begin(TTL);
    world.store.set(CallFate::Refused);
    let error = world.locks.mutex("k").lock().await.unwrap_err();
    assert!(matches!(error, LockError::Refused { .. }), "{error:?}");
    assert_eq!((world.store.calls(), world.time.passed()), (1, Duration::ZERO));
}

/// The answer was lost, not the grant: the same attempt finds it at once. node-redlock: `attempts`.
#[tokio::test(start_paused = true)]
async fn a_grant_whose_answer_was_lost_is_found_again() {
    let world = World::begin(TTL);
    world.store.set(CallFate::AnswerLost);
    let request = tokio::spawn(world.locks.mutex("k").lock().into_future());
    sleep(SECOND / 2).await;
    world.store.set(CallFate::Fair);
    let guard = request.await.unwrap().unwrap();
    assert!(world.time.passed() < 2 * SECOND);
    assert_eq!(guard.attempts(), 2);
}

/// node-redlock 5 hands out locks that are expired already.
#[tokio::test(start_paused = true)]
async fn an_answer_that_outlasts_its_lease_is_no_lock() {
    let world = World::with(TTL, |builder| builder.ttl(SECOND));
    world.store.set(CallFate::Slow(2 * SECOND));
    let error = world.locks.mutex("k").lock().await.unwrap_err();
    assert!(matches!(error, LockError::Unreachable { .. }), "{error:?}");
    world.store.set(CallFate::Fair);
    sleep(15 * SECOND).await;
    assert!(world.is_empty());
}

/// redislock: `acquire(key)` with −1 `retries`, which waits for ever.
#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_the_order_in_which_they_came_and_at_once() {
    let (world, guard) = holding().await;
    let (done, mut order) = tokio::sync::mpsc::unbounded_channel();
    for n in 0..20 {
        let (locks, done) = (world.locks.clone(), done.clone());
        tokio::spawn(async move {
            let guard = locks.mutex("k").lock().await.unwrap();
            done.send(n).unwrap();
            guard.release().await.unwrap();
        });
        sleep(SECOND).await;
    }
    let begun = world.time.passed();
    guard.release().await.unwrap();
    for n in 0..20 {
        assert_eq!(order.recv().await, Some(n));
    }
    assert!(world.time.passed() - begun < Duration::from_millis(50), "woken, not polling");
}

#[tokio::test(start_paused = true)]
async fn work_is_stopped_when_the_lock_is_lost_and_never_began_when_it_was_not_had() {
    let world = World::begin(TTL);
    let value = world.locks.mutex("k").lock().hold(|held| async move { held.fence().get() }).await.unwrap();
    assert!(value > 0 && world.is_empty());

    let hung = world.locks.mutex("k").lock().hold(|_| {
        world.store.set(CallFate::Hung);
        std::future::pending::<()>()
    });
    assert!(matches!(hung.await, Err(HoldError::Lost(Loss::Expired { .. }))));
    assert_eq!(world.time.passed(), TTL);

    world.store.set(CallFate::Fair);
    let _guard = world.others().mutex("k").lock().await.unwrap();
    let never = world.locks.mutex("k").lock().within(SECOND).hold(|_| async { panic!("it began") });
    assert!(matches!(never.await, Err(HoldError::NotTaken(LockError::TimedOut { .. }))));
}

/// node-redlock's `using` lets a failing release replace the routine's result.
#[tokio::test(start_paused = true)]
async fn a_failed_release_does_not_discard_the_result_of_the_work() {
    let world = World::begin(TTL);
    let work = world.locks.mutex("k").lock().hold(|_| async {
        world.store.set(CallFate::Refused);
        7
    });
    assert_eq!(work.await, Ok(7));
}

/// Regression: the release's answer, another holder, was discarded: the work seemed exclusive.
#[tokio::test(start_paused = true)]
async fn work_that_ends_before_the_loss_was_noticed_is_returned_with_the_loss() {
    let world = World::begin(TTL);
    let work = world.locks.mutex("k").lock().hold(async |_| {
        world.memory.forget();
        7
    });
    let gone = work.await.unwrap_err();
    assert!(matches!(&gone, HoldError::LostUnnoticed { loss: Loss::Gone { .. }, .. }), "{gone:?}");
    assert_eq!(gone.into_value(), Some(7));

    let others = world.others();
    let work = world.locks.mutex("k").label("first").lock().hold(async |_| {
        world.memory.forget();
        (7, others.mutex("k").label("second").lock().await.unwrap())
    });
    let taken = work.await.unwrap_err();
    let text = taken.to_string();
    assert!(
        text.starts_with("the work is done, but the lock was lost before its end: k is held by second"),
        "{text}"
    );
    let HoldError::LostUnnoticed { value: (7, other), loss: Loss::TakenByOther { .. }, .. } = taken else {
        panic!("{text}")
    };
    other.release().await.unwrap();
}

/// node-redlock: `quit()`. It ended the connections, whoever held locks.
#[tokio::test(start_paused = true)]
async fn closing_waits_for_guards_and_then_takes_them_back() {
    let world = World::begin(TTL);
    let short = world.locks.mutex("short").lock().await.unwrap();
    let long = world.locks.mutex("long").lock().await.unwrap();
    let lost = world.locks.mutex("lost").lock().await.unwrap();
    world.others().break_lease("lost", lost.fence()).await.unwrap();
    lost.lost().await;
    let waiting = tokio::spawn(world.locks.mutex("short").lock().into_future());
    tokio::spawn(async move {
        sleep(2 * SECOND).await;
        drop(short);
    });
    sleep(SECOND).await;
    let error = world.locks.close(5 * SECOND).await.unwrap_err();
    assert_eq!(error.taken_back, [Key::new("long").unwrap()]);
    assert_eq!(error.unconfirmed, 0);
    assert!(matches!(waiting.await.unwrap(), Err(LockError::Closed { .. })));
    assert!(matches!(long.lost().await, Loss::Closed { .. }));
    assert!(!long.is_held());
    assert!(matches!(world.locks.mutex("k").lock().await, Err(LockError::Closed { .. })));
    assert!(world.is_empty());
    assert_eq!(world.time.passed(), 6 * SECOND);
}

/// It used to report that the lease had expired, which nothing had checked.
#[tokio::test(start_paused = true)]
async fn a_release_after_the_close_says_that_it_was_closed() {
    let (world, guard) = holding().await;
    world.locks.close(Duration::ZERO).await.unwrap_err();
    let error = guard.release().await.unwrap_err();
    assert!(matches!(error, ReleaseError::Closed { .. }), "{error:?}");
    assert_eq!(error.to_string(), "given up before it was released: they were closed by this program");
    assert!(world.is_empty());
}

/// Regression: these printed all guards and records: 12.5 MB with ten thousand guards.
#[tokio::test(start_paused = true)]
async fn the_debug_output_of_a_guard_and_of_locks_does_not_grow_with_the_guards() {
    let world = World::begin(TTL);
    let locks = Locks::builder().ttl(TTL).runtime(world.time.clone()).over(world.memory.clone()).unwrap();
    let mut guards = Vec::new();
    for n in 0..10_000 {
        guards.push(locks.mutex(format!("k{n}")).lock().await.unwrap());
    }
    let (guard, mutex) = (&guards[0], locks.mutex("k0"));
    let (holder, fence, remaining) = (guard.holder(), guard.fence(), guard.remaining());
    let shown = format!("{guard:?}");
    assert_eq!(
        shown,
        format!("Guard {{ keys: [\"k0\"], holder: {holder}, fence: {fence}, remaining: {remaining:?} }}")
    );
    assert_eq!(format!("{:?}", guard.held()), shown.replace("Guard", "Held"));
    let printed = [
        format!("{locks:?}"),
        format!("{mutex:?}"),
        format!("{:?}", mutex.lock()),
        format!("{:?}", mutex.unlocked()),
        format!("{:?}", locks.rw_lock("k0")),
        format!("{:?}", locks.semaphore("k0", 4)),
        format!("{:?}", locks.once("k0")),
        format!("{:?}", locks.election("k0")),
        format!("{:?}", world.memory),
    ];
    for printed in &printed {
        assert!(printed.len() < 1000, "{} bytes: {}", printed.len(), &printed[..200]);
    }
    assert!(printed[0].contains("\"memory:\"") && printed[0].contains("guards: 10000"), "{}", printed[0]);
    assert!(printed[1].contains("k0"), "{}", printed[1]);
}

/// Regression: a guard being released or transferred was not waited for, and the program ended midway.
#[tokio::test(start_paused = true)]
async fn closing_waits_for_releases_that_the_program_waits_for() {
    // A drop releases in the background; a transfer then releases what members may still have.
    for (ends, calls) in [("dropped", 1), ("released", 1), ("transferred", 2)] {
        let (world, guard) = holding().await;
        world.store.set(CallFate::Slow(2 * SECOND));
        let ending = tokio::spawn(async move {
            match ends {
                "dropped" => drop(guard),
                "released" => drop(guard.release().await.unwrap()),
                _ => drop(guard.transfer(TTL).await.unwrap()),
            }
        });
        yield_now().await;
        world.locks.close(5 * SECOND).await.unwrap();
        assert!(world.is_empty() || ends == "transferred", "{ends}");
        assert_eq!(world.time.passed(), calls * 2 * SECOND, "{ends}");
        ending.await.unwrap();
    }
}

/// Also one that is cut off, and so goes on in the background.
#[tokio::test(start_paused = true)]
async fn closing_waits_for_a_release_that_is_given_up() {
    let (world, guard) = holding().await;
    world.store.set(CallFate::Slow(2 * SECOND));
    let releasing = tokio::spawn(guard.release());
    sleep(SECOND).await;
    releasing.abort();
    world.locks.close(5 * SECOND).await.unwrap();
    assert!(world.is_empty());
    assert_eq!(world.time.passed(), 3 * SECOND);
}

/// Regression: waiters' places stayed in the queue, and the lock was handed to them, one by one.
#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_releases_of_requests_that_were_under_way() {
    let world = World::begin(TTL);
    let others = world.others();
    let _held = others.mutex("held").lock().await.unwrap();
    let waiting = tokio::spawn(world.locks.mutex("held").lock().into_future());
    sleep(SECOND).await;
    world.store.set(CallFate::Slow(SECOND / 2));
    let asking = tokio::spawn(world.locks.mutex("free").lock().into_future());
    let trying = tokio::spawn(world.locks.mutex("tried").lock().within(Duration::ZERO).into_future());
    sleep(SECOND / 4).await;
    world.locks.close(5 * SECOND).await.unwrap();
    assert_eq!(world.memory.waiting(), 0);
    assert!(others.inspect("held").await.unwrap().waiters.is_empty());
    for free in ["free", "tried"] {
        assert!(others.mutex(free).try_lock().await.unwrap().is_some(), "{free}");
    }
    assert_eq!(world.time.passed(), 2 * SECOND);
    for request in [waiting, asking, trying] {
        assert!(matches!(request.await.unwrap(), Err(LockError::Closed { .. })));
    }
}

/// They have begun only during the close, so they have as much time again.
#[tokio::test(start_paused = true)]
async fn closing_leaves_the_releases_of_requests_the_time_that_it_left_the_guards() {
    let world = World::begin(TTL);
    let _held = world.others().mutex("k").lock().await.unwrap();
    let _waiting = tokio::spawn(world.locks.mutex("k").lock().into_future());
    sleep(SECOND).await;
    world.store.on("give_up", CallFate::Slow(3 * SECOND));
    world.locks.close(2 * SECOND).await.unwrap();
    assert_eq!(world.time.passed(), 4 * SECOND);
}

/// It may be about to look again only much later.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_free_lock_ends_as_soon_as_its_locks_are_closed() {
    let world = World::begin(TTL);
    let _held = world.others().mutex("k").lock().await.unwrap();
    let rests = Backoff::new(TTL, TTL).unwrap();
    let waiting = tokio::spawn(world.locks.mutex("k").unlocked().backoff(rests).into_future());
    sleep(SECOND).await;
    world.locks.close(Duration::ZERO).await.unwrap();
    assert!(matches!(waiting.await.unwrap(), Err(LockError::Closed { .. })));
    assert_eq!(world.time.passed(), SECOND);
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_a_second_for_a_request_that_is_not_polled() {
    let world = World::begin(TTL);
    let _held = world.others().mutex("k").lock().await.unwrap();
    let mut request = pin!(world.locks.mutex("k").lock().into_future());
    assert!(poll_fn(|context| Poll::Ready(request.as_mut().poll(context))).await.is_pending());
    world.locks.close(5 * SECOND).await.unwrap();
    assert_eq!(world.time.passed(), SECOND);
    assert!(matches!(request.await, Err(LockError::Closed { .. })));
}

/// redislock: `getAcquiredLocks()`. Its locks stayed in the list, as held, after they had expired.
#[tokio::test(start_paused = true)]
async fn the_guards_of_this_process_are_listed_without_the_lost_ones() {
    let world = World::begin(TTL);
    let names = |locks: &Locks| {
        let mut names: Vec<_> =
            locks.guards().iter().map(|held| held.keys().next().unwrap().to_string()).collect();
        names.sort();
        names
    };
    let a = world.locks.mutex("a").lock().await.unwrap();
    let _b = world.locks.mutex("b").renewal(Renewal::Off).lock().await.unwrap();
    assert_eq!(names(&world.locks), ["a", "b"]);
    sleep(2 * TTL).await;
    assert_eq!(names(&world.locks), ["a"]);
    drop(a);
    assert_eq!(names(&world.locks), [""; 0]);
}

/// A store that got all of them at once could not answer in time, and would be asked for all again.
#[tokio::test(start_paused = true)]
async fn however_many_leases_are_due_a_store_has_few_requests_at_once_and_a_silent_one_keeps_few_waiting() {
    const MS: Duration = Duration::from_millis(1);
    let world = World::begin(TTL);
    let mut guards = Vec::new();
    for n in 0..2_000 {
        guards.push(world.locks.mutex(format!("k{n}")).lock().await.unwrap());
    }
    for (fate, calls_after) in [
        (CallFate::Slow(10 * MS), [(0, 4), (11, 8), (22, 10)]),
        (CallFate::Hung, [(99, 4), (101, 8), (201, 10)]),
    ] {
        world.store.set(fate.clone());
        let before = world.store.calls();
        while world.store.calls() == before {
            sleep(MS).await;
        }
        let begun = world.time.passed();
        for (ms, calls) in calls_after {
            sleep((begun + ms * MS).saturating_sub(world.time.passed())).await;
            assert_eq!(world.store.calls() - before, calls, "{fate:?} after {ms} ms");
        }
        sleep(50 * MS).await;
        assert!(guards.iter().all(Guard::is_held));
    }
}

/// The store would keep other readers out until the next renewal.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_waits_for_its_turn_says_that_its_writer_became_a_reader_meanwhile() {
    const MS: Duration = Duration::from_millis(1);
    let world = World::begin(TTL);
    let mut guards = Vec::new();
    for n in 0..800 {
        guards.push(world.locks.mutex(format!("k{n}")).lock().await.unwrap());
    }
    let writing = world.locks.rw_lock("doc").write().await.unwrap();
    world.store.on("renew", CallFate::Hung);
    while world.store.count("renew") < 4 {
        sleep(MS).await;
    }
    world.store.on("renew", CallFate::Fair);
    let reading = writing.downgrade();
    sleep(200 * MS).await;
    assert_eq!(world.store.count("renew"), 5);
    assert!(reading.is_held());
    assert!(world.others().rw_lock("doc").try_read().await.unwrap().is_some());
}

/// exclusive-lock: it checks its input.
#[tokio::test(start_paused = true)]
async fn invalid_requests_are_refused_before_anything_is_sent() {
    let world = World::begin(TTL);
    let locks = &world.locks;
    let year = Duration::from_secs(86400 * 365);
    let requests = [
        (locks.mutex("").lock(), Misuse::EmptyKey),
        (locks.mutex("x".repeat(2048)).lock(), Misuse::KeyTooLong { len: 2048 }),
        (locks.mutex("k").ttl(Duration::ZERO).lock(), Misuse::TtlTooShort { asked: Duration::ZERO }),
        (locks.mutex("k").ttl(10 * year).lock(), Misuse::TtlTooLong { asked: 10 * year }),
        (locks.mutex("k").label("a\nb").lock(), Misuse::LabelNotPrintable),
        (
            locks.mutex("k").renewal(Renewal::AtMost(SECOND)).lock(),
            Misuse::HoldShorterThanTtl { at_most: SECOND, ttl: TTL.try_into().unwrap() },
        ),
    ];
    for (request, misuse) in requests {
        assert_eq!(request.await.unwrap_err(), LockError::Misuse(misuse));
    }
    assert!(matches!(Locks::builder().ttl(Duration::ZERO).in_memory(), Err(ConnectError::Misuse(_))));
    assert_eq!(world.store.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_prefix_precedes_every_key_and_an_empty_key_is_refused_despite_it() {
    let world = World::with(TTL, |builder| builder.prefix("app:"));
    let guard = world.locks.mutex("k").lock().await.unwrap();
    assert_eq!(guard.keys().next().unwrap().as_bytes(), b"app:k");
    assert!(matches!(world.locks.mutex("").lock().await, Err(LockError::Misuse(Misuse::EmptyKey))));
}

/// The program was paused, or its runtime blocked: the guard itself checks the clock.
#[tokio::test(start_paused = true)]
async fn a_guard_knows_its_end_before_the_keeper_had_a_chance_to_say_so() {
    let (_world, guard) = holding().await;
    let mut advancing = pin!(tokio::time::advance(TTL));
    // The first poll moves the clock, and the keeper would run next.
    poll_fn(|context| Poll::Ready(advancing.as_mut().poll(context).is_ready())).await;
    assert!(guard.held().loss().is_none(), "the keeper had its chance");
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_waits_names_the_holder_and_one_that_does_not_wait_prints_nothing() {
    let world = World::begin(TTL);
    let mutex = world.locks.mutex("k");
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let ask = |request: leasehold::Acquire| {
        let told = told.clone();
        request.on_wait(move |waiting| told.lock().unwrap().push(waiting.held_by.clone()))
    };

    let guard = ask(world.others().mutex("k").label("the holder").lock()).await.unwrap();
    ask(mutex.lock()).within(Duration::ZERO).await.unwrap_err();
    assert_eq!(*told.lock().unwrap(), [], "neither of them waited");

    // Regression: it was called after the last retry, too.
    ask(mutex.lock()).retries(2).await.unwrap_err();
    assert_eq!(std::mem::take(&mut *told.lock().unwrap()).len(), 2);

    ask(mutex.lock()).within(SECOND).await.unwrap_err();
    let heard = std::mem::take(&mut *told.lock().unwrap());
    assert!(!heard.is_empty());
    let is_holder = |held_by: &leasehold::HolderInfo| held_by.to_string().starts_with("the holder (");
    assert!(heard.iter().all(is_holder), "{heard:?}");
    guard.release().await.unwrap();
}

/// A program that learns this often ends at once, and its background tasks with it.
#[tokio::test(start_paused = true)]
async fn the_lock_of_a_job_is_free_when_its_caller_learns_that_it_failed_or_was_done_before() {
    let world = World::begin(TTL);
    for call in ["release", "give_up"] {
        world.store.on(call, CallFate::Late(SECOND));
    }
    let failed = world.locks.once("job").run(async |_| Err::<(), _>("no room")).await;
    assert!(matches!(failed, Err(JobError::Failed("no room"))), "{failed:?}");
    assert!(world.is_empty());
    let doing = world.others().once("job").begin().await.unwrap().unwrap();
    let once = world.locks.once("job");
    let waiting = tokio::spawn(async move { once.begin().await });
    sleep(SECOND).await;
    doing.done().await.unwrap();
    assert!(waiting.await.unwrap().unwrap().is_err(), "it is done");
    assert!(world.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_mark_names_its_period_and_is_kept_for_two_of_them_and_a_day_at_least() {
    const HOUR: Duration = Duration::from_secs(3600);
    for (period, longer) in [(HOUR, 23 * HOUR), (100 * HOUR, 190 * HOUR)] {
        let world = World::begin(TTL);
        world.locks.every(period, "job").begin().await.unwrap().unwrap().done().await.unwrap();
        let mark = world.others().every(period, "job").mark().await.unwrap().unwrap();
        assert_eq!(mark.period, Some(period));
        sleep(longer - HOUR).await;
        let begun = world.others().every(longer, "job").begin().await.unwrap();
        assert!(matches!(begun, Err(NotDue::Until { .. })), "{begun:?}");
        assert!(world.others().every(period, "job").begin().await.unwrap().is_ok());
    }
}

/// A mark is requested again while the lease lasts, and not if repeating is useless.
#[tokio::test(start_paused = true)]
async fn a_done_job_is_marked_as_soon_as_a_silent_store_is_back() {
    for fate in [CallFate::Lost, CallFate::AnswerLost] {
        let world = World::begin(TTL);
        let doing = world.locks.once("job").begin().await.unwrap().unwrap();
        world.store.set(fate);
        let marking = tokio::spawn(doing.done());
        sleep(SECOND * 5 / 2).await;
        world.store.set(CallFate::Fair);
        marking.await.unwrap().unwrap();
        assert!(world.others().once("job").mark().await.unwrap().is_some());
    }
}

/// A caller that undid the work of a job that may be marked would lose it: nobody does it again.
#[tokio::test(start_paused = true)]
async fn a_mark_that_is_not_confirmed_within_the_lease_is_an_error_that_says_whether_the_job_may_be_marked() {
    for (fate, within, may_be, is) in [
        (CallFate::Lost, TTL, true, false),
        (CallFate::AnswerLost, TTL, true, true),
        (CallFate::Refused, Duration::ZERO, false, false),
    ] {
        let world = World::begin(TTL);
        let doing = world.locks.once("job").begin().await.unwrap().unwrap();
        world.store.set(fate.clone());
        let asked = world.time.now();
        let error = doing.mark().await.unwrap_err();
        assert!(matches!(error, MarkError::Unreachable(_) | MarkError::Lost(_)), "{fate:?}: {error}");
        assert_eq!(error.to_string().starts_with("perhaps not marked"), may_be, "{fate:?}: {error}");
        assert!(world.time.now() <= asked + within, "{fate:?}");
        drop(doing);
        world.store.set(CallFate::Fair);
        for later in [Duration::ZERO, 2 * TTL] {
            sleep(later).await;
            assert_eq!(world.others().once("job").mark().await.unwrap().is_some(), is, "{fate:?}");
        }
    }
}

/// The lock was lost while the mark was asked for again. The first request had succeeded.
#[tokio::test(start_paused = true)]
async fn a_mark_whose_answer_was_lost_counts_although_the_lock_is_lost_by_now() {
    const PERIOD: Duration = Duration::from_secs(60);
    for (fate, is_marked) in [(CallFate::AnswerLost, true), (CallFate::Lost, false)] {
        let world = World::begin(TTL);
        // The mark of the period before says nothing about this one.
        let before = world.others().every(PERIOD, "job").begin().await.unwrap().unwrap();
        before.done().await.unwrap();
        sleep(PERIOD).await;
        let doing = world.locks.every(PERIOD, "job").begin().await.unwrap().unwrap();
        world.store.once("mark", fate);
        let marking = tokio::spawn(async move { doing.mark().await });
        while world.store.count("mark") == 0 {
            yield_now().await;
        }
        let fence = world.others().inspect("job").await.unwrap().holders[0].fence.unwrap();
        world.others().break_lease("job", fence).await.unwrap();
        let marked = marking.await.unwrap();
        assert_eq!(marked.is_ok(), is_marked, "{marked:?}");
        let mark = world.others().every(PERIOD, "job").mark().await.unwrap().unwrap();
        assert_eq!(mark.fence == fence, is_marked);
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_somebody_is_doing_says_when_it_was_done_before() {
    const PERIOD: Duration = Duration::from_secs(60);
    let world = World::begin(TTL);
    let job = world.locks.every(PERIOD, "job");
    job.begin().await.unwrap().unwrap().done().await.unwrap();
    let before = job.mark().await.unwrap();
    sleep(PERIOD).await;
    let _doing = world.others().every(PERIOD, "job").begin().await.unwrap().unwrap();
    let not_due = job.begin().await.unwrap().unwrap_err();
    assert!(matches!(not_due, NotDue::Underway { .. }), "{not_due:?}");
    assert!(before.is_some() && not_due.mark() == before.as_ref(), "{not_due:?}");
}

#[tokio::test(start_paused = true)]
async fn whether_something_was_done_is_asked_again_of_a_silent_store() {
    let world = World::begin(TTL);
    let ask = || {
        let locks = world.locks.clone();
        tokio::spawn(async move { locks.once("job").mark().await })
    };
    world.store.set(CallFate::Lost);
    let asking = ask();
    sleep(SECOND * 5 / 2).await;
    world.store.set(CallFate::Fair);
    assert_eq!(asking.await.unwrap(), Ok(None));
    // For no longer than the outage limit; and not if the store refuses.
    for fate in [CallFate::Lost, CallFate::Refused] {
        world.store.set(fate.clone());
        let asked = world.time.now();
        assert!(matches!(ask().await.unwrap(), Err(InspectError::Store(_))), "{fate:?}");
        let limit = if matches!(fate, CallFate::Refused) { Duration::ZERO } else { 12 * SECOND };
        assert!(world.time.now() <= asked + limit, "{fate:?}");
    }
}

/// A loop around a try had 132,838 refusals in ten seconds.
#[tokio::test(start_paused = true)]
async fn a_program_that_asks_on_although_it_is_refused_rests_in_between() {
    let world = World::begin(TTL);
    world.store.set(CallFate::Refused);
    let began = world.time.passed();
    let mutex = world.locks.mutex("k");
    let refused = mutex.try_lock().await;
    assert!(matches!(refused, Err(LockError::Refused { .. })), "{refused:?}");
    assert_eq!(world.time.passed(), began, "the first refusal comes at once");
    let mut refusals = 1;
    while world.time.passed() < began + 10 * SECOND {
        let refused =
            if refusals % 2 == 0 { mutex.try_lock().await.map(drop) } else { mutex.lock().await.map(drop) };
        assert!(matches!(refused, Err(LockError::Refused { .. })), "{refused:?}");
        refusals += 1;
        assert!(refusals < 30, "within {:?}", world.time.passed() - began);
    }
    assert!(refusals >= 10, "{refusals}");
    // A request with a limit asks within that.
    for _ in 0..3 {
        let refused = mutex.lock().within(SECOND / 10).await;
        assert!(matches!(refused, Err(LockError::Refused { .. })), "{refused:?}");
    }
    // Other keys are not delayed, and a repaired store is asked within a second.
    let before = world.time.passed();
    world.store.set(CallFate::Fair);
    drop(world.locks.mutex("another").lock().await.unwrap());
    assert_eq!(world.time.passed(), before);
    drop(mutex.lock().await.unwrap());
    assert!(world.time.passed() <= before + SECOND);
}
