//! One leader among several candidates.

use std::time::{Duration, Instant};

use leasehold::{HolderInfo, Locks, Owner};
use servers::Flavor;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::place::Place;

const SECOND: Duration = Duration::from_secs(1);

fn name(holding: &HolderInfo) -> String {
    match &holding.owner {
        Owner::Holder { label: Some(label), .. } => label.as_str().to_owned(),
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_leads_within_a_tenth_of_a_second_of_a_resignation() {
    for place in Place::each(Flavor::Redis82) {
        let (first, second) = (place.locks().await, place.locks().await);
        let (resign, resigned) = oneshot::channel();
        let one = tokio::spawn(async move {
            let election = first.election("scheduler");
            let candidate = election.candidate("one");
            candidate.lead(async |leading| (leading.fence(), resigned.await.unwrap())).await.unwrap()
        });
        let election = second.election("scheduler");
        while election.leader().await.unwrap().is_none() {
            tokio::task::yield_now().await;
        }
        assert_eq!(name(&election.leader().await.unwrap().unwrap()), "one");
        let standing = second.clone();
        let two = tokio::spawn(async move {
            let candidate = standing.election("scheduler").candidate("two");
            candidate.lead(async |leading| (leading.fence(), Instant::now())).await.unwrap()
        });
        let waiting = timeout(10 * SECOND, async {
            while election.candidates().await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        });
        waiting.await.unwrap();
        let label = election.candidates().await.unwrap()[0].label.clone();
        assert_eq!(label.unwrap().as_str(), "two");
        let at = Instant::now();
        resign.send(at).unwrap();
        let (term, _) = one.await.unwrap();
        let (next_term, leading_since) = two.await.unwrap();
        let gap = leading_since.saturating_duration_since(at);
        assert!(gap < SECOND / 10, "{gap:?} on {}", second.store());
        assert!(term < next_term);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_are_told_the_leader_and_that_there_is_none() {
    for place in Place::each(Flavor::Redis82) {
        let (follower, leader) = (place.locks().await, place.locks().await);
        let election = follower.election("scheduler");
        let mut leaders = election.leaders();
        assert!(leaders.next().await.unwrap().is_none());
        let guard = leader.election("scheduler").ttl(7 * SECOND).candidate("one").stand().await.unwrap();
        assert_eq!(guard.ttl().duration(), 7 * SECOND);
        let told = timeout(10 * SECOND, leaders.next()).await.unwrap().unwrap().unwrap();
        assert_eq!((name(&told), told.fence), ("one".to_owned(), Some(guard.fence())));
        guard.release().await.unwrap();
        assert!(timeout(10 * SECOND, leaders.next()).await.unwrap().unwrap().is_none());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_learns_that_the_store_is_gone_and_asks_again() {
    let place = Place::redis(Flavor::Redis82);
    let locks = Locks::builder().outage_limit(SECOND).connect(&place.url).await.unwrap();
    let election = locks.election("scheduler");
    let mut leaders = election.leaders();
    leaders.next().await.unwrap();
    let server = place.server.as_ref().unwrap();
    server.kill_9();
    assert!(timeout(10 * SECOND, leaders.next()).await.unwrap().is_err());
    server.restart();
    let _guard = locks.election("scheduler").candidate("one").stand().await.unwrap();
    assert!(timeout(10 * SECOND, leaders.next()).await.unwrap().unwrap().is_some());
}
