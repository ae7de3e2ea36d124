//! Events, their order and their contents.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use conformance::faulty::{CallFate, passing};
use futures_core::Stream;
use leasehold::{Event, LockError, Loss, Renewal};
use tokio::time::{sleep, timeout};

use super::world::{SECOND, TTL, World, drain, kinds, watched};

/// exclusive-lock: a timer refreshes the lock; the events acquired, refreshed and released.
#[tokio::test(start_paused = true)]
async fn events_report_a_lock_from_the_grant_to_the_release() {
    let (world, mut events) = watched();
    let guard = world.locks.mutex("k").label("web-3").lock().await.unwrap();
    let (holder, fence) = (guard.holder(), guard.fence());
    sleep(4 * SECOND).await;
    guard.release().await.unwrap();
    let read = drain(&mut events).await;
    assert_eq!(kinds(&read), ["acquired", "renewed", "released"]);
    let Event::Acquired { request, fence: acquired, ttl, waited, attempts, refusals, .. } = &read[0] else {
        panic!()
    };
    assert_eq!(request.keys().map(ToString::to_string).collect::<Vec<_>>(), ["k"]);
    assert_eq!((request.holder, request.label.as_ref().unwrap().as_str()), (holder, "web-3"));
    assert_eq!((*acquired, ttl.duration(), waited.as_secs(), *attempts, *refusals), (fence, TTL, 0, 1, 0));
    let Event::Renewed { fence: renewed, remaining, .. } = &read[1] else { panic!() };
    assert_eq!(*renewed, fence);
    // The drift of one clock is subtracted.
    assert!(*remaining <= TTL && *remaining > TTL - SECOND / 1000, "{remaining:?}");
    let Event::Released { fence: released, held_for, .. } = &read[2] else { panic!() };
    assert_eq!((*released, *held_for), (fence, 4 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn a_waiters_place_and_holder_are_reported_and_again_when_they_change() {
    let world = World::begin(TTL);
    let (others, mut events) = (world.others(), world.locks.events());
    let first = others.mutex("k").label("first").lock().await.unwrap();
    let second = tokio::spawn(others.mutex("k").label("second").lock().into_future());
    sleep(SECOND).await;
    let waiting = tokio::spawn(world.locks.mutex("k").lock().into_future());
    sleep(20 * SECOND).await;
    first.release().await.unwrap();
    let second = second.await.unwrap().unwrap();
    sleep(20 * SECOND).await;
    second.release().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    let read = drain(&mut events).await;
    assert_eq!(kinds(&read), ["waiting", "waiting", "acquired"]);
    for (event, expected) in read.iter().zip([("first", 2), ("second", 1)]) {
        let Event::Waiting { held_by, place, .. } = event else { panic!() };
        assert!(held_by.to_string().contains(expected.0), "{held_by}");
        assert_eq!(*place, Some(expected.1));
    }
    let Event::Acquired { request, waited, refusals, .. } = &read[2] else { panic!() };
    assert_eq!((request.holder, *waited), (guard.holder(), 40 * SECOND));
    assert!(*refusals >= 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_ends_without_a_guard_says_why_once() {
    let (world, mut events) = watched();
    let _held = world.others().mutex("k").lock().await.unwrap();
    let mutex = world.locks.mutex("k");
    let error = mutex.lock().within(SECOND).await.unwrap_err();
    assert!(mutex.try_lock().await.unwrap().is_none());
    let _ = timeout(SECOND, mutex.lock().into_future()).await.unwrap_err();
    // Never polled, so nothing is reported.
    drop(mutex.lock().into_future());
    assert!(matches!(world.locks.mutex("").lock().await, Err(LockError::Misuse(_))));
    // Polled, and ended before it asked.
    world.locks.close(SECOND).await.unwrap();
    assert!(matches!(mutex.lock().await, Err(LockError::Closed { .. })));
    let read = drain(&mut events).await;
    assert_eq!(kinds(&read), ["waiting", "gave up", "gave up", "waiting", "gave up"]);
    let why = |event: &Event| match event {
        Event::GaveUp { why, waited, refusals, .. } => (why.as_deref().cloned(), *waited, *refusals > 0),
        _ => panic!(),
    };
    assert_eq!(why(&read[1]), (Some(error), SECOND, true));
    let (Some(LockError::TimedOut { .. }), _, false) = why(&read[2]) else { panic!("{:?}", read[2]) };
    assert_eq!(why(&read[4]), (None, SECOND, true));
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_reported_once_whichever_task_finds_it() {
    let (world, mut events) = watched();
    // Noticed by the keeper, at the lease's end.
    let kept = world.locks.mutex("kept").lock().await.unwrap();
    world.store.set(CallFate::Hung);
    kept.lost().await;
    world.store.set(CallFate::Fair);
    drop(kept);
    let read = drain(&mut events).await;
    assert_eq!(kinds(&read), ["acquired", "store fault", "lost", "store back"]);
    let Event::Lost { held_for, why: Loss::Expired { .. }, .. } = &read[2] else { panic!("{:?}", read[2]) };
    assert_eq!(*held_for, TTL);
    // Noticed at the release: the store no longer has it.
    let gone = world.locks.mutex("gone").lock().await.unwrap();
    world.memory.forget();
    gone.release().await.unwrap_err();
    let read = drain(&mut events).await;
    assert_eq!(kinds(&read), ["acquired", "lost"]);
    let Event::Lost { why: Loss::Gone { .. }, .. } = &read[1] else { panic!("{:?}", read[1]) };
    // Noticed by the end of a guard, before the keeper had a chance.
    for is_released in [true, false] {
        let late = world.locks.mutex("late").renewal(Renewal::AtMost(TTL)).lock().await.unwrap();
        let mut advancing = pin!(tokio::time::advance(TTL));
        poll_fn(|context| Poll::Ready(advancing.as_mut().poll(context).is_ready())).await;
        if is_released {
            late.release().await.unwrap_err();
        } else {
            drop(late);
        }
        let read = drain(&mut events).await;
        assert_eq!(kinds(&read), ["acquired", "lost"]);
        let Event::Lost { why: Loss::HeldTooLong { .. }, .. } = &read[1] else { panic!("{:?}", read[1]) };
    }
    // Released by closing.
    let closed = world.locks.mutex("closed").renewal(Renewal::Off).lock().await.unwrap();
    world.locks.close(SECOND).await.unwrap_err();
    drop(closed);
    let read = drain(&mut events).await;
    assert_eq!(kinds(&read), ["acquired", "lost"]);
    let Event::Lost { why: Loss::Closed { .. }, .. } = &read[1] else { panic!("{:?}", read[1]) };
}

#[tokio::test(start_paused = true)]
async fn an_unconfirmed_release_is_reported_as_not_released() {
    let (world, mut events) = watched();
    let guard = world.locks.mutex("k").lock().await.unwrap();
    world.store.set(CallFate::Lost);
    guard.release().await.unwrap_err();
    sleep(2 * TTL).await;
    let mut read = drain(&mut events).await;
    read.retain(|event| !matches!(event, Event::StoreFault { .. }));
    assert_eq!(kinds(&read), ["acquired", "not released"]);
    world.store.set(CallFate::Fair);
    drop(world.locks.mutex("k").lock().await.unwrap());
    assert_eq!(kinds(&drain(&mut events).await), ["store back", "acquired", "released"]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_reported_with_each_fault_and_its_end_once() {
    let world = World::begin(TTL);
    let guard = world.locks.mutex("k").lock().await.unwrap();
    let mut events = world.locks.events();
    world.store.set(CallFate::Lost);
    sleep(6 * SECOND).await;
    assert!(guard.is_held());
    world.store.set(CallFate::Fair);
    sleep(3 * SECOND).await;
    let read = drain(&mut events).await;
    let faults: Vec<_> = read
        .iter()
        .filter_map(|event| match event {
            Event::StoreFault { in_a_row, fault, .. } => {
                assert!(fault.to_string().contains("timed out"), "{fault}");
                Some(*in_a_row)
            }
            _ => None,
        })
        .collect();
    let count = u32::try_from(faults.len()).unwrap();
    assert!(count >= 2, "{read:?}");
    assert_eq!(faults, (1..=count).collect::<Vec<_>>());
    let back: Vec<_> = read.iter().filter(|event| matches!(event, Event::StoreBack { .. })).collect();
    let [Event::StoreBack { faults, .. }] = back[..] else { panic!("{read:?}") };
    assert_eq!(*faults, count);
    assert_eq!(kinds(&read).last(), Some(&"renewed"));
}

/// Two thousand events happen unread; the lease is renewed, and the reader is told how many it missed.
#[tokio::test(start_paused = true)]
async fn a_slow_reader_delays_no_renewal_and_is_told_how_much_it_missed() {
    let (world, mut events) = watched();
    let guard = world.locks.mutex("kept").lock().await.unwrap();
    for _ in 0..1000 {
        world.locks.mutex("k").lock().await.unwrap().release().await.unwrap();
        sleep(SECOND / 10).await;
        assert!(guard.is_held());
    }
    let told = 1 + 2000 + 100 / 3;
    let Some(Event::Missed { events: missed, .. }) = events.next().await else { panic!() };
    let read = drain(&mut events).await;
    assert_eq!(read.len(), 1024);
    assert_eq!(u64::try_from(read.len()).unwrap() + missed, told);
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn every_reader_reads_all_from_when_it_began_and_ends_with_the_locks() {
    let world = World::begin(TTL);
    let mut early = world.locks.events();
    drop(world.locks.events());
    let guard = world.locks.mutex("k").lock().await.unwrap();
    let mut late = world.locks.clone().events();
    drop(world.locks);
    guard.release().await.unwrap();
    assert_eq!(kinds(&drain(&mut early).await), ["acquired", "released"]);
    // As a stream this time.
    let next = poll_fn(|context| Pin::new(&mut late).poll_next(context)).await;
    assert!(matches!(next, Some(Event::Released { .. })), "{next:?}");
    assert_eq!((early.next().await, late.next().await), (None, None));
}

/// An event that is not read at once is there at the next call.
#[tokio::test(start_paused = true)]
async fn a_dropped_next_loses_no_event() {
    let (world, mut events) = watched();
    let _ = timeout(SECOND, events.next()).await.unwrap_err();
    {
        let mut next = std::pin::pin!(events.next());
        poll_fn(|context| {
            assert!(next.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        world.locks.mutex("k").lock().await.unwrap().release().await.unwrap();
    }
    assert_eq!(kinds(&drain(&mut events).await), ["acquired", "released"]);
}

/// A thousand locks are lost at once, and the keeper reports them while it holds its table's lock.
#[tokio::test(start_paused = true)]
async fn the_events_of_each_holding_come_in_their_order() {
    let (world, mut events) = watched();
    let mut guards = Vec::new();
    for n in 0..300 {
        guards.push(world.locks.mutex(format!("k{n}")).lock().await.unwrap());
    }
    sleep(4 * SECOND).await;
    world.store.set(CallFate::Hung);
    sleep(2 * TTL).await;
    let read = drain(&mut events).await;
    for guard in &guards {
        let of = |event: &&Event| match event {
            Event::Acquired { request, .. }
            | Event::Renewed { request, .. }
            | Event::Lost { request, .. } => request.holder == guard.holder(),
            _ => false,
        };
        let its: Vec<Event> = read.iter().filter(of).cloned().collect();
        assert_eq!(kinds(&its), ["acquired", "renewed", "lost"]);
    }
}

/// Regression: nobody learned of the calls about the mark of a job that failed.
#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_about_a_mark_is_reported_and_its_return_too() {
    let world = World::begin(TTL);
    let mut events = world.locks.events();
    let migrate = world.locks.once("migrate");
    for _ in 0..2 {
        world.store.once("marked", passing("it is starting"));
    }
    let job = migrate.begin().await.unwrap().expect("it is not done");
    let reported = ["store fault", "store fault", "store back", "acquired"];
    assert_eq!(kinds(&drain(&mut events).await), reported);
    world.store.once("mark", passing("it is starting"));
    job.done().await.unwrap();
    assert_eq!(kinds(&drain(&mut events).await), ["store fault", "store back", "released"]);
}

#[tokio::test(start_paused = true)]
async fn a_fault_at_one_of_several_leases_that_are_renewed_together_is_reported() {
    let world = World::begin(TTL);
    let _guards =
        [world.locks.mutex("a").lock().await.unwrap(), world.locks.mutex("b").lock().await.unwrap()];
    let mut events = world.locks.events();
    world.store.says(|facts| facts.out_of_reach = Some("b"));
    sleep(TTL / 3 + Duration::from_millis(1)).await;
    assert_eq!(world.store.count("renew"), 1, "in one call");
    assert!(kinds(&drain(&mut events).await).contains(&"store fault"));
}
