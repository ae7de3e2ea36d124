//! Scanning a server repeatedly, with few commands.

use leasehold_core::{InspectStore, Key, MarkStore as _, ScanPosition};
use leasehold_redis::slot::slot_of;
use servers::{Cluster, Flavor, Server};

use crate::login::MINIMAL;
use crate::world::{as_user, attempt, cluster_store, grant, granted, key, lasting, started, store};

/// The keys in use that a scan finds, and the number of commands.
pub(crate) async fn scanned(store: &impl InspectStore, prefix: &[u8]) -> (Vec<Key>, u32) {
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
