//! Following the leader of an election.

use std::future::poll_fn;
use std::pin::Pin;

use futures_core::Stream as _;
use leasehold::Locks;
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
    let second = std::time::Duration::from_secs(1);
    let streamed = poll_fn(|context| Pin::new(&mut leaders).poll_next(context));
    assert!(tokio::time::timeout(second / 2, streamed).await.is_err());
    let _leading = election.candidate("node-3").stand().await.unwrap();
    assert!(leaders.next().await.unwrap().is_some());
    let streamed = poll_fn(|context| Pin::new(&mut leaders).poll_next(context));
    assert!(tokio::time::timeout(5 * second, streamed).await.is_err());
}
