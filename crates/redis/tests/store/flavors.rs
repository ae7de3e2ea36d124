//! Behaviour that is the same on every server and in both protocols.

use std::slice::from_ref;
use std::time::Duration;

use leasehold_core::{GrantAnswer, HoldAnswer, InspectStore as _, MarkStore as _, Owner, Store, Ttl};
use leasehold_redis::RedisStore;
use servers::{Flavor, Server};

use crate::world::{attempt, grant, granted, key, lasting, passing, pttl, store, value};

async fn everything_works(server: &Server, store: &RedisStore) {
    store.open().await.unwrap();
    let [ours, rival] = [attempt(&["b", "a{x}"]), attempt(&["b", "c"])];
    let first = granted(grant(store, &ours).await);
    let value_of_ours = |fence| format!("lh1-{}.{fence} web-3", ours.holder.digits());
    assert_eq!(value(server, "b"), Some(value_of_ours(first)));
    assert_eq!(value(server, "leasehold:c{-}"), Some(first.get().to_string()));
    assert!((9_000..=10_000).contains(&pttl(server, "a{x}")));
    assert!((599_000..=600_000).contains(&pttl(server, "leasehold:c{-}")));

    let busy = grant(store, &rival).await.unwrap();
    let GrantAnswer::Busy { held_by, .. } = busy else { panic!("{busy:?}") };
    assert_eq!((held_by.key, held_by.fence), (key("b"), Some(first)));
    assert_eq!(held_by.owner, Owner::Holder { holder: ours.holder, label: ours.label.clone() });
    assert!(
        held_by
            .remaining
            .is_some_and(|left| left > Duration::from_secs(9) && left <= Duration::from_secs(10))
    );
    assert_eq!(value(server, "c"), None);

    let again = granted(grant(store, &ours).await);
    assert!(again > first);
    let longer = ours.with_ttl(Ttl::new(Duration::from_secs(400)).unwrap());
    let answers = store.renew(&[longer.clone(), rival.clone(), ours.clone()]).await;
    assert_eq!(answers[0], Ok(HoldAnswer::Done));
    let Ok(HoldAnswer::NotHeld { key: lost, held_by: Some(by) }) = &answers[1] else { panic!("{answers:?}") };
    assert_eq!((lost, by.fence), (&key("b"), Some(again)));
    assert_eq!(answers[2], Ok(HoldAnswer::Done));
    assert!(pttl(server, "b") > 390_000, "a shorter renewal does not shorten");
    assert!(pttl(server, "leasehold:c{-}") > 790_000);

    let seen = store.inspect(&key("b")).await.unwrap();
    assert_eq!((seen.holders.len(), seen.holders[0].fence), (1, Some(again)));

    assert!(matches!(store.release(&rival).await, Ok(HoldAnswer::NotHeld { .. })));
    assert_eq!(value(server, "b"), Some(value_of_ours(again)));
    assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
    assert_eq!((value(server, "b"), value(server, "a{x}")), (None, None));
    assert_eq!(store.inspect(&key("b")).await.unwrap().holders, []);
    assert_eq!(store.release(&ours).await, Ok(HoldAnswer::NotHeld { key: key("a{x}"), held_by: None }));
    assert!(granted(grant(store, &rival).await) > again);
    store.give_up(&rival).await.unwrap();
    assert_eq!((value(server, "b"), value(server, "c")), (None, None));
}

/// Locks of other programs, and values that are not locks.
async fn strangers_are_left_alone(server: &Server, store: &RedisStore) {
    server.text(&["SET", "s", "theirs", "PX", "60000"]);
    server.text(&["SET", "forever", "theirs"]);
    server.text(&["RPUSH", "list", "1"]);
    let busy = grant(store, &attempt(&["s"])).await.unwrap();
    let GrantAnswer::Busy { held_by, .. } = busy else { panic!("{busy:?}") };
    assert_eq!((held_by.owner, held_by.fence), (Owner::Foreign { value: b"theirs"[..].into() }, None));
    let busy = grant(store, &attempt(&["forever"])).await.unwrap();
    assert!(matches!(busy, GrantAnswer::Busy { held_by, .. } if held_by.remaining.is_none()));

    let both = attempt(&["free", "list"]);
    assert_eq!(grant(store, &both).await, Ok(GrantAnswer::NotALock { key: key("list") }));
    assert_eq!(value(server, "free"), None);
    let attempt_on_list = attempt(&["list"]);
    for answer in
        [store.renew(from_ref(&attempt_on_list)).await.remove(0), store.release(&attempt_on_list).await]
    {
        let Ok(HoldAnswer::NotHeld { held_by: Some(by), .. }) = answer else { panic!("{answer:?}") };
        assert_eq!((by.owner, by.remaining), (Owner::NotALock, None));
    }
    assert_eq!(store.inspect(&key("list")).await.unwrap().holders[0].owner, Owner::NotALock);
    assert_eq!(server.text(&["LLEN", "list"]).as_integer(), Some(1));

    server.text(&["SET", "leasehold:c{-}", "9007199254740991", "PX", "60000"]);
    assert_eq!(grant(store, &attempt(&["a", "b"])).await, Ok(GrantAnswer::FencesSpent { key: key("a") }));
    for spoil in [["SET", "leasehold:c{-}", "1e9"], ["SET", "leasehold:c{-}", ""]] {
        server.text(&spoil);
        lasting(grant(store, &attempt(&["a"])).await, &["leasehold:c{-}", "not a fence"]);
    }
    server.text(&["DEL", "leasehold:c{-}"]);
    server.text(&["RPUSH", "leasehold:c{-}", "1"]);
    lasting(grant(store, &attempt(&["a", "b"])).await, &["leasehold:c{-}", "not a fence"]);
    assert_eq!(value(server, "a"), None);

    server.text(&["SET", "leasehold:m{a}a", "yesterday"]);
    lasting(store.marked(&key("a")).await, &["leasehold:m{a}a", "not a mark"]);
    server.text(&["DEL", "leasehold:m{a}a"]);
    server.text(&["RPUSH", "leasehold:m{a}a", "1"]);
    lasting(store.marked(&key("a")).await, &["leasehold:m{a}a", "not a mark"]);
    server.text(&["FLUSHALL"]);
}

/// A value with flags of a later version is a lease, and is marked without losing them.
async fn reserved_flags_are_ours(server: &Server, store: &RedisStore) {
    let ours = attempt(&["k"]);
    let value_of = |flag, fence| Some(format!("lh1{flag}{}.{fence} web-3", ours.holder.digits()));
    server.text(&["SET", "k", &format!("lh1+{} web-3", ours.holder.digits()), "PX", "60000"]);
    assert!(matches!(grant(store, &attempt(&["k"])).await, Ok(GrantAnswer::Busy { .. })));
    let fence = granted(grant(store, &ours).await);
    assert_eq!(value(server, "k"), value_of('+', fence));
    assert_eq!(store.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
    assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
    server.text(&["SET", "k", &format!("lh1?{}", ours.holder.digits()), "PX", "60000"]);
    let fence = granted(grant(store, &ours).await);
    assert_eq!(value(server, "k"), value_of('-', fence));
    store.give_up(&ours).await.unwrap();
}

async fn forgotten_scripts_are_sent_again(server: &Server, store: &RedisStore) {
    let attempts = ["a", "b", "c"].map(|name| attempt(&[name]));
    for attempt in &attempts {
        server.text(&["SCRIPT", "FLUSH"]);
        granted(grant(store, attempt).await);
    }
    server.text(&["SCRIPT", "FLUSH"]);
    assert_eq!(store.renew(&attempts).await, [const { Ok(HoldAnswer::Done) }; 3]);
    server.text(&["SCRIPT", "FLUSH"]);
    assert_eq!(store.inspect(&key("a")).await.unwrap().holders.len(), 1);
    server.text(&["SCRIPT", "FLUSH"]);
    for attempt in &attempts {
        assert_eq!(store.release(attempt).await, Ok(HoldAnswer::Done));
    }
}

async fn a_full_server_refuses_grants_and_serves_the_rest(server: &Server, store: &RedisStore) {
    let [ours, other] = [attempt(&["k"]), attempt(&["other"])];
    granted(grant(store, &ours).await);
    server.text(&["CONFIG", "SET", "maxmemory", "1"]);
    lasting(grant(store, &other).await, &["maxmemory"]);
    assert_eq!(store.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
    assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
    server.text(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!((value(server, "k"), value(server, "other")), (None, None));
}

async fn a_replica_refuses_in_passing(server: &Server, store: &RedisStore) {
    let ours = attempt(&["k"]);
    granted(grant(store, &ours).await);
    server.text(&["REPLICAOF", "127.0.0.1", "1"]);
    passing(grant(store, &attempt(&["free"])).await, &["replica"]);
    passing(store.renew(&[ours.with_ttl(Ttl::DEFAULT)]).await.remove(0), &["replica"]);
    passing(store.release(&ours).await, &["replica"]);
    server.text(&["REPLICAOF", "NO", "ONE"]);
    store.give_up(&ours).await.unwrap();
}

async fn on(flavor: Flavor) {
    let server = Server::setup(flavor).unix_socket().start();
    let socket = server.unix_path();
    let urls = [
        server.url(),
        format!("{}/3?protocol=resp2", server.url()),
        format!("{}?protocol=resp3", server.url()),
        format!("redis+unix://{}?protocol=resp2", socket.display()),
        format!("redis+unix://{}", socket.display()),
    ];
    for url in urls {
        let store = store(&url);
        if url.contains("/3?") {
            // Another database, which the test's own connection does not use.
            let ours = attempt(&["k"]);
            granted(grant(&store, &ours).await);
            assert_eq!(value(&server, "k"), None);
            store.give_up(&ours).await.unwrap();
            continue;
        }
        everything_works(&server, &store).await;
        strangers_are_left_alone(&server, &store).await;
        reserved_flags_are_ours(&server, &store).await;
        forgotten_scripts_are_sent_again(&server, &store).await;
        a_full_server_refuses_grants_and_serves_the_rest(&server, &store).await;
        a_replica_refuses_in_passing(&server, &store).await;
    }
}

#[tokio::test]
async fn redis_6_2_serves() {
    on(Flavor::Redis62).await;
}

#[tokio::test]
async fn redis_7_0_serves() {
    on(Flavor::Redis70).await;
}

#[tokio::test]
async fn redis_8_2_serves() {
    on(Flavor::Redis82).await;
}

#[tokio::test]
async fn valkey_9_1_serves() {
    on(Flavor::Valkey91).await;
}
