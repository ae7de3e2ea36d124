//! A server whose clock is set back while locks are held and waited for.

use std::time::Duration;

use leasehold::postgres::init;
use leasehold::{AnyStore, Locks};
use servers::Postgres;
use tokio::task::block_in_place;

use crate::world::{BUSY, Crowd, process, take, two, until};

const SECOND: Duration = Duration::from_secs(1);

/// redlock, redislock and others count leases on the wall clock: set back an hour, a dead lock lasts
/// an hour more. Here, earlier leases seem to last longer, and nobody is granted what they hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_back_by_an_hour_grants_nothing_twice_and_fences_rise() {
    let server = block_in_place(Postgres::with_a_clock_to_set);
    init(&server.url()).await.unwrap();
    let (holder, other) = (process(&server.url(), 2 * SECOND).await, process(&server.url(), SECOND).await);
    let kept = take(&holder, "kept").await;
    let crowd = Crowd::start(&two(&server.url(), 2 * SECOND).await, "k");
    for hours in 1..=2 {
        crowd.goes_on(20).await;
        server.set_clock(-3600 * hours);
    }
    crowd.goes_on(20).await;
    crowd.end().await;
    // It is renewed past the end that it had by the first clock.
    tokio::time::sleep(3 * SECOND).await;
    assert!(kept.is_held());
    assert!(other.mutex("kept").try_lock().await.unwrap().is_none());
    let fence = kept.fence();
    kept.release().await.unwrap();
    assert!(take(&other, "kept").await.fence() > fence);
    until("nothing is left", async || other.list("").await.unwrap().is_empty()).await;
}

/// Regression: a member whose clock was set back abstained for as long as that: with a second one,
/// there was no majority for hours.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_whose_clock_is_set_back_by_an_hour_abstains_for_no_longer_than_the_longest_ttl() {
    let server = block_in_place(Postgres::with_a_clock_to_set);
    init(&server.url()).await.unwrap();
    let member = AnyStore::from_url(&server.url()).unwrap();
    let quorum = Locks::builder().ttl(2 * SECOND).outage_limit(BUSY).quorum([member], 5 * SECOND).unwrap();
    take(&quorum, "k").await.release().await.unwrap();
    server.set_clock(-3600);
    take(&quorum, "l").await.release().await.unwrap();
}
