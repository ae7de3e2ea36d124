//! Releasing by the value alone, by the command that some servers have for it or a script of one key, and by the whole script where
//! that is not enough.

use std::time::Duration;

use leasehold_core::{
    Attempt, BreakAnswer, Claim, Fence, GrantAnswer, HoldAnswer, Manner, Proposal, Store, Tenant, Ttl,
};
use leasehold_redis::script::{DELETE_IF_EQUAL, RELEASE, Script};
use leasehold_redis::slot::slot_of;
use leasehold_redis::{ClusterStore, RedisStore};
use servers::{Cluster, Flavor, Reply, Server};
use tokio::task::JoinHandle;

use crate::login::MINIMAL;
use crate::queue::{let_go, lock, stand_in_line};
use crate::world::{attempt, grant, granted, key, runtime, store, value};

/// Servers that have the command, and those that have not.
const WITH: [Flavor; 1] = [Flavor::Valkey91];
const WITHOUT: [Flavor; 3] = [Flavor::Redis62, Flavor::Redis70, Flavor::Redis82];

const PATIENCE: Duration = Duration::from_secs(10);

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

/// Two attempts at `k`: who has it here, and who waits for it there.
async fn held_and_awaited(
    server: &Server,
    here: &RedisStore,
    there: &RedisStore,
) -> ([Attempt; 2], JoinHandle<()>) {
    let [first, second] = [(); 2].map(|()| attempt(&["k"]));
    granted(grant(here, &first).await);
    let waiting = {
        let (there, second) = (there.clone(), second.clone());
        tokio::spawn(async move {
            lock(&there, &second).await;
        })
    };
    stand_in_line(server, &[&second]).await;
    ([first, second], waiting)
}

/// Whether a server has ever been told a script.
fn knows(server: &Server, script: &Script) -> bool {
    server.text(&["SCRIPT", "EXISTS", script.sha()]) == Reply::Array(Some(vec![Reply::Integer(1)]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn elsewhere_a_script_of_one_key_does_what_the_command_would() {
    for flavor in WITHOUT {
        let server = Server::start(flavor);
        let [here, there] = [(); 2].map(|()| store(&server.url()));
        for _ in 0..2 {
            let ours = attempt(&["k"]);
            granted(grant(&here, &ours).await);
            assert_eq!(here.release(&ours).await, Ok(HoldAnswer::Done), "{flavor}");
            assert_eq!(value(&server, "k"), None);
        }
        assert!(knows(&server, &DELETE_IF_EQUAL) && !knows(&server, &RELEASE), "{flavor}");
        let ([first, second], waiting) = held_and_awaited(&server, &here, &there).await;
        assert_eq!(here.release(&first).await, Ok(HoldAnswer::Done));
        waiting.await.unwrap();
        assert!(knows(&server, &RELEASE), "{flavor}");
        let_go(&there, &second).await;
        assert_eq!(value(&server, "k"), None);
    }
}

/// A member that refused is asked to release as well, and would only miss: who noticed that does not try.
#[tokio::test]
async fn a_member_of_a_quorum_deletes_what_it_granted_and_asks_the_script_about_what_it_refused() {
    for flavor in WITH {
        let server = Server::start(flavor);
        let store = store(&format!("{}?quarantine=no", server.url()));
        let member = |attempt: Attempt| {
            let max_ttl = Ttl::new(Duration::from_secs(60)).unwrap();
            let holder = attempt.holder;
            attempt.at_member(holder, Proposal { fence: Fence::new(7).unwrap(), max_ttl })
        };
        for has in ["k", "l"] {
            let [ours, rival] = [(); 2].map(|()| member(attempt(&[has])));
            let [natively, _] = calls(&server);
            granted(grant(&store, &ours).await);
            store.give_up(&ours).await.unwrap();
            assert_eq!((calls(&server)[0] - natively, value(&server, has)), (1, None));

            granted(grant(&store, &ours).await);
            assert!(matches!(grant(&store, &rival).await, Ok(GrantAnswer::Busy { .. })));
            let [natively, by_script] = calls(&server);
            store.give_up(&rival).await.unwrap();
            assert_eq!([calls(&server)[0] - natively, calls(&server)[1] - by_script], [0, 1]);
            assert!(value(&server, has).unwrap().contains(&ours.holder.digits()));
            store.give_up(&ours).await.unwrap();
            assert_eq!(value(&server, has), None);
        }
    }
}

/// A value that is marked is not what the grant wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_somebody_waits_for_is_handed_on_and_the_next_release_does_not_try_in_vain() {
    for flavor in WITH {
        let server = Server::start(flavor);
        let [here, there] = [(); 2].map(|()| store(&server.url()));
        for in_vain in [1, 0] {
            let ([first, second], waiting) = held_and_awaited(&server, &here, &there).await;
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
        // A store that knows nothing of the miss before tries the command again.
        let answer = crate::world::store(&server.url()).release(&ours).await;
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

fn reader(name: &str) -> Attempt {
    let like = attempt(&[name]);
    Attempt::new(Claim::shared([key(name)]).unwrap(), like.holder, like.label, like.ttl)
}

/// What stands at a key that several hold is nobody's own, and readers mark the writer's value as writers do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_in_line_are_handed_what_a_writer_lets_go_and_readers_let_go_by_the_script() {
    for flavor in WITH {
        let server = Server::start(flavor);
        let [here, there] = [(); 2].map(|()| store(&server.url()));
        let writer = attempt(&["k"]);
        let readers = [(); 2].map(|()| reader("k"));
        granted(grant(&here, &writer).await);
        let waiting = readers.clone().map(|reader| {
            let there = there.clone();
            tokio::spawn(async move { lock(&there, &reader).await })
        });
        crate::queue::until("both wait", PATIENCE, || there.waiting() == 2).await;
        assert_eq!(here.release(&writer).await, Ok(HoldAnswer::Done));
        for reader in waiting {
            reader.await.unwrap();
        }
        assert_eq!(calls(&server)[0], 1, "in vain");
        for reader in &readers {
            let_go(&there, reader).await;
        }
        let alone = reader("l");
        granted(grant(&here, &alone).await);
        assert_eq!(here.release(&alone).await, Ok(HoldAnswer::Done));
        assert_eq!((calls(&server)[0], value(&server, "k"), value(&server, "l")), (1, None, None));
    }
}

#[tokio::test]
async fn a_lock_that_was_broken_is_not_released_again() {
    for flavor in WITH {
        let server = Server::start(flavor);
        let [here, there] = [(); 2].map(|()| store(&server.url()));
        let [ours, next] = [(); 2].map(|()| attempt(&["k"]));
        let fence = granted(grant(&here, &ours).await);
        let broken = there.break_lease(&key("k"), fence).await;
        assert!(matches!(broken, Ok(BreakAnswer::Broken { .. })), "{broken:?}");
        granted(grant(&there, &next).await);
        let answer = here.release(&ours).await;
        assert!(matches!(answer, Ok(HoldAnswer::NotHeld { held_by: Some(_), .. })), "{answer:?}");
        assert!(value(&server, "k").unwrap().contains(&next.holder.digits()));
    }
}

/// The key may lie at one node while its line lies at the other; its value says the same at both.
#[tokio::test]
async fn in_a_cluster_the_owner_deletes_what_it_has_and_the_script_follows_a_slot() {
    for flavor in WITH {
        let cluster = Cluster::start(flavor, 3, 0);
        let store = ClusterStore::from_url(&cluster.url(), runtime()).unwrap();
        let natively = || cluster.nodes().iter().map(|node| calls(node)[0]).sum::<u64>();
        let (slot, ours) = (slot_of(b"k"), [(); 4].map(|()| attempt(&["k"])));
        let (from, to) = (cluster.owner(slot), cluster.other(slot));
        let left = || -> usize {
            let keys = cluster.nodes().iter().map(|node| node.text(&["KEYS", "k"]));
            keys.map(|found| if let Reply::Array(Some(found)) = found { found.len() } else { 1 }).sum()
        };
        granted(store.grant(&ours[0], Manner::Try).await);
        assert_eq!(store.release(&ours[0]).await, Ok(HoldAnswer::Done));
        assert_eq!((natively(), left()), (1, 0));
        // On its way, and still here.
        granted(store.grant(&ours[1], Manner::Try).await);
        cluster.begin(slot, from, to);
        assert_eq!(store.release(&ours[1]).await, Ok(HoldAnswer::Done));
        assert_eq!((natively(), left()), (2, 0));
        while cluster.carry(slot, from, to) > 0 {}
        cluster.end(slot, from, to);
        // Gone, and this store does not know.
        granted(store.grant(&ours[2], Manner::Try).await);
        cluster.hand_over(slot, from);
        assert_eq!(store.release(&ours[2]).await, Ok(HoldAnswer::Done));
        assert_eq!((natively(), left()), (2, 0));
        granted(store.grant(&ours[3], Manner::Try).await);
        store.give_up(&ours[3]).await.unwrap();
        assert_eq!((natively(), left()), (3, 0));
    }
}
