//! Checks: readers and writers, and permits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::{Acquire, Locks, Mode, Owner, Ttl};
use leasehold_core::{Attempt, Claim, Family, HoldAnswer, Label};
use servers::Reply;
use tokio::task::JoinSet;

use super::queue::{IN_TIME, joins, locks, served, until, until_nothing_is_left, until_waiting};
use super::{LONG, SHORT, attempt, holders, key, refused, release, renew, state_of, take, take_within};
use crate::poll::poll_and_drop;
use crate::target::Target;

/// Shares end at whole milliseconds.
const A_MILLISECOND: Duration = Duration::from_millis(1);

fn reading(ttl: Duration) -> Attempt {
    let mut one = attempt(&["k"], ttl);
    one.claim = Claim::shared([key("k")]).unwrap();
    one
}

fn with_permits(weight: u32, of: u32, ttl: Duration) -> Attempt {
    let mut one = attempt(&["k"], ttl);
    one.claim = Claim::permits([key("k")], weight, of).unwrap();
    one
}

/// Readers of two processes hold together; a writer gets in after all have left.
pub async fn readers_hold_together_and_keep_a_writer_out(target: &Target) {
    let (here, there) = (target.store(), target.store());
    let (one, other, writer) = (reading(LONG), reading(LONG), attempt(&["k"], LONG));
    let first = take(&*here, &one).await;
    assert!(take(&*there, &other).await > first || !target.hands_over());
    assert_eq!(refused(&*here, &writer).await.mode, Mode::Shared);
    assert_eq!(here.release(&one).await.unwrap(), HoldAnswer::Done);
    assert_eq!(refused(&*here, &writer).await.mode, Mode::Shared);
    // At most the longest TTL of a quorum.
    assert_eq!(renew(&*here, &other.with_ttl(Ttl::new(SHORT).unwrap())).await, HoldAnswer::Done);
    let left = holders(&*there, "k").await[0].remaining.unwrap();
    assert!(left > LONG / 2, "a renewal does not shorten: {left:?} left");
    assert_eq!(here.release(&other).await.unwrap(), HoldAnswer::Done);
    let short = reading(SHORT);
    take(&*there, &short).await;
    assert_eq!(renew(&*there, &short.with_ttl(Ttl::new(LONG).unwrap())).await, HoldAnswer::Done);
    let left = holders(&*here, "k").await[0].remaining.unwrap();
    assert!(left > LONG / 2, "a renewal lengthens: {left:?} left");
    assert_eq!(there.release(&short).await.unwrap(), HoldAnswer::Done);
    take(&*there, &writer).await;
}

/// A mutex is the writer of a reader-writer lock; nobody else releases or renews a reader.
pub async fn a_writer_keeps_readers_out(target: &Target) {
    let store = target.store();
    let (reader, writer) = (reading(LONG), attempt(&["k"], LONG));
    take(&*store, &writer).await;
    assert_eq!(refused(&*store, &reader).await.mode, Mode::Exclusive);
    assert!(matches!(store.release(&reader).await.unwrap(), HoldAnswer::NotHeld { .. }));
    assert!(matches!(renew(&*store, &reader).await, HoldAnswer::NotHeld { .. }));
    assert_eq!(holders(&*store, "k").await.len(), 1);
    store.release(&writer).await.unwrap();
    take(&*store, &reader).await;
    assert!(matches!(store.release(&writer).await.unwrap(), HoldAnswer::NotHeld { .. }));
    assert_eq!(holders(&*store, "k").await.len(), 1);
}

/// Neither by a try nor in the queue.
pub async fn readers_do_not_pass_a_writer_that_waits(target: &Target) {
    let (store, [here, there]) = (target.store(), [locks(target), locks(target)]);
    let (one, other) = (here.rw_lock("k"), there.rw_lock("k"));
    let first = one.read().await.unwrap();
    let writer = joins(&*store, 0, other.write().into_future()).await;
    assert!(one.try_read().await.unwrap().is_none());
    let reader = joins(&*store, 1, one.read().into_future()).await;
    let state = state_of(&*store, "k").await;
    let modes: Vec<_> = state.waiters.iter().map(|waiter| waiter.mode).collect();
    assert_eq!(modes, [Mode::Exclusive, Mode::Shared]);
    first.release().await.unwrap();
    let writer = served(writer).await;
    assert!(!reader.is_finished());
    writer.release().await.unwrap();
    served(reader).await.release().await.unwrap();
    until_nothing_is_left(&*store).await;
}

/// And nobody behind the next writer. They are many, and are notified and do not poll.
pub async fn all_readers_in_front_are_let_in_together(target: &Target) {
    const READERS: usize = 40;
    let (store, all) = (target.store(), [locks(target), locks(target)]);
    let writer = all[0].rw_lock("k").write().await.unwrap();
    let mut readers = Vec::new();
    for n in 0..READERS {
        readers.push(joins(&*store, n, all[n % 2].rw_lock("k").read().into_future()).await);
    }
    let next = joins(&*store, READERS, all[0].rw_lock("k").write().into_future()).await;
    let last = joins(&*store, READERS + 1, all[1].rw_lock("k").read().into_future()).await;
    writer.release().await.unwrap();
    let mut guards = Vec::new();
    for reader in readers {
        guards.push(served(reader).await);
    }
    assert!(!next.is_finished() && !last.is_finished());
    let asks: u32 = guards.iter().map(|guard| guard.attempts()).sum();
    // On a busy machine, a request may arrive too late.
    let polls = !target.hands_over() || !target.tells();
    assert!(polls || asks <= READERS as u32 + 4, "{asks} asks for {READERS} grants");
    // They keep holding past the window in which a hand-over must be claimed.
    tokio::time::sleep(leasehold_core::WaitQueue::CLAIM_WINDOW + SHORT).await;
    assert!(guards.iter().all(|guard| guard.is_held()) && !next.is_finished());
    for guard in guards {
        guard.release().await.unwrap();
    }
    served(next).await.release().await.unwrap();
    served(last).await.release().await.unwrap();
    until_nothing_is_left(&*store).await;
}

/// By a renewal as a reader, which may be repeated, and no delayed renewal of the writer undoes it.
pub async fn a_writer_becomes_a_reader_and_lets_readers_in_and_no_writer(target: &Target) {
    let (here, there) = (target.store(), target.store());
    let writer = attempt(&["k"], LONG);
    let fence = take(&*here, &writer).await;
    let others = reading(LONG);
    assert_eq!(refused(&*there, &others).await.mode, Mode::Exclusive);
    for renewal in [writer.reading(), writer.reading(), writer.clone()] {
        assert_eq!(renew(&*here, &renewal).await, HoldAnswer::Done);
        // A member of a quorum may hear of it after a majority has answered.
        until(&*there, &format!("a reader after {renewal:?}"), |state| state.holders[0].mode == Mode::Shared)
            .await;
        assert_eq!(holders(&*there, "k").await[0].fence, Some(fence), "{renewal:?}");
    }
    take(&*there, &others).await;
    assert_eq!(refused(&*there, &attempt(&["k"], LONG)).await.mode, Mode::Shared);
    assert_eq!(holders(&*there, "k").await.len(), 2);
    assert!(matches!(renew(&*there, &reading(LONG)).await, HoldAnswer::NotHeld { .. }));
    assert_eq!(here.release(&writer.reading()).await.unwrap(), HoldAnswer::Done);
    assert_eq!(there.release(&others).await.unwrap(), HoldAnswer::Done);
    assert!(take(&*there, &attempt(&["k"], LONG)).await > fence);
}

/// Up to the next writer, which waits for all of them.
pub async fn readers_behind_a_writer_that_reads_on_are_let_in(target: &Target) {
    let (store, [here, there]) = (target.store(), [locks(target), locks(target)]);
    let writing = here.rw_lock("k").write().await.unwrap();
    let one = joins(&*store, 0, here.rw_lock("k").read().into_future()).await;
    let other = joins(&*store, 1, there.rw_lock("k").read().into_future()).await;
    let next = joins(&*store, 2, there.rw_lock("k").write().into_future()).await;
    let last = joins(&*store, 3, here.rw_lock("k").read().into_future()).await;
    let fence = writing.fence();
    let reading = writing.downgrade();
    let readers = [served(one).await, served(other).await];
    assert!(readers.iter().all(|reader| reader.fence() > fence) && reading.fence() == fence);
    assert!(reading.is_held() && !next.is_finished() && !last.is_finished());
    reading.release().await.unwrap();
    for reader in readers {
        assert!(!next.is_finished());
        reader.release().await.unwrap();
    }
    served(next).await.release().await.unwrap();
    served(last).await.release().await.unwrap();
    until_nothing_is_left(&*store).await;
}

/// The readers behind it can join those that still read.
pub async fn a_writer_that_gives_up_lets_readers_go_on(target: &Target) {
    let (store, [here, there]) = (target.store(), [locks(target), locks(target)]);
    let first = here.rw_lock("k").read().await.unwrap();
    let writer = joins(&*store, 0, there.rw_lock("k").write().into_future()).await;
    let reader = joins(&*store, 1, here.rw_lock("k").read().into_future()).await;
    writer.abort();
    let reader = served(reader).await;
    assert!(first.is_held() && reader.is_held());
}

/// A reader that was not renewed does not come back either when others read after a writer.
pub async fn a_reader_whose_lease_ended_never_comes_back(target: &Target) {
    let store = target.store();
    let (stale, writer) = (reading(SHORT), attempt(&["k"], LONG));
    take(&*store, &stale).await;
    let waited = take_within(&*store, &writer, IN_TIME).await;
    assert!(waited > SHORT / 2, "let in after {waited:?}");
    store.release(&writer).await.unwrap();
    let next = reading(LONG);
    take(&*store, &next).await;
    // A quorum lets a lease be taken again; a holder that knows that its lease ended does not ask.
    if target.hands_over() {
        assert!(matches!(renew(&*store, &stale).await, HoldAnswer::NotHeld { .. }));
    }
    assert!(matches!(store.release(&stale).await.unwrap(), HoldAnswer::NotHeld { .. }));
    assert_eq!(holders(&*store, "k").await.len(), 1);
}

/// Each with its own label, fence and mode, ordered by fence.
pub async fn an_observer_sees_all_shared_holders(target: &Target) {
    let store = target.store();
    let mut fences = Vec::new();
    for name in ["web-1", "web-2", "web-3"] {
        let mut one = reading(LONG);
        one.label = Some(Label::new(name).unwrap());
        fences.push(take(&*store, &one).await);
    }
    let mut seen = holders(&*store, "k").await;
    assert!(
        seen.iter().all(
            |it| it.mode == Mode::Shared && it.remaining.is_some_and(|left| left <= LONG + A_MILLISECOND)
        )
    );
    if target.hands_over() {
        assert_eq!(
            seen.iter().map(|it| it.fence).collect::<Vec<_>>(),
            fences.into_iter().map(Some).collect::<Vec<_>>()
        );
    }
    seen.sort_by_key(|it| format!("{}", it.owner));
    let labels = seen.iter().map(|it| match &it.owner {
        Owner::Holder { label, .. } => label.as_ref().map(ToString::to_string).unwrap_or_default(),
        other => panic!("{other:?}"),
    });
    assert_eq!(labels.collect::<Vec<_>>(), ["web-1", "web-2", "web-3"]);
    let listed = store.inspector().unwrap().list(b"k").await.unwrap();
    assert_eq!(listed.iter().map(|state| state.holders.len()).collect::<Vec<_>>(), [3]);
}

/// This holds if the key was free, read or written, with or without another reader.
pub async fn a_dropped_request_to_read_leaves_nothing(target: &Target) {
    let (locks, store) = (locks(target), target.store());
    for holder in [None, Some(reading(LONG)), Some(attempt(&["k"], LONG))] {
        for polls in 0..25 {
            if let Some(holder) = &holder {
                take_within(&*store, holder, IN_TIME).await;
            }
            let guard = poll_and_drop(locks.rw_lock("k").read().into_future(), polls).await;
            let done = guard.is_some();
            drop(guard);
            if let Some(holder) = &holder {
                release(&*store, holder).await;
            }
            until_nothing_is_left(&*store).await;
            if done {
                break;
            }
        }
    }
}

/// Eight tasks hold `k` again and again: those that hold it together weigh `most`, and all get turns.
async fn contend(target: &Target, most: u32, weights: [u32; 8], request: fn(&Locks, u32) -> Acquire) {
    let inside = Arc::new(AtomicU32::new(0));
    let all = [locks(target), locks(target)];
    let mut tasks = JoinSet::new();
    for (n, weight) in weights.into_iter().enumerate() {
        let (locks, inside) = (all[n % 2].clone(), inside.clone());
        tasks.spawn(async move {
            for _ in 0..8 {
                let guard = request(&locks, weight).within(LONG).await.unwrap();
                let used = inside.fetch_add(weight, Ordering::SeqCst) + weight;
                assert!(used <= most, "{used} of {most} were in use");
                tokio::time::sleep(Duration::from_millis(1)).await;
                inside.fetch_sub(weight, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    until_nothing_is_left(&*target.store()).await;
}

/// A writer weighs as much as there may be at once, so it is alone.
pub async fn a_writer_is_alone_under_contention(target: &Target) {
    const ALL: u32 = 1000;
    contend(target, ALL, [ALL, 1, 1, 1, ALL, 1, 1, 1], |locks, weight| {
        let lock = locks.rw_lock("k");
        if weight == ALL { lock.write().untyped() } else { lock.read().untyped() }
    })
    .await;
}

/// The marker keeps others' SET NX out, their value readers, and deleting the marker ends all shares.
pub async fn a_marker_and_a_strangers_value_keep_each_other_out(target: &Target) {
    let Some(server) = target.server() else { return };
    let store = target.store();
    let (one, other) = (reading(LONG), reading(LONG));
    take(&*store, &one).await;
    let marker = server.text(&["GET", "k"]);
    assert_eq!(marker.as_text(), Some(&*format!("lh1 {}", Family::Shared)));
    assert_eq!(server.text(&["SET", "k", "x", "NX", "PX", "60000"]), Reply::Bulk(None));
    server.text(&["SET", "k", "x", "PX", "60000"]);
    assert!(matches!(refused(&*store, &other).await.owner, Owner::Foreign { .. }));
    assert!(matches!(renew(&*store, &one).await, HoldAnswer::NotHeld { .. }));
    assert_eq!(server.text(&["GET", "k"]).as_text(), Some("x"));
    server.text(&["DEL", "k"]);
    take(&*store, &other).await;
    server.text(&["DEL", "k"]);
    let writer = attempt(&["k"], LONG);
    take(&*store, &writer).await;
    store.release(&writer).await.unwrap();
    take(&*store, &one).await;
    assert_eq!(holders(&*store, "k").await.len(), 1);
    assert!(matches!(renew(&*store, &other).await, HoldAnswer::NotHeld { .. }));
    store.release(&one).await.unwrap();
    assert_eq!(server.text(&["EXISTS", "k"]), Reply::Integer(0));
}

/// All permits and no more, whatever each request takes; a released one is available to others.
pub async fn permits_never_exceed_their_number(target: &Target) {
    const PERMITS: u32 = 5;
    contend(target, PERMITS, [1, 2, 3, 1, 2, 3, 1, 2], |locks, weight| {
        locks.semaphore("k", PERMITS).acquire_many(weight).untyped()
    })
    .await;
}

/// A request for many permits is not overtaken by requests for few.
pub async fn a_wish_for_many_permits_is_not_starved(target: &Target) {
    let (store, [here, there]) = (target.store(), [locks(target), locks(target)]);
    let (one, other) = (here.semaphore("k", 3), there.semaphore("k", 3));
    let (first, second) = (one.acquire().await.unwrap(), other.acquire().await.unwrap());
    let many = joins(&*store, 0, one.acquire_many(3).into_future()).await;
    let few = joins(&*store, 1, other.acquire().into_future()).await;
    assert!(other.try_acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    until_waiting(&*store, 2).await;
    second.release().await.unwrap();
    let many = served(many).await;
    assert!(!few.is_finished());
    many.release().await.unwrap();
    served(few).await.release().await.unwrap();
    until_nothing_is_left(&*store).await;
}

/// A crashed holder's permits come back when its lease has ended, and not before.
pub async fn the_permits_of_a_dead_holder_come_back(target: &Target) {
    let store = target.store();
    let (dead, alive, next) = (with_permits(2, 3, SHORT), with_permits(1, 3, LONG), with_permits(2, 3, LONG));
    take(&*store, &dead).await;
    take(&*store, &alive).await;
    let waited = take_within(&*store, &next, IN_TIME).await;
    assert!(waited > SHORT / 2, "let in after {waited:?}");
    assert_eq!(holders(&*store, "k").await.len(), 2);
    assert!(matches!(renew(&*store, &dead).await, HoldAnswer::NotHeld { .. }));
    assert_eq!(renew(&*store, &alive).await, HoldAnswer::Done);
}

/// Requests with different totals exclude each other, and the refusal gives the reason.
pub async fn a_request_with_another_total_of_permits_is_refused_with_the_reason(target: &Target) {
    let locks = locks(target);
    let guard = locks.semaphore("k", 2).acquire().await.unwrap();
    for request in [
        locks.semaphore("k", 3).acquire().untyped(),
        locks.rw_lock("k").read().untyped(),
        locks.mutex("k").lock(),
    ] {
        let error = request.within(Duration::ZERO).await.unwrap_err().to_string();
        assert!(error.contains("with 1 of 2 permits"), "{error}");
    }
    guard.release().await.unwrap();
    let reading = locks.rw_lock("k").read().await.unwrap();
    let error = locks.semaphore("k", 2).acquire().within(Duration::ZERO).await.unwrap_err().to_string();
    assert!(error.contains("as a reader"), "{error}");
    drop(reading);
}
