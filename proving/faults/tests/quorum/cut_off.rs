//! A process loses its connections to members: it is in the minority, or receives no answers.

use std::time::Duration;

use faults::Plan;
use leasehold::{AnyStore, LockError, Locks, LocksBuilder, Loss};
use servers::{Proxy, Server};
use tokio::time::{Instant, sleep, timeout};

use crate::scene::{SECOND, servers, until_nothing_is_left};

const TTL: Duration = Duration::from_secs(2);

fn quorum(builder: LocksBuilder, urls: impl Iterator<Item = String>) -> Locks {
    let stores: Result<Vec<_>, _> = urls.map(|url| AnyStore::from_url(&(url + "?quarantine=no"))).collect();
    builder.ttl(TTL).quorum(stores.unwrap(), Plan::MAX_TTL).unwrap()
}

/// Locks with direct connections, and locks whose connections can fail.
fn with_ways(servers: &[Server]) -> (Locks, Locks, Vec<Proxy>) {
    let ways: Vec<_> = servers.iter().map(Proxy::before).collect();
    let good = quorum(Locks::builder(), servers.iter().map(Server::url));
    let cut_off = quorum(Locks::builder().outage_limit(SECOND), ways.iter().map(Proxy::url));
    (good, cut_off, ways)
}

/// It holds the lock, and then reaches only two of five members. Its guard ends before the others
/// can acquire the lock; it asks in vain, and gets an error in time; and the others continue.
#[tokio::test]
async fn a_holder_in_the_minority_gives_up_its_lease_before_the_majority_grants_again() {
    let servers = servers();
    let (good, cut_off, ways) = with_ways(&servers);
    let guard = cut_off.mutex("k").lock().await.unwrap();
    let waits = tokio::spawn(good.mutex("k").lock().into_future());
    sleep(Duration::from_millis(300)).await;
    [0, 1, 4].iter().for_each(|member: &usize| ways[*member].black_hole());
    let (cut, left) = (Instant::now(), guard.remaining());

    let error = cut_off.mutex("other").lock().await.unwrap_err();
    assert!(matches!(error, LockError::NoQuorum { .. }), "{error}");
    assert!(cut.elapsed() < 2 * SECOND, "{:?}: {error}", cut.elapsed());

    let loss = timeout(TTL, guard.lost()).await.unwrap();
    let lost = cut.elapsed();
    assert!(matches!(loss, Loss::Expired { .. }), "{loss:?}");
    assert!(lost <= left + SECOND / 2, "{lost:?} after it was cut off, with {left:?} left then");
    let next = waits.await.unwrap().unwrap();
    assert!(!guard.is_held() && next.fence() > guard.fence());
    // Its last requests must not affect the other's lock.
    drop(guard);
    ways.iter().for_each(Proxy::heal);
    sleep(SECOND / 2).await;
    assert!(next.is_held());
    next.release().await.unwrap();
    until_nothing_is_left(servers.iter(), TTL);
}

/// All members grant its request, and it receives no answer: it gives up, and releases at all five.
#[tokio::test]
async fn grants_whose_answers_are_lost_are_released_at_every_member() {
    let servers = servers();
    let (good, cut_off, ways) = with_ways(&servers);
    cut_off.mutex("k").lock().await.unwrap().release().await.unwrap();
    until_nothing_is_left(servers.iter(), TTL);
    ways.iter().for_each(Proxy::mute);
    let asks = tokio::spawn(cut_off.mutex("k").lock().within(SECOND / 5).into_future());
    let granted =
        || servers.iter().filter(|server| server.text(&["EXISTS", "k"]).as_integer() == Some(1)).count();
    let begun = Instant::now();
    while granted() < 5 {
        assert!(begun.elapsed() < SECOND, "granted at {} of 5", granted());
        sleep(SECOND / 200).await;
    }
    let error = asks.await.unwrap().unwrap_err();
    assert!(matches!(error, LockError::Unreachable { .. } | LockError::NoQuorum { .. }), "{error}");
    ways.iter().for_each(Proxy::heal);
    until_nothing_is_left(servers.iter(), TTL);
    let begun = Instant::now();
    good.mutex("k").try_lock().await.unwrap().expect("nobody has it").release().await.unwrap();
    assert!(begun.elapsed() < SECOND);
}
