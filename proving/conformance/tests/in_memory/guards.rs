//! Reports of a guard about its lease.

use std::time::{Duration, SystemTime};

use leasehold::{Locks, RenewError};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_renewal_says_how_long_the_lease_lasts_by_then() {
    let locks = Locks::builder().ttl(10 * SECOND).in_memory().unwrap();
    let guard = locks.mutex("k").lock().await.unwrap();
    let left = guard.renew(60 * SECOND).await.unwrap();
    assert!(left > 50 * SECOND && left <= 60 * SECOND, "{left:?}");
    // A renewal never shortens the remaining time.
    let left = guard.renew(SECOND).await.unwrap();
    assert!(left > 50 * SECOND, "{left:?}");
    locks.break_lease("k", guard.fence()).await.unwrap();
    assert!(matches!(guard.renew(SECOND).await, Err(RenewError::Lost(_))));
}

#[tokio::test]
async fn the_end_of_a_lease_is_also_given_by_the_wall_clock() {
    let locks = Locks::builder().ttl(10 * SECOND).in_memory().unwrap();
    let before = SystemTime::now();
    let guard = locks.mutex("k").lock().await.unwrap();
    let ends = guard.expires_at().duration_since(before).unwrap();
    assert!(ends > 9 * SECOND && ends < 12 * SECOND, "{ends:?}");
    guard.renew(60 * SECOND).await.unwrap();
    let ends = guard.held().expires_at().duration_since(before).unwrap();
    assert!(ends > 50 * SECOND && ends < 62 * SECOND, "{ends:?}");
}
