//! The list of checks that every store must pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use leasehold::TokioRuntime;
use leasehold_core::{
    Attempt, Claim, FaultCause, Fence, GrantAnswer, HoldAnswer, Holder, HolderInfo, Key, KeyState, Label,
    Owner, Runtime, Store, Ttl, WaitMode,
};
use tokio::task::JoinSet;

mod breaking;
mod listing;
mod marks;
mod member;
mod queue;
mod sharing;
mod transferring;

pub use breaking::*;
pub use listing::*;
pub use marks::*;
pub use member::*;
pub use queue::*;
pub use sharing::*;
pub use transferring::*;

use crate::poll::poll_and_drop;
use crate::target::Target;

/// So long that no lease ends during a check that does not wait for it.
const LONG: Duration = Duration::from_secs(60);
/// Short enough to wait for.
const SHORT: Duration = Duration::from_millis(300);

/// A module for each store and list of checks, each check a test; or, after `@`, these tests alone.
#[macro_export]
macro_rules! every_check {
    (@ $target:expr; $($check:ident,)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $check() {
            $crate::checks::$check(&$target).await;
        })*
    };
    ($($store:ident: $target:expr => $($list:ident),+;)*) => {
        $(mod $store {
            $(mod $list {
                use super::super::*;

                $crate::every_check!(of $list; $target);
            })+
        })*
    };
    // Every store passes these.
    (of all; $target:expr) => {
        $crate::every_check! { @ $target;
            a_free_key_is_granted_to_one,
            asking_again_is_granted_again,
            busy_names_the_holder_and_the_remaining_time,
            a_lease_that_is_not_renewed_ends,
            a_renewal_lengthens_and_never_shortens,
            only_the_holder_renews,
            renewals_are_answered_one_by_one,
            a_release_frees_only_what_is_ours,
            giving_up_leaves_nothing,
            several_keys_are_granted_together_or_not_at_all,
            fences_rise_in_grant_order_whoever_holds,
            any_key_and_label_will_do,
            one_at_a_time_under_contention,
            a_request_dropped_at_any_await_leaves_nothing,
            a_waiter_is_served_when_the_lock_is_released,
            the_first_waiter_is_served_first,
            a_waiter_that_gave_up_is_skipped,
            nobody_overtakes_the_queue,
            a_queue_can_be_full,
            the_first_waiter_follows_a_dead_holder,
            a_hand_over_becomes_a_lease_like_any_other,
            an_observer_sees_the_queue_in_order,
            takers_of_several_keys_all_get_their_turns,
            a_break_ends_the_holding_with_that_fence_and_no_other,
            a_break_leaves_a_record,
            a_broken_lease_goes_to_the_first_waiter,
            a_listing_has_what_is_waited_for,
            a_listing_has_what_is_held_and_nothing_else,
            a_prefix_means_itself,
            a_long_listing_is_complete_and_in_order,
            a_finished_job_is_known_to_everybody,
            only_the_holder_sets_a_mark,
            a_mark_lasts_for_its_time,
            marks_are_listed_and_can_be_taken_back,
        }
    };
    (of readers; $target:expr) => {
        $crate::every_check! { @ $target;
            readers_hold_together_and_keep_a_writer_out,
            a_writer_keeps_readers_out,
            readers_do_not_pass_a_writer_that_waits,
            all_readers_in_front_are_let_in_together,
            a_writer_that_gives_up_lets_readers_go_on,
            a_writer_becomes_a_reader_and_lets_readers_in_and_no_writer,
            readers_behind_a_writer_that_reads_on_are_let_in,
            a_reader_whose_lease_ended_never_comes_back,
            an_observer_sees_all_shared_holders,
            a_dropped_request_to_read_leaves_nothing,
            a_writer_is_alone_under_contention,
            a_marker_and_a_strangers_value_keep_each_other_out,
        }
    };
    // Those of permits, which a quorum does not have.
    (of permits; $target:expr) => {
        $crate::every_check! { @ $target;
            permits_never_exceed_their_number,
            a_wish_for_many_permits_is_not_starved,
            the_permits_of_a_dead_holder_come_back,
            a_request_with_another_total_of_permits_is_refused_with_the_reason,
        }
    };
    (of transfers; $target:expr) => {
        $crate::every_check! { @ $target;
            a_lock_goes_over_to_one_process_and_to_no_second,
            at_most_one_of_many_adopters_gets_the_lock,
            a_lock_that_nobody_adopts_is_free_after_its_time,
            a_token_keeps_and_releases_a_lock,
            a_reader_goes_over_and_the_others_read_on,
        }
    };
    // Those of a store's push messages, for stores that have them.
    (of notices; $target:expr) => {
        $crate::every_check! { @ $target;
            a_holder_is_notified_at_once_that_its_lease_was_broken,
            a_holder_that_waited_is_notified_at_once_that_its_lease_was_broken,
        }
    };
    // Those of push messages for RESP2, where only a process that waits has a connection for them.
    (of notices_after_waiting; $target:expr) => {
        $crate::every_check! { @ $target;
            a_holder_that_waited_is_notified_at_once_that_its_lease_was_broken,
        }
    };
    (of members; $target:expr) => {
        $crate::every_check! { @ $target;
            the_fence_that_is_proposed_is_granted_unless_a_greater_one_was,
            a_fence_is_kept_near_the_stores_own_clock,
            only_the_holder_raises_a_fence_and_exactly_to_the_requested_value,
            a_rejoin_renews_a_lease_or_takes_a_key_that_is_free_and_not_waited_for,
            a_rejoin_does_not_overtake_waiters,
            no_fence_is_answered_to_two_readers,
            a_store_that_may_have_forgotten_leases_abstains_for_the_longest_ttl,
            a_store_that_abstains_still_says_who_holds,
        }
    };
}

fn key(name: impl AsRef<[u8]>) -> Key {
    Key::new(name).unwrap()
}

fn attempt(keys: &[&str], ttl: Duration) -> Attempt {
    let runtime = TokioRuntime::current().unwrap();
    let claim = Claim::exclusive_all(keys.iter().map(key)).unwrap();
    Attempt::new(claim, Holder::from_bits(runtime.random()), None, Ttl::new(ttl).unwrap())
}

/// Sends a request, again if a busy machine delivers it too late, or up to three times unanswered.
async fn ask(store: &dyn Store, attempt: &Attempt, wait: WaitMode) -> GrantAnswer {
    let mut unanswered = 0;
    loop {
        match store.grant(attempt, wait).await {
            Ok(GrantAnswer::TooLate { .. }) => {}
            Err(fault) if fault.cause == FaultCause::TimedOut && unanswered < 3 => unanswered += 1,
            answer => return answer.unwrap(),
        }
    }
}

async fn take(store: &dyn Store, attempt: &Attempt) -> Fence {
    match ask(store, attempt, WaitMode::Try).await {
        GrantAnswer::Granted { fence } => fence,
        other => panic!("{attempt:?} should be granted: {other:?}"),
    }
}

/// Releases what may be held, up to four times if a busy machine keeps another transaction open.
async fn release(store: &dyn Store, attempt: &Attempt) {
    for _ in 0..3 {
        match store.release(attempt).await {
            Err(fault) if !fault.is_lasting() => {}
            answer => return drop(answer.unwrap()),
        }
    }
    store.release(attempt).await.unwrap();
}

async fn refused(store: &dyn Store, attempt: &Attempt) -> HolderInfo {
    match ask(store, attempt, WaitMode::Try).await {
        GrantAnswer::Busy { held_by, .. } => held_by,
        other => panic!("{attempt:?} should be refused: {other:?}"),
    }
}

async fn renew(store: &dyn Store, attempt: &Attempt) -> HoldAnswer {
    store.renew(std::slice::from_ref(attempt)).await.pop().unwrap().unwrap()
}

async fn state_of(store: &dyn Store, name: impl AsRef<[u8]>) -> KeyState {
    store.inspector().unwrap().inspect(&key(name)).await.unwrap()
}

async fn holders(store: &dyn Store, name: &str) -> Vec<HolderInfo> {
    state_of(store, name).await.holders
}

const WAIT: WaitMode = WaitMode::Wait { queue_limit: None };

/// Asks for a lock that another attempt holds, and joins its queue.
async fn queues(store: &dyn Store, attempt: &Attempt) {
    let answer = ask(store, attempt, WAIT).await;
    assert!(matches!(answer, GrantAnswer::Busy { place: Some(_), .. }), "{answer:?}");
}

/// Asks until the lock is granted, for at most `limit`; returns how long that took.
async fn take_within(store: &dyn Store, attempt: &Attempt, limit: Duration) -> Duration {
    let runtime = TokioRuntime::current().unwrap();
    let begun = runtime.now();
    loop {
        let taken = matches!(ask(store, attempt, WaitMode::Try).await, GrantAnswer::Granted { .. });
        let passed = runtime.now().saturating_since(begun);
        if taken {
            return passed;
        }
        assert!(passed < limit, "not granted within {limit:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Of two requests for a free key, one is granted.
pub async fn a_free_key_is_granted_to_one(target: &Target) {
    let (here, there) = (target.store(), target.store());
    let (one, other) = (attempt(&["k"], LONG), attempt(&["k"], LONG));
    take(&*here, &one).await;
    refused(&*there, &other).await;
    refused(&*here, &other).await;
    assert_eq!(there.release(&one).await.unwrap(), HoldAnswer::Done);
    take(&*there, &other).await;
}

/// A repeated request is never refused because of itself, wherever it comes from; its fence is valid.
pub async fn asking_again_is_granted_again(target: &Target) {
    let (here, there) = (target.store(), target.store());
    let one = attempt(&["k"], LONG);
    let first = take(&*here, &one).await;
    let second = take(&*there, &one).await;
    assert!(second > first, "{second} after {first}");
    assert_eq!(holders(&*here, "k").await.len(), 1);
}

/// A refusal names the holder, its label, its fence and the time left. So does looking.
pub async fn busy_names_the_holder_and_the_remaining_time(target: &Target) {
    let store = target.store();
    assert_eq!(holders(&*store, "k").await, []);
    let mut one = attempt(&["k"], LONG);
    one.label = Some(Label::new("web-3: größe").unwrap());
    let fence = take(&*store, &one).await;
    let seen = refused(&*store, &attempt(&["k"], LONG)).await;
    assert_eq!(seen.owner, Owner::Holder { holder: one.holder, label: one.label.clone() });
    assert_eq!((seen.key.clone(), seen.fence), (key("k"), Some(fence)));
    let left = seen.remaining.unwrap();
    assert!(left <= LONG && left > LONG - Duration::from_secs(10), "{left:?} left");
    let looked = holders(&*target.store(), "k").await;
    assert_eq!(looked.len(), 1);
    assert_eq!((&looked[0].owner, looked[0].fence), (&seen.owner, seen.fence));
}

/// A holder that is silent keeps the others out for its TTL, and no longer.
pub async fn a_lease_that_is_not_renewed_ends(target: &Target) {
    let (here, there) = (target.store(), target.store());
    let runtime = TokioRuntime::current().unwrap();
    let begun = runtime.now();
    take(&*here, &attempt(&["k"], SHORT)).await;
    take_within(&*there, &attempt(&["k"], SHORT), SHORT + Duration::from_secs(1)).await;
    // Stores count whole milliseconds, and may start anywhere within one.
    let passed = runtime.now().saturating_since(begun);
    assert!(passed >= SHORT - Duration::from_millis(1), "free again after {passed:?}");
}

/// A short renewal that arrives late does not shorten a longer one.
pub async fn a_renewal_lengthens_and_never_shortens(target: &Target) {
    let store = target.store();
    let [one, other] = [(); 2].map(|()| attempt(&["k"], SHORT));
    take(&*store, &one).await;
    for is_awaited in [false, true] {
        if is_awaited {
            queues(&*store, &other).await;
        }
        assert_eq!(renew(&*store, &one.with_ttl(Ttl::new(LONG).unwrap())).await, HoldAnswer::Done);
        assert_eq!(renew(&*store, &one).await, HoldAnswer::Done);
        let left = holders(&*store, "k").await[0].remaining.unwrap();
        assert!(left > LONG / 2, "{left:?} left");
    }
}

/// A renewal by another holder, or after the end of the lease, does nothing and gives the reason.
pub async fn only_the_holder_renews(target: &Target) {
    let store = target.store();
    let (one, other) = (attempt(&["k"], LONG), attempt(&["k"], LONG));
    assert_eq!(renew(&*store, &one).await, HoldAnswer::NotHeld { key: key("k"), held_by: None });
    assert_eq!(holders(&*store, "k").await, [], "a renewal takes nothing");
    take(&*store, &other).await;
    let HoldAnswer::NotHeld { held_by: Some(held_by), .. } = renew(&*store, &one).await else {
        panic!("the other holds it")
    };
    assert_eq!(held_by.owner, Owner::Holder { holder: other.holder, label: None });
}

/// A lost lease in a batch does not affect the others; nor does a request of several batches.
pub async fn renewals_are_answered_one_by_one(target: &Target) {
    let store = target.store();
    let mut attempts = Vec::new();
    for n in 0..250 {
        let one = attempt(&[&format!("k{n}")], LONG);
        if n % 3 != 0 {
            take(&*store, &one).await;
        }
        attempts.push(one);
    }
    let answers = store.renew(&attempts).await;
    assert_eq!(answers.len(), attempts.len());
    for (n, answer) in answers.into_iter().enumerate() {
        let held = answer.unwrap() == HoldAnswer::Done;
        assert_eq!(held, n % 3 != 0, "attempt {n}");
    }
    assert_eq!(store.renew(&[]).await, []);
}

/// Nobody can release another's lock; a second release reports that there was nothing to release.
pub async fn a_release_frees_only_what_is_ours(target: &Target) {
    let store = target.store();
    let (one, other) = (attempt(&["k"], LONG), attempt(&["k"], LONG));
    take(&*store, &one).await;
    let answer = store.release(&other).await.unwrap();
    assert!(matches!(answer, HoldAnswer::NotHeld { held_by: Some(_), .. }), "{answer:?}");
    assert_eq!(holders(&*store, "k").await.len(), 1);
    assert_eq!(store.release(&one).await.unwrap(), HoldAnswer::Done);
    let again = store.release(&one).await.unwrap();
    assert_eq!(again, HoldAnswer::NotHeld { key: key("k"), held_by: None });
}

/// This holds for attempts that were granted something, and for those that were not.
pub async fn giving_up_leaves_nothing(target: &Target) {
    let store = target.store();
    let (one, other) = (attempt(&["k"], LONG), attempt(&["k"], LONG));
    store.give_up(&one).await.unwrap();
    take(&*store, &one).await;
    store.give_up(&other).await.unwrap();
    assert_eq!(holders(&*store, "k").await.len(), 1, "another's giving up");
    store.give_up(&one).await.unwrap();
    assert_eq!(holders(&*store, "k").await, []);
}

/// Also if only the last of the keys is held. In a cluster, they are in one slot.
pub async fn several_keys_are_granted_together_or_not_at_all(target: &Target) {
    let store = target.store();
    let middle = attempt(&["{n}c"], LONG);
    let high = take(&*store, &middle).await;
    let three = attempt(&["{n}b", "{n}c", "{n}a"], LONG);
    assert_eq!(refused(&*store, &three).await.key, key("{n}c"));
    assert_eq!(holders(&*store, "{n}a").await, []);
    store.release(&middle).await.unwrap();
    let fence = take(&*store, &three).await;
    assert!(fence > high);
    for name in ["{n}a", "{n}b", "{n}c"] {
        assert_eq!(holders(&*store, name).await[0].fence, Some(fence), "{name}");
    }
    assert_eq!(store.release(&three).await.unwrap(), HoldAnswer::Done);
    for name in ["{n}a", "{n}b", "{n}c"] {
        assert_eq!(holders(&*store, name).await, [], "{name}");
    }
}

/// Across releases, expiries and processes.
pub async fn fences_rise_in_grant_order_whoever_holds(target: &Target) {
    let stores = [target.store(), target.store()];
    let mut last: Option<Fence> = None;
    for round in 0..40 {
        let store = &*stores[round % 2];
        let expires = round % 4 == 0;
        let one = attempt(&["k"], if expires { Duration::from_millis(10) } else { LONG });
        let fence = loop {
            match store.grant(&one, WaitMode::Try).await {
                Ok(GrantAnswer::Granted { fence }) => break fence,
                Ok(_) => {}
                // On a busy machine, such a short lease may end before a majority has answered.
                Err(fault) => assert!(!fault.is_lasting(), "{fault}"),
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        };
        assert!(last.is_none_or(|last| fence > last), "{fence} after {last:?}");
        last = Some(fence);
        if !expires {
            assert_eq!(store.release(&one).await.unwrap(), HoldAnswer::Done);
        }
    }
}

/// Keys are arbitrary bytes; labels come back unchanged.
pub async fn any_key_and_label_will_do(target: &Target) {
    let store = target.store();
    let long = "x".repeat(Key::MAX_LEN);
    let names: [&[u8]; 10] = [
        b"{}",
        b"{",
        b"}{",
        b"a{b}c",
        b"{a}{b}",
        b"two words",
        b"line\nfeed\0",
        b"\xff\xfe",
        "größe".as_bytes(),
        long.as_bytes(),
    ];
    let mut held = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let label = ["", " ", "a b", "lh1-", "🦀", "%s", "{}", "*", "?", "'\""][n];
        let mut one = attempt(&["x"], LONG);
        one.claim = Claim::exclusive(key(name));
        one.label = Some(Label::new(label).unwrap());
        take(&*store, &one).await;
        held.push(one);
    }
    for one in held {
        let seen = state_of(&*store, one.claim.first_key().as_bytes()).await.holders;
        assert_eq!(seen.len(), 1, "{:?}", one.claim);
        assert_eq!(seen[0].owner, Owner::Holder { holder: one.holder, label: one.label.clone() });
        assert_eq!(renew(&*store, &one).await, HoldAnswer::Done);
        assert_eq!(store.release(&one).await.unwrap(), HoldAnswer::Done);
    }
}

/// Eight tasks on two stores: never two holders at once, and fences rise with their holds.
pub async fn one_at_a_time_under_contention(target: &Target) {
    let inside = Arc::new(AtomicU32::new(0));
    let highest = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    let all = [locks(target), locks(target)];
    for n in 0..8 {
        let (locks, inside, highest) = (all[n % 2].clone(), inside.clone(), highest.clone());
        tasks.spawn(async move {
            for _ in 0..10 {
                let guard = locks.mutex("k").lock().within(LONG).await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two were inside");
                let before = highest.swap(guard.fence().get(), Ordering::SeqCst);
                assert!(guard.fence().get() > before, "{} after {before}", guard.fence());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

/// This holds if the key was free, held, or released meanwhile.
pub async fn a_request_dropped_at_any_await_leaves_nothing(target: &Target) {
    let locks = locks(target);
    let store = target.store();
    for taken in [false, true] {
        for polls in 0..25 {
            let holder = attempt(&["k"], LONG);
            if taken {
                // The last request may still be in flight, and be undone right after it arrives.
                take_within(&*store, &holder, Duration::from_secs(5)).await;
            }
            let guard = poll_and_drop(locks.mutex("k").lock().into_future(), polls).await;
            assert!(!taken || guard.is_none());
            let done = guard.is_some();
            drop(guard);
            // The holder releases while the request is being given up.
            store.release(&holder).await.unwrap();
            take_within(&*store, &holder, Duration::from_secs(5)).await;
            store.release(&holder).await.unwrap();
            if done {
                break;
            }
        }
    }
    locks.close(Duration::from_secs(5)).await.unwrap();
    assert_eq!(holders(&*store, "k").await, []);
}

/// Also from another process, and long before the lease would have ended.
pub async fn a_waiter_is_served_when_the_lock_is_released(target: &Target) {
    let [here, there] = [(); 2].map(|()| locks(target));
    for waits in [&here, &there] {
        let guard = here.mutex("k").lock().await.unwrap();
        let mut request = waits.mutex("k").lock().within(LONG);
        // Polled until it waits: it has received the answer that the key is held.
        for _ in 0..3 {
            let _ = tokio::time::timeout(Duration::from_millis(10), &mut request).await;
        }
        guard.release().await.unwrap();
        let served = tokio::time::timeout(Duration::from_secs(5), &mut request);
        let guard = served.await.expect("served after the release").unwrap();
        guard.release().await.unwrap();
    }
}
