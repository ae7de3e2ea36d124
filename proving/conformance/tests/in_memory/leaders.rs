//! Following the leader of an election.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use conformance::faulty::{CallFate, World};
use futures_core::Stream as _;
use leasehold::{Leaders, Locks};
use tokio::sync::mpsc::unbounded_channel;

#[tokio::test(start_paused = true)]
async fn leaders_are_a_stream_that_a_task_owns() {
    let locks = Locks::in_memory();
    let election = locks.election("scheduler");
    let mut leaders = election.leaders();
    let (tell, mut told) = unbounded_channel();
    let following = tokio::spawn(async move {
        while let Some(leader) = poll_fn(|context| Pin::new(&mut leaders).poll_next(context)).await {
            tell.send(leader.unwrap().is_some()).unwrap();
        }
    });
    assert_eq!(told.recv().await, Some(false));
    let leading = election.candidate("node-3").stand().await.unwrap();
    assert_eq!(told.recv().await, Some(true));
    leading.release().await.unwrap();
    assert_eq!(told.recv().await, Some(false));
    following.abort();
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_leaders_and_its_next_tell_each_change_once() {
    let locks = Locks::in_memory();
    let election = locks.election("scheduler");
    let mut leaders = election.leaders();
    assert!(leaders.next().await.unwrap().is_none());
    // Asks through the stream, and leaves before it is answered.
    let second = Duration::from_secs(1);
    let streamed = poll_fn(|context| Pin::new(&mut leaders).poll_next(context));
    assert!(tokio::time::timeout(second / 2, streamed).await.is_err());
    let _leading = election.candidate("node-3").stand().await.unwrap();
    assert!(leaders.next().await.unwrap().is_some());
    let streamed = poll_fn(|context| Pin::new(&mut leaders).poll_next(context));
    assert!(tokio::time::timeout(5 * second, streamed).await.is_err());
}

/// Each is shorter than the outage limit, and both together are longer.
#[tokio::test(start_paused = true)]
async fn two_outages_of_an_observed_election_are_not_one() {
    const SECOND: Duration = Duration::from_secs(1);
    let world = World::begin(10 * SECOND);
    let mut leaders = world.locks.election("scheduler").leaders();
    assert!(leaders.next().await.unwrap().is_none());
    let next = tokio::spawn(async move { leaders.next().await });
    for _ in 0..2 {
        world.store.set(CallFate::Lost);
        tokio::time::sleep(7 * SECOND).await;
        world.store.set(CallFate::Fair);
        tokio::time::sleep(3 * SECOND).await;
    }
    let _leading = world.others().election("scheduler").candidate("node-3").stand().await.unwrap();
    assert!(next.await.unwrap().unwrap().is_some());
}

/// Regression: after an error, or once told a leader, a reader asked again within the same second.
#[tokio::test(start_paused = true)]
async fn the_store_is_asked_once_a_second_whatever_it_answers() {
    const SECOND: Duration = Duration::from_secs(1);
    let world = World::begin(10 * SECOND);
    let mut leaders = world.locks.election("scheduler").leaders();
    let asked_within_ten_seconds = async |leaders: &mut Leaders| {
        let before = world.store.count("inspect");
        let asking = async {
            loop {
                let _ = leaders.next().await;
            }
        };
        let () = tokio::time::timeout(10 * SECOND, asking).await.unwrap_or_default();
        world.store.count("inspect") - before
    };
    let asked = asked_within_ten_seconds(&mut leaders).await;
    assert!((10..=11).contains(&asked), "{asked}");
    world.store.set(CallFate::Refused);
    let asked = asked_within_ten_seconds(&mut leaders).await;
    assert!((10..=11).contains(&asked), "{asked}");
}
