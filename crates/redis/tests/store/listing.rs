//! Listing the locks of a server.

use std::time::{Duration, Instant};

use leasehold_core::{AdminStore as _, InspectStore as _, MarkStore as _, ScanPosition, Store};
use leasehold_redis::slot::{Side, side_key};
use servers::{Flavor, Reply, Server};

use crate::login::MINIMAL;
use crate::watching::scanned;
use crate::world::{
    as_user, attempt, breaking, grant, granted, key, lasting, mark_of, passing, started, store,
};

fn named(states: &[leasehold_core::KeyState]) -> Vec<String> {
    states.iter().map(|state| state.key.to_string()).collect()
}

#[tokio::test]
async fn a_user_needs_one_permission_more_and_it_is_named_if_it_lacks() {
    assert!(include_str!("../../../../docs/wire.md").contains("to list or watch locks, also `+scan`"));
    for flavor in Flavor::ALL {
        let server = Server::setup(flavor)
            .acl_user("lists", &format!("{MINIMAL} +scan"))
            .acl_user("no-scan", MINIMAL)
            .start();
        let user = |name: &str| store(&as_user(&server, name));
        granted(grant(&user("lists"), &attempt(&["app:b", "app:a"])).await);
        server.text(&["SET", "app:theirs", "x"]);
        server.text(&["SET", "else:theirs", "x"]);
        assert_eq!(named(&user("lists").list(b"app:").await.unwrap()), ["app:a", "app:b"]);
        let all = ["app:a", "app:b"].map(key);
        assert_eq!(scanned(&user("lists"), b"app:").await.0, all);
        let states = user("lists").inspect_all(&all).await.unwrap();
        assert!(states.iter().all(|state| state.holders.len() == 1), "{states:?}");
        lasting(user("no-scan").list(b"app:").await, &["no-scan", "+scan"]);
        lasting(user("no-scan").scan(b"app:", ScanPosition::default()).await, &["no-scan", "+scan"]);
        // The scan shows its name, but not whether it is a lock.
        lasting(user("lists").list(b"").await, &["lists"]);
    }
}

#[tokio::test]
async fn a_server_that_falls_silent_on_the_way_is_a_passing_fault_soon() {
    let (server, store) = started(Flavor::Valkey91);
    store.open().await.unwrap();
    server.stop();
    let begun = Instant::now();
    passing(store.list(b"").await, &["no answer within"]);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    server.cont();
    assert_eq!(store.list(b"").await.unwrap(), []);
}

/// `KEYS` would block the server for its whole duration; a part of a scan blocks it only for a
/// thousand keys.
#[tokio::test]
async fn a_large_server_is_walked_in_parts_and_others_are_served_in_between() {
    let server = Server::start(Flavor::Redis82);
    let fill = "for n = 1, 100000 do redis.call('SET', 'theirs:' .. n, n) end";
    assert_eq!(server.text(&["EVAL", fill, "0"]), Reply::Bulk(None));
    server.text(&["CONFIG", "RESETSTAT"]);
    let store = store(&server.url());
    granted(grant(&store, &attempt(&["ours"])).await);
    assert_eq!(named(&store.list(b"").await.unwrap()), ["ours"]);
    assert_eq!(server.calls("keys"), 0);
    let scans = server.calls("scan");
    assert!((150..=400).contains(&scans), "{scans} calls for two scans past 100,000 keys");
}

#[tokio::test]
async fn marks_and_breaks_are_listed_although_something_else_is_in_the_place_of_one() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let (server, store) = started(flavor);
        for side in [Side::Mark, Side::Break] {
            server.command(&[b"RPUSH", &side_key(side, &key("other")), b"x"]);
        }
        let ours = attempt(&["k"]);
        let fence = granted(grant(&store, &ours).await);
        store.mark(&ours, &mark_of(fence), Duration::from_secs(60)).await.unwrap();
        store.break_lease(&key("k"), &breaking(fence)).await.unwrap();
        let marks = store.list_marks(b"").await.unwrap();
        assert!(marks.len() == 1 && marks[0].0 == key("k"), "{flavor}: {marks:?}");
        let breaks = store.list_breaks(b"").await.unwrap();
        assert!(breaks.len() == 1 && breaks[0].key == key("k"), "{flavor}: {breaks:?}");
    }
}
