//! The promises that hold between Leasehold and each library.

use std::time::Duration;

use interop::{Answer, now};
use leasehold::{Loss, Owner, ReleaseError, Renewal};
use servers::Flavor;
use tokio::runtime::Handle;

use crate::pair::{LONG, Pair, Promise, SLACK, nanos, took};

/// Longer than each side's rests; whole seconds, for which python-redis-lock blocks.
const PATIENCE: Duration = Duration::from_secs(2);
/// The server counts in milliseconds, and its clock may be adjusted while ours is not.
const ROUNDING: u64 = 2_000_000;

const BOTH: &[Flavor] = &[Flavor::Redis70, Flavor::Valkey91];
const REDIS: &[Flavor] = &[Flavor::Redis70];
const VALKEY: &[Flavor] = &[Flavor::Valkey91];

/// Each promise with its name and its servers: both, unless it takes long.
pub(crate) const ALL: [(&str, &[Flavor], Promise); 7] = named! {
    its_lock_keeps_us_out_until_it_releases: BOTH,
    its_lock_keeps_us_out_until_its_end: REDIS,
    our_lock_keeps_it_out_until_we_release: BOTH,
    our_lock_keeps_it_out_until_its_end: VALKEY,
    a_lock_stolen_from_it_is_safe_from_it: BOTH,
    a_lock_stolen_from_us_is_lost_by_the_next_renewal: VALKEY,
    its_driver_ends_with_the_test_also_while_it_waits: REDIS,
};

pub(crate) fn its_lock_keeps_us_out_until_it_releases(pair: &mut Pair, runtime: &Handle) {
    pair.it_takes(LONG);
    let value = pair.value();
    let held_by = pair.we_are_refused(runtime);
    assert_eq!(held_by.owner, Owner::Foreign { value: value.clone().into() });
    assert!(held_by.remaining.is_some_and(|left| left > LONG / 2 && left <= LONG), "{held_by:?}");
    assert!(held_by.to_string().starts_with("another program's lock ("), "{held_by}");

    let waiting = pair.we_wait(runtime);
    assert_eq!(pair.value(), value, "we touched its lock");
    let called = pair.it_releases();
    let (guard, granted) = runtime.block_on(waiting).unwrap();
    assert!(granted > called, "granted {} ns before it released", called - granted);
    assert!(granted < called + nanos(SLACK), "{} ns after it released", granted - called);
    pair.it_is_refused();
    runtime.block_on(guard.release()).unwrap();
}

pub(crate) fn its_lock_keeps_us_out_until_its_end(pair: &mut Pair, runtime: &Handle) {
    let ttl = nanos(pair.peer.short_ttl());
    let (asked, answered) = pair.it_takes(pair.peer.short_ttl());
    let waiting = pair.we_wait(runtime);
    let (guard, granted) = runtime.block_on(waiting).unwrap();
    assert!(granted + ROUNDING > asked + ttl, "{} ns before its end", asked + ttl - granted);
    assert!(granted < answered + ttl + nanos(SLACK), "{} ns after its end", granted - answered - ttl);

    let ours = pair.value();
    pair.it_releases_too_late();
    assert_eq!(pair.value(), ours, "its release touched our lock");
    runtime.block_on(guard.release()).unwrap();
}

pub(crate) fn our_lock_keeps_it_out_until_we_release(pair: &mut Pair, runtime: &Handle) {
    let guard = runtime.block_on(async { pair.ours().lock().await.unwrap() });
    let ours = pair.value();
    pair.it_is_refused();
    pair.it_waits(PATIENCE);
    assert_eq!(pair.value(), ours, "it touched our lock");
    let called = now();
    runtime.block_on(guard.release()).unwrap();
    let (_, answered) = took(pair.driver.answer());
    assert!(answered > called, "it took the lock {} ns before we released", called - answered);
    assert_ne!(pair.value(), ours);
    assert!(matches!(pair.we_are_refused(runtime).owner, Owner::Foreign { .. }));
    pair.it_releases();
    assert!(runtime.block_on(async { pair.ours().try_lock().await.unwrap() }).is_some(), "it left its lock");
}

pub(crate) fn our_lock_keeps_it_out_until_its_end(pair: &mut Pair, runtime: &Handle) {
    let lease = pair.ours().ttl(Duration::from_secs(1)).renewal(Renewal::Off);
    let guard = runtime.block_on(async { lease.lock().await.unwrap() });
    let believed_until = now() + nanos(guard.remaining());
    pair.it_waits(PATIENCE);
    let (_, answered) = took(pair.driver.answer());
    assert!(answered > believed_until, "{} ns before we stopped believing", believed_until - answered);
    assert!(!guard.is_held());

    let its = pair.value();
    let error = runtime.block_on(guard.release()).unwrap_err();
    assert!(matches!(error, ReleaseError::Expired { .. }), "{error:?}");
    runtime.block_on(pair.locks.close(SLACK)).unwrap();
    assert_eq!(pair.value(), its, "our release touched its lock");
    pair.it_releases();
}

fn a_lock_stolen_from_it_is_safe_from_it(pair: &mut Pair, runtime: &Handle) {
    pair.it_takes(LONG);
    pair.steal();
    let guard = runtime.block_on(async { pair.ours().try_lock().await.unwrap() }).unwrap();
    let ours = pair.value();
    let extended = if pair.peer.extends() { Answer::NotHeld } else { Answer::Unable };
    assert_eq!(pair.driver.extend(LONG), extended);
    pair.it_releases_too_late();
    assert_eq!(pair.value(), ours, "it touched our lock");
    assert!(guard.is_held());
    runtime.block_on(guard.release()).unwrap();
}

fn a_lock_stolen_from_us_is_lost_by_the_next_renewal(pair: &mut Pair, runtime: &Handle) {
    let ttl = Duration::from_millis(1500);
    let guard = runtime.block_on(async { pair.ours().ttl(ttl).lock().await.unwrap() });
    pair.steal();
    pair.it_takes(LONG);
    let its = pair.value();
    let left = guard.remaining();
    let loss = runtime.block_on(async { tokio::time::timeout(left, guard.lost()).await });
    let loss = loss.expect("a loss is told by the next renewal, long before the lease's end");
    let Loss::TakenByOther { held_by, .. } = loss else { panic!("{loss:?}") };
    assert_eq!(held_by.owner, Owner::Foreign { value: its.clone().into() });

    let error = runtime.block_on(guard.release()).unwrap_err();
    assert!(matches!(error, ReleaseError::TakenByOther { .. }), "{error:?}");
    runtime.block_on(pair.locks.close(SLACK)).unwrap();
    assert_eq!(pair.value(), its, "we touched its lock");
    pair.it_releases();
}

/// Otherwise a killed test would leave processes that poll until their patience ends.
fn its_driver_ends_with_the_test_also_while_it_waits(pair: &mut Pair, runtime: &Handle) {
    let guard = runtime.block_on(async { pair.ours().lock().await.unwrap() });
    pair.it_waits(LONG);
    assert!(pair.driver.hang_up(SLACK), "it goes on");
    runtime.block_on(guard.release()).unwrap();
}
