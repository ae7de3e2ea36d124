//! Reports of a guard about its lease.

use std::future::pending;
use std::time::{Duration, SystemTime};

use leasehold::{BreakNote, Held, Label, Locks, Loss};
use tokio::sync::oneshot;
use tokio::time::timeout;

const SECOND: Duration = Duration::from_secs(1);

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

/// Regression: views called it held up to the end of the last lease, while somebody else held it.
#[tokio::test]
async fn a_view_of_a_guard_that_is_gone_says_that_the_lock_is_not_held() {
    let locks = Locks::in_memory();
    let gone = |held: &Held| {
        assert!(!held.is_held() && held.remaining().is_zero(), "{held:?}");
        assert!(held.loss().is_none(), "{held:?}");
    };
    let guard = locks.mutex("k").lock().await.unwrap();
    let held = guard.held();
    let releasing = guard.release();
    assert!(held.is_held(), "a future that was not polled has released nothing");
    releasing.await.unwrap();
    gone(&held);

    let guard = locks.mutex("k").lock().await.unwrap();
    let held = guard.held();
    drop(guard);
    gone(&held);

    let (tell, told) = oneshot::channel();
    let work = locks.mutex("k").lock().hold(async move |held| {
        let _ = tell.send(held);
        pending::<()>().await;
    });
    assert!(timeout(SECOND / 20, work).await.is_err());
    gone(&told.await.unwrap());
    assert!(locks.mutex("k").lock().await.unwrap().is_held());
}

/// The work under them may still have to stop.
#[tokio::test]
async fn of_several_locks_one_that_was_broken_is_free_and_the_others_once_the_guard_is_dropped() {
    let locks = Locks::builder().ttl(3 * SECOND).in_memory().unwrap();
    for is_dropped in [true, false] {
        let guard = locks.mutex_all(["a", "b"]).lock().await.unwrap();
        locks.break_lease("a", guard.fence()).await.unwrap();
        assert!(matches!(guard.lost().await, Loss::Broken { .. }));
        locks.mutex("a").try_lock().await.unwrap().unwrap().release().await.unwrap();
        assert!(locks.mutex("b").try_lock().await.unwrap().is_none());
        if is_dropped {
            drop(guard);
            locks.mutex("b").lock().within(2 * SECOND).await.unwrap().release().await.unwrap();
        } else {
            // Nobody renews its lease any more.
            locks.mutex("b").lock().within(10 * SECOND).await.unwrap().release().await.unwrap();
        }
    }
}

/// Regression: the keeper had not begun to listen; the next renewal took the lease for deleted.
#[tokio::test]
async fn a_holder_is_told_of_a_break_that_comes_right_after_its_grant() {
    for _ in 0..20 {
        let locks = Locks::in_memory();
        let guard = locks.mutex("import").lock().await.unwrap();
        locks.break_lease("import", guard.fence()).await.unwrap();
        // Its first renewal would be after ten.
        let loss = timeout(5 * SECOND, guard.lost()).await.expect("within moments");
        assert!(matches!(loss, Loss::Broken { .. }), "{loss}");
    }
}

#[tokio::test]
async fn a_break_is_by_the_label_of_its_locks_unless_the_note_says_by_whom() {
    let locks = Locks::builder().label("operator").in_memory().unwrap();
    for (said, noted) in [(None, "operator"), (Some("somebody else"), "somebody else")] {
        let guard = locks.mutex("import").lock().await.unwrap();
        let by = said.map(|by| Label::new(by).unwrap());
        let note = BreakNote { by, ..BreakNote::default() };
        locks.break_lease_noting("import", guard.fence(), note).await.unwrap();
        let broken = locks.last_break("import").await.unwrap().unwrap();
        assert_eq!(broken.note.by.unwrap().as_str(), noted);
    }
}

/// Regression: a limit of zero left no time to the releases of guards that had just been dropped.
#[tokio::test]
async fn a_close_without_a_limit_waits_for_the_releases_of_dropped_guards() {
    let locks = Locks::in_memory();
    drop(locks.mutex("k").lock().await.unwrap());
    locks.close(Duration::ZERO).await.unwrap();
    let locks = Locks::in_memory();
    locks.mutex("k").lock().await.unwrap().transfer(30 * SECOND).await.unwrap();
    locks.close(Duration::ZERO).await.unwrap();
}
