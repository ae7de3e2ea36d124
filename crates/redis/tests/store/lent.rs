//! Locks over an existing connection of the program.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leasehold_core::{HoldAnswer, InspectStore as _, Store, WaitQueue};
use leasehold_redis::RedisStore;
use redis::AsyncConnectionConfig;
use servers::{Flavor, Server};

use crate::queue::{hand_over, let_go, until_answered, until_queued, wait, waits};
use crate::replicas::pair;
use crate::world::{self, attempt, behind_a_proxy, connect, grant, granted, key, passing, runtime, value};

/// A store over a connection of the program that does not reconnect.
pub(crate) async fn lent(server: &Server) -> RedisStore {
    RedisStore::from_connection(connect(&server.url()).await, "ours", runtime())
}

pub(crate) async fn it_works(server: &Server, store: &RedisStore) {
    store.open().await.unwrap();
    assert_eq!(store.name(), "ours");
    let ours = attempt(&["k"]);
    granted(grant(store, &ours).await);
    assert_eq!(store.renew(&[ours.clone(), ours.clone()]).await, [const { Ok(HoldAnswer::Done) }; 2]);
    server.text(&["SCRIPT", "FLUSH"]);
    assert_eq!(store.inspect(&key("k")).await.unwrap().holders.len(), 1);
    assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
    store.give_up(&ours).await.unwrap();
    assert_eq!(value(server, "k"), None);
}

/// A connection that stays silent cannot be replaced; giving up waits for the grant stuck in it.
pub(crate) async fn gives_up_a_stuck_grant(server: &Server, store: &RedisStore) {
    granted(grant(store, &attempt(&["first"])).await);
    let ours = attempt(&["k"]);
    server.stop();
    passing(grant(store, &ours).await, &["no answer"]);
    server.cont();
    store.give_up(&ours).await.unwrap();
    assert_eq!(value(server, "k"), None);
}

/// redis-dlm: clients that the application already has. redis-rs never restores such a connection, and
/// we cannot create one: so the docs of `from_connection` say which to lend.
#[tokio::test]
async fn a_multiplexed_connection_is_lost_for_good_and_a_manager_comes_back_after_a_restart() {
    let server = Server::start(Flavor::Valkey91);
    let manager = redis::Client::open(server.url()).unwrap().get_connection_manager().await.unwrap();
    let managed = RedisStore::from_connection(manager, "ours", runtime());
    let multiplexed = lent(&server).await;
    it_works(&server, &multiplexed).await;
    it_works(&server, &managed).await;
    server.restart();
    passing(managed.inspect(&key("k")).await, &[]);
    until_answered(Duration::from_secs(10), || managed.open()).await;
    it_works(&server, &managed).await;
    for _ in 0..3 {
        passing(multiplexed.inspect(&key("k")).await, &[]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_stuck_in_a_lent_connection_is_given_up_for_good() {
    let server = Server::start(Flavor::Redis82);
    gives_up_a_stuck_grant(&server, &lent(&server).await).await;
}

/// The program's own limits, if it has any, do not matter: it may have panicked, and wait for ever.
#[tokio::test]
async fn a_pool_is_asked_again_after_a_panic_and_for_a_connection_that_stays_silent() {
    let (server, proxy) = behind_a_proxy(Flavor::Valkey91);
    let taken = AtomicUsize::new(0);
    let urls = [None, Some(proxy.url()), Some(server.url())];
    let take = move || {
        let url = urls[taken.fetch_add(1, Ordering::Relaxed).min(2)].clone();
        async move {
            let client = redis::Client::open(url.expect("a panic of the program"))?;
            let unlimited = AsyncConnectionConfig::new().set_response_timeout(None);
            client.get_multiplexed_async_connection_with_config(&unlimited).await.map(Box::new)
        }
    };
    let store = RedisStore::from_pool(take, "ours", runtime());
    passing(store.open().await, &["no connection was made"]);
    it_works(&server, &store).await;
    proxy.black_hole();
    passing(store.open().await, &["no answer within"]);
    // It is given up by a task, perhaps a moment later.
    until_answered(Duration::from_secs(10), || store.open()).await;
    it_works(&server, &store).await;
}

/// Both a single command and several at once may show it.
#[tokio::test]
async fn a_connection_of_a_pool_that_leads_to_a_replica_is_replaced() {
    let (master, replica) = pair(Flavor::Valkey91).await;
    for keys in [&["k"][..], &["k", "other"]] {
        let taken = AtomicUsize::new(0);
        let urls = [replica.url(), master.url()];
        let take = move || {
            let url = urls[taken.fetch_add(1, Ordering::Relaxed).min(1)].clone();
            async move { redis::Client::open(url)?.get_multiplexed_async_connection().await.map(Box::new) }
        };
        let store = RedisStore::from_pool(take, "ours", runtime());
        let ours = attempt(keys);
        passing(grant(&store, &ours).await, &["replica"]);
        granted(grant(&store, &ours).await);
        assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
    }
}

/// It is not notified over a lent connection, so only what follows a hand-over shows its end.
#[tokio::test]
async fn a_process_that_lent_its_connection_and_is_gone_costs_one_claim_window() {
    let server = Server::start(Flavor::Redis70);
    let lent = lent(&server).await;
    let [holder, next] = [(); 2].map(|()| world::store(&server.url()));
    let [held, first, second, third, last] = [(); 5].map(|()| attempt(&["k"]));
    granted(grant(&holder, &held).await);
    for waiter in [&first, &second, &third] {
        waits(&lent, waiter).await;
    }
    let waiting = wait(&next, &last);
    until_queued(&server, &[&first, &second, &third, &last]).await;
    let gap = hand_over(&holder, &held, waiting).await;
    let window = WaitQueue::CLAIM_WINDOW;
    // Three would take three windows.
    assert!((window..5 * window / 2).contains(&gap), "{gap:?} for three waiters of one process");
    let_go(&next, &last).await;
}
