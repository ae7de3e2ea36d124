//! Misuse that is refused before anything is sent, and the texts of other errors.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{AnyStore, ConnectError, Drift, LockError, Locks, Misuse, RenewError, Store, TransferError};

use super::world::{MAX_TTL, SECOND, TTL, World, process_of};

fn misuse(locks: Result<Locks, ConnectError>) -> Misuse {
    match locks {
        Err(ConnectError::Misuse(misuse)) => misuse,
        other => panic!("{other:?}"),
    }
}

fn members(world: &World) -> Vec<AnyStore> {
    world.members.iter().map(|member| AnyStore::from(member.clone() as Arc<dyn Store>)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_quorum_of_nothing_or_of_one_store_twice_is_a_misuse() {
    let world = World::of(2);
    assert_eq!(misuse(Locks::quorum(Vec::<AnyStore>::new(), MAX_TTL)), Misuse::NoMembers);
    let [one, other]: [AnyStore; 2] = members(&world).try_into().unwrap();
    let twice = Locks::quorum([one.clone(), other, one], MAX_TTL);
    assert_eq!(misuse(twice), Misuse::SameMemberTwice { name: "memory:a".into() });
    assert!(matches!(AnyStore::from_url("http://x:secret@y"), Err(Misuse::Url { .. })));
    let url = AnyStore::from_url("redis://:secret@127.0.0.1:1").unwrap();
    assert!(!format!("{url:?}").contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn a_longer_ttl_than_the_longest_is_refused_with_both_named() {
    let (world, process) = process_of(3);
    let asked = MAX_TTL + Duration::from_millis(1);
    let longer =
        Misuse::TtlOverLongest { asked: asked.try_into().unwrap(), longest: MAX_TTL.try_into().unwrap() };
    let error = process.locks.mutex("k").ttl(asked).lock().await.unwrap_err();
    assert_eq!(error, LockError::Misuse(longer.clone()));
    assert!(error.to_string().contains("10.001s") && error.to_string().contains("10s"), "{error}");
    assert_eq!(process.calls(), 0);
    let guard = process.locks.mutex("k").lock().await.unwrap();
    assert_eq!(guard.renew(asked).await, Err(RenewError::Misuse(longer.clone())));
    let token = guard.transfer(TTL).await.unwrap();
    let before = process.calls();
    let refused = process.locks.renew_transfer(&token, asked).await;
    assert_eq!((refused, process.calls()), (Err(TransferError::Misuse(longer.clone())), before));
    let guard = process.locks.adopt(&token).await.unwrap();
    assert_eq!(guard.transfer(asked).await, Err(TransferError::Misuse(longer)));

    let default = Locks::builder().runtime(world.time.clone()).quorum(members(&world), MAX_TTL);
    assert!(matches!(misuse(default), Misuse::TtlOverLongest { .. }), "30 s");
    let short = Locks::builder().ttl(SECOND).quorum(members(&world), SECOND);
    assert_eq!(misuse(short), Misuse::MaxTtlTooShort { asked: SECOND });
}

#[tokio::test(start_paused = true)]
async fn an_even_number_of_stores_is_warned_about() {
    for (count, warned) in [(1, false), (2, true), (3, false), (4, true)] {
        let world = World::of(count);
        let warnings = world.process().locks.warnings();
        assert_eq!(warnings.len(), usize::from(warned), "{warnings:?}");
    }
    let world = World::of(4);
    assert_eq!(
        world.process().locks.warnings(),
        ["4 stores survive the loss of 1, as 3 would: use an odd number"]
    );
}

/// node-redlock: drift, a share of the TTL and 2 ms, which each side may set.
#[tokio::test(start_paused = true)]
async fn a_lease_is_valid_for_its_ttl_less_the_widest_drift_or_the_configured_one() {
    let world = World::of(3);
    let guard = world.process().locks.mutex("k").lock().await.unwrap();
    assert_eq!(guard.remaining(), TTL - Duration::from_micros(1), "the drift of a store in memory");
    drop(guard);
    let drift = Drift::new(10, SECOND / 100).unwrap();
    let process = world.process_with(|builder| builder.drift(drift));
    let guard = process.locks.mutex("other").lock().await.unwrap();
    assert_eq!(guard.remaining(), TTL - TTL / 100 - SECOND / 100);
}
