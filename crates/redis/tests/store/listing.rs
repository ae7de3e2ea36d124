//! Listing the locks of a server, and scanning it repeatedly, with few commands.

use std::time::{Duration, Instant};

use leasehold_core::{AdminStore as _, InspectStore, Key, KeyState, MarkStore as _, ScanPosition, Store};
use leasehold_redis::slot::{Side, side_key, slot_of};
use servers::{Cluster, Flavor, Reply, Server};

use crate::login::MINIMAL;
use crate::world::{
    as_user, attempt, breaking, cluster_store, grant, granted, key, lasting, mark_of, passing, started, store,
};

fn named(states: &[KeyState]) -> Vec<String> {
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

/// `KEYS` would block the server for its whole duration; a part of a scan only for a thousand keys.
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

/// The keys in use that a scan finds, and the number of commands.
async fn scanned(store: &impl InspectStore, prefix: &[u8]) -> (Vec<Key>, u32) {
    let (mut keys, mut commands, mut next) = (Vec::new(), 0, Some(ScanPosition::default()));
    while let Some(from) = next {
        let page = store.scan(prefix, from).await.unwrap();
        keys.extend(page.keys);
        commands += page.commands;
        next = page.next;
    }
    keys.sort();
    keys.dedup();
    (keys, commands)
}

/// Nothing shows by its name that it is a lock, so each string is looked at.
#[tokio::test]
async fn other_programs_strings_cost_a_thousandth_of_a_command_each_and_are_not_shown() {
    let (server, store) = started(Flavor::Valkey91);
    for n in 0..3000 {
        server.text(&["SET", &format!("theirs:{n}"), "lh"]);
    }
    granted(grant(&store, &attempt(&["held"])).await);
    let (keys, commands) = scanned(&store, b"").await;
    assert_eq!(keys, [key("held")]);
    assert!((2..=6).contains(&commands), "{commands} commands");
}

/// Regression: the error only said what to allow the user, as for a lock.
#[tokio::test]
async fn a_user_of_a_prefix_who_lists_or_watches_all_keys_is_told_to_name_it() {
    for flavor in [Flavor::Redis62, Flavor::Valkey91] {
        let server = Server::setup(flavor).acl_user("lock", &format!("{MINIMAL} +scan")).start();
        server.text(&["SET", "theirs", "x"]);
        let store = store(&as_user(&server, "lock"));
        granted(grant(&store, &attempt(&["app:held"])).await);
        let words =
            ["user lock may not use a key: name a prefix whose keys it may use, or allow it both ~PREFIX*"];
        lasting(store.list(b"").await, &words);
        lasting(store.scan(b"", ScanPosition::default()).await, &words);
        server.text(&["SET", "leasehold:m{x}theirs", "x"]);
        lasting(store.list_marks(b"").await, &words);
        assert_eq!(scanned(&store, b"app:").await.0, [key("app:held")]);
        assert_eq!(store.list(b"app:").await.unwrap().len(), 1);
    }
}

/// Regression: each of them counted as a command, and a watch made a pause for each. So with some
/// thousand strings of another program it showed no lock for minutes.
#[tokio::test]
async fn a_thousand_strings_on_a_cluster_cost_one_command() {
    let cluster = Cluster::start(Flavor::Valkey91, 3, 0);
    let store = cluster_store(&cluster.url());
    for n in 0..3000 {
        let name = format!("theirs:{n}");
        cluster.owner(slot_of(name.as_bytes())).text(&["SET", &name, "x"]);
    }
    granted(grant(&store, &attempt(&["held"])).await);
    let (keys, commands) = scanned(&store, b"").await;
    assert_eq!(keys, [key("held")]);
    // A scan of each master, and one or two times a thousand reads there.
    assert!((6..=9).contains(&commands), "{commands} commands");
}

#[tokio::test]
async fn many_keys_are_inspected_by_one_command() {
    let (server, store) = started(Flavor::Redis62);
    let names: Vec<_> = (0..100).map(|n| format!("k:{n:02}")).collect();
    let held: Vec<_> = names[..98].iter().map(String::as_str).collect();
    granted(grant(&store, &attempt(&held)).await);
    let keys: Vec<_> = names.iter().map(|name| key(name)).collect();
    store.inspect_all(&keys[..1]).await.unwrap();
    server.text(&["CONFIG", "RESETSTAT"]);
    let states = store.inspect_all(&keys).await.unwrap();
    assert_eq!(server.calls("evalsha"), 1);
    let is_held: Vec<_> = states.iter().map(|state| state.holders.len()).collect();
    assert_eq!(is_held, [vec![1; 98], vec![0; 2]].concat());
}
