//! Releasing by the command that some servers have for it, and by the script where that is not enough.

use leasehold_core::{GrantAnswer, HoldAnswer, Manner, Store, Tenant};
use servers::{Flavor, Server};

use crate::login::MINIMAL;
use crate::queue::{let_go, lock, stand_in_line};
use crate::world::{attempt, grant, granted, key, store, value};

/// Servers that have the command, and those that have not.
const WITH: [Flavor; 1] = [Flavor::Valkey91];
const WITHOUT: [Flavor; 3] = [Flavor::Redis62, Flavor::Redis70, Flavor::Redis82];

/// A field of what the server counts of a command; 0 where it never saw the command.
fn counted(server: &Server, command: &str, field: &str) -> u64 {
    let info = server.text(&["INFO", "commandstats"]);
    let line = format!("cmdstat_{command}:");
    let fields = info.as_text().unwrap().lines().find_map(|text| text.trim().strip_prefix(&*line));
    let fields = fields.into_iter().flat_map(|fields| fields.split(','));
    let value = fields.filter_map(|text| text.split_once('=')).find(|(name, _)| *name == field);
    value.map_or(0, |(_, value)| value.parse().unwrap())
}

fn calls(server: &Server) -> [u64; 2] {
    [counted(server, "delifeq", "calls"), counted(server, "evalsha", "calls")]
}

#[tokio::test]
async fn a_lock_that_nobody_waits_for_is_released_by_the_servers_own_command() {
    for flavor in WITH {
        let server = Server::start(flavor);
        for protocol in ["resp2", "resp3"] {
            let store = store(&format!("{}?protocol={protocol}", server.url()));
            store.open().await.unwrap();
            let [natively, by_script] = calls(&server);
            for _ in 0..3 {
                let ours = attempt(&["k"]);
                granted(store.grant(&ours, Manner::Wait { line_limit: None }).await);
                assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
                assert_eq!(value(&server, "k"), None);
                granted(grant(&store, &ours).await);
                store.give_up(&ours).await.unwrap();
                assert_eq!(value(&server, "k"), None);
            }
            // One more for the first grant, which the server did not know.
            let [natively, by_script] = [calls(&server)[0] - natively, calls(&server)[1] - by_script];
            assert!(natively == 6 && (6..=7).contains(&by_script), "{protocol}: {natively} {by_script}");
        }
    }
}

#[tokio::test]
async fn elsewhere_the_script_releases() {
    for flavor in WITHOUT {
        let server = Server::start(flavor);
        let store = store(&server.url());
        let ours = attempt(&["k"]);
        granted(grant(&store, &ours).await);
        let [_, by_script] = calls(&server);
        assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done), "{flavor}");
        let [natively, now] = calls(&server);
        assert!(natively == 0 && now > by_script, "{flavor}");
        assert_eq!(value(&server, "k"), None);
    }
}

/// A value that is marked is not what the grant wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_somebody_waits_for_is_handed_on_and_the_next_release_does_not_try_in_vain() {
    for flavor in WITH {
        let server = Server::start(flavor);
        let [here, there] = [(); 2].map(|()| store(&server.url()));
        for in_vain in [1, 0] {
            let [first, second] = [(); 2].map(|()| attempt(&["k"]));
            granted(grant(&here, &first).await);
            let waiting = {
                let (there, second) = (there.clone(), second.clone());
                tokio::spawn(async move { lock(&there, &second).await })
            };
            stand_in_line(&server, &[&second]).await;
            let [natively, _] = calls(&server);
            assert_eq!(here.release(&first).await, Ok(HoldAnswer::Done));
            waiting.await.unwrap();
            assert_eq!(calls(&server)[0] - natively, in_vain);
            let [natively, _] = calls(&server);
            let_go(&there, &second).await;
            assert_eq!(calls(&server)[0], natively, "who waited asks the script");
            assert_eq!(value(&server, "k"), None);
        }
    }
}

#[tokio::test]
async fn who_holds_it_instead_is_said_by_the_script() {
    for flavor in WITH {
        let server = Server::start(flavor);
        let store = store(&server.url());
        let [ours, rival] = [(); 2].map(|()| attempt(&["k"]));
        granted(grant(&store, &ours).await);
        server.text(&["DEL", "k"]);
        assert_eq!(store.release(&ours).await, Ok(HoldAnswer::NotHeld { key: key("k"), held_by: None }));
        let fence = granted(grant(&store, &rival).await);
        let answer = store.release(&ours).await;
        let Ok(HoldAnswer::NotHeld { held_by: Some(by), .. }) = answer else { panic!("{answer:?}") };
        assert_eq!(by.tenant, Tenant::Holder { holder: rival.holder, label: rival.label.clone() });
        assert_eq!(by.fence, Some(fence));
        server.text(&["DEL", "k"]);
        server.text(&["RPUSH", "k", "1"]);
        let answer = store.release(&ours).await;
        assert!(
            matches!(&answer, Ok(HoldAnswer::NotHeld { held_by: Some(by), .. }) if by.tenant == Tenant::NotALock),
            "{answer:?}"
        );
    }
}

/// A server may log each command that it denies.
#[tokio::test]
async fn a_user_without_the_command_releases_by_the_script_and_tries_once() {
    for flavor in WITH {
        let server = Server::setup(flavor)
            .acl_user("lock", MINIMAL)
            .acl_user("native", &format!("{MINIMAL} +delifeq"))
            .start();
        for (user, denied, natively) in [("lock", 1, 0), ("native", 0, 3)] {
            let store = store(&format!("redis://{user}:secret@127.0.0.1:{}", server.port()));
            store.open().await.unwrap();
            let before = ["rejected_calls", "calls"].map(|field| counted(&server, "delifeq", field));
            for _ in 0..3 {
                let ours = attempt(&["app:k"]);
                granted(grant(&store, &ours).await);
                assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
                assert_eq!(value(&server, "app:k"), None);
            }
            let after = ["rejected_calls", "calls"].map(|field| counted(&server, "delifeq", field));
            assert_eq!([after[0] - before[0], after[1] - before[1]], [denied, natively], "{user}");
        }
    }
}

/// The script knows all keys of a claim, and looks at all of them before it writes.
#[tokio::test]
async fn several_keys_are_released_by_the_script() {
    for flavor in WITH {
        let server = Server::start(flavor);
        let store = store(&server.url());
        let ours = attempt(&["k", "l"]);
        granted(grant(&store, &ours).await);
        assert!(matches!(grant(&store, &attempt(&["l"])).await, Ok(GrantAnswer::Busy { .. })));
        assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
        assert_eq!((calls(&server)[0], value(&server, "k"), value(&server, "l")), (0, None, None));
    }
}
