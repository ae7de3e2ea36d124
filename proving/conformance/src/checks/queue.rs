//! Checks: waiting in the queue.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{Acquire, LockError, Locks, Renewal};
use leasehold_core::{Holder, KeyState, Owner, Store, WaitQueue};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};

use super::{LONG, SHORT, attempt, queues, state_of, take};
use crate::target::Target;

/// Far longer than anything here takes, and shorter than a lease.
pub(super) const IN_TIME: Duration = Duration::from_secs(10);

pub(super) fn locks(target: &Target) -> Locks {
    Locks::builder().ttl(LONG).over(target.store()).unwrap()
}

/// Waits until the state of `k` is as it should be.
pub(super) async fn until(store: &dyn Store, what: &str, is_so: impl Fn(&KeyState) -> bool) {
    let waiting = async {
        while !is_so(&state_of(store, "k").await) {
            sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(timeout(IN_TIME, waiting).await.is_ok(), "never {what}: {:?}", state_of(store, "k").await);
}

pub(super) async fn until_waiting(store: &dyn Store, count: usize) {
    until(store, &format!("{count} waiters"), |state| state.waiters.len() == count).await;
}

/// Waits until nobody holds `k` or waits for it.
pub(super) async fn until_nothing_is_left(store: &dyn Store) {
    until(store, "nothing left", |state| state.holders.is_empty() && state.waiters.is_empty()).await;
}

/// A task that joins the queue behind all that joined before.
pub(super) async fn joins<T: Send + 'static>(
    store: &dyn Store,
    before: usize,
    waits: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let task = tokio::spawn(waits);
    until_waiting(store, before + 1).await;
    task
}

pub(super) async fn served<G>(task: JoinHandle<Result<G, LockError>>) -> G {
    timeout(IN_TIME, task).await.expect("served in time").unwrap().unwrap()
}

fn request(locks: &Locks) -> Acquire {
    locks.mutex("k").lock().within(LONG)
}

/// Waiters of two processes, alternating, are served in order, and are notified and do not poll.
pub async fn the_first_waiter_is_served_first(target: &Target) {
    let (store, all) = (target.store(), [locks(target), locks(target)]);
    let holder = all[0].mutex("k").lock().await.unwrap();
    let order = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for n in 0..12 {
        let (request, order) = (request(&all[n % 2]), order.clone());
        let waits = async move {
            let guard = request.await.unwrap();
            order.lock().unwrap().push((n, guard.fence()));
            let asks = guard.attempts();
            guard.release().await.unwrap();
            asks
        };
        tasks.push(joins(&*store, n, waits).await);
    }
    holder.release().await.unwrap();
    let mut asks = 0;
    for task in tasks {
        asks += timeout(IN_TIME, task).await.expect("served in time").unwrap();
    }
    let order = order.lock().unwrap().clone();
    assert_eq!(order.iter().map(|(n, _)| *n).collect::<Vec<_>>(), (0..12).collect::<Vec<_>>());
    assert!(order.windows(2).all(|pair| pair[0].1 < pair[1].1), "fences rise: {order:?}");
    // On a busy machine, a request may be late, or a process's first waiter asks for all of them.
    let most = if target.hands_over() { 16 } else { 12 + 16 };
    assert!(asks <= most || !target.tells(), "{asks} asks for 12 grants");
    until_nothing_is_left(&*store).await;
}

/// The one in the middle leaves, the others move up, and a timeout reports its position.
pub async fn a_waiter_that_gave_up_is_skipped(target: &Target) {
    let (store, locks, others) = (target.store(), locks(target), locks(target));
    let holder = locks.mutex("k").label("web-1").lock().await.unwrap();
    let first = joins(&*store, 0, locks.mutex("k").lock().within(Duration::from_secs(2)).into_future()).await;
    let second = joins(&*store, 1, request(&others)).await;
    let third = joins(&*store, 2, request(&locks)).await;
    second.abort();
    until_waiting(&*store, 2).await;
    let LockError::TimedOut { place, held_by, .. } = first.await.unwrap().unwrap_err() else {
        panic!("its time was up")
    };
    assert_eq!(place, Some(1));
    let held_by = held_by.expect("somebody holds it").to_string();
    assert!(held_by.starts_with("web-1 ("), "{held_by}");
    until_waiting(&*store, 1).await;
    holder.release().await.unwrap();
    served(third).await.release().await.unwrap();
    until_nothing_is_left(&*store).await;
}

/// Neither by a try, nor by a holder that releases and asks again.
pub async fn nobody_overtakes_the_queue(target: &Target) {
    let (store, locks, others) = (target.store(), locks(target), locks(target));
    let holder = locks.mutex("k").lock().await.unwrap();
    let first = joins(&*store, 0, request(&others)).await;
    let second = joins(&*store, 1, request(&others)).await;
    holder.release().await.unwrap();
    assert!(locks.mutex("k").try_lock().await.unwrap().is_none());
    let again = tokio::spawn(request(&locks));
    served(first).await.release().await.unwrap();
    assert!(others.mutex("k").try_lock().await.unwrap().is_none());
    let second = served(second).await;
    assert!(!again.is_finished());
    second.release().await.unwrap();
    served(again).await.release().await.unwrap();
}

/// Beyond the limit, a request is refused at once, with the number of waiters.
pub async fn a_queue_can_be_full(target: &Target) {
    let (store, locks) = (target.store(), locks(target));
    let holder = locks.mutex("k").lock().await.unwrap();
    let waits = joins(&*store, 0, locks.mutex("k").lock().queue_limit(1).into_future()).await;
    let refused = locks.mutex("k").lock().queue_limit(1).await.unwrap_err();
    assert!(matches!(refused, LockError::QueueFull { length: 1, .. }), "{refused:?}");
    until_waiting(&*store, 1).await;
    holder.release().await.unwrap();
    served(waits).await.release().await.unwrap();
}

/// The first waiter has the lock soon after the lease's end, and the second after the first.
pub async fn the_first_waiter_follows_a_dead_holder(target: &Target) {
    let (store, locks, others) = (target.store(), locks(target), locks(target));
    let dead = attempt(&["k"], SHORT);
    take(&*store, &dead).await;
    let first = joins(&*store, 0, request(&others)).await;
    let second = joins(&*store, 1, request(&locks)).await;
    let guard = timeout(SHORT + Duration::from_secs(1), first).await.expect("in time").unwrap().unwrap();
    assert!(!second.is_finished());
    guard.release().await.unwrap();
    served(second).await.release().await.unwrap();
}

/// The longest time for which a lock that was handed over may last before it is claimed.
const UNCLAIMED: Duration = Duration::from_secs(5);

/// It lasts a claim window at first, and soon the requested TTL, even without renewal.
pub async fn a_hand_over_becomes_a_lease_like_any_other(target: &Target) {
    let (store, locks) = (target.store(), locks(target));
    if target.hands_over() {
        // A bare attempt is not claimed automatically.
        let (holder, next) = (attempt(&["k"], LONG), attempt(&["k"], LONG));
        take(&*store, &holder).await;
        queues(&*store, &next).await;
        store.release(&holder).await.unwrap();
        let state = state_of(&*store, "k").await;
        let [handed] = &state.holders[..] else { panic!("{state:?}") };
        assert!(
            handed.remaining.is_some_and(|left| left <= WaitQueue::CLAIM_WINDOW.max(UNCLAIMED)),
            "{handed:?}"
        );
        store.release(&next).await.unwrap();
    }
    for renewal in [Renewal::Automatic, Renewal::Off] {
        let holder = locks.mutex("k").lock().await.unwrap();
        let waits = locks.mutex("k").renewal(renewal).lock().into_future();
        let waits = joins(&*store, 0, waits).await;
        holder.release().await.unwrap();
        let guard = served(waits).await;
        let held = guard.held();
        let renewed = held.renewed();
        // With several threads, it may be renewed before we look.
        let first = guard.remaining();
        if target.hands_over() && first <= LONG / 2 {
            assert!(first <= WaitQueue::CLAIM_WINDOW.max(UNCLAIMED), "{first:?}");
            timeout(IN_TIME, renewed).await.expect("it is renewed");
        }
        assert!(guard.remaining() > LONG / 2, "{:?}", guard.remaining());
        guard.release().await.unwrap();
    }
}

pub async fn an_observer_sees_the_queue_in_order(target: &Target) {
    let (store, locks) = (target.store(), locks(target));
    let holder = locks.mutex("k").label("zero").lock().await.unwrap();
    let mut tasks = Vec::new();
    for (n, label) in ["one", "two words", "größe"].into_iter().enumerate() {
        tasks.push(joins(&*store, n, locks.mutex("k").label(label).lock().into_future()).await);
    }
    let state = locks.inspect("k").await.unwrap();
    let Owner::Holder { holder: id, .. } = &state.holders[0].owner else { panic!("{state:?}") };
    assert_eq!(*id, holder.held().holder());
    let labels: Vec<_> = state.waiters.iter().map(|waiter| waiter.label.as_ref().unwrap().as_str()).collect();
    assert_eq!(labels, ["one", "two words", "größe"]);
    assert!(
        state.waiters.iter().all(|waiter| waiter.waited < IN_TIME && waiter.holder != Holder::from_bits(0))
    );
    tasks.iter().for_each(JoinHandle::abort);
    holder.release().await.unwrap();
    until_nothing_is_left(&*store).await;
}

/// Tasks acquire one, the other, and both of two keys: there is no deadlock, and all are served.
pub async fn takers_of_several_keys_all_get_their_turns(target: &Target) {
    let all = [locks(target), locks(target)];
    let mut tasks = JoinSet::new();
    for (n, names) in [&["{n}a", "{n}b"][..], &["{n}b", "{n}a"], &["{n}a"], &["{n}b"]].into_iter().enumerate()
    {
        let mutex = all[n % 2].mutex_all(names);
        tasks.spawn(async move {
            let mut last = None;
            for _ in 0..15 {
                let guard = mutex.lock().within(LONG).await.unwrap();
                assert!(last < Some(guard.fence()));
                last = Some(guard.fence());
                tokio::task::yield_now().await;
                guard.release().await.unwrap();
            }
        });
    }
    timeout(LONG, tasks.join_all()).await.expect("no circle");
}
