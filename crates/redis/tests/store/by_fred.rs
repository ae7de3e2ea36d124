//! Locks over an existing client of the fred crate.

use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike as _, EventInterface as _};
use fred::prelude::{Builder, Config, ReconnectPolicy};
use fred::types::{ClusterHash, CustomCommand, RespVersion};
use leasehold_core::{InspectStore as _, Misuse, Store};
use leasehold_redis::RedisStore;
use servers::{Flavor, Server};

use crate::lent::{gives_up_a_stuck_grant, it_works};
use crate::queue::until;
use crate::world::{attempt, behind_a_proxy, grant, granted, key, passing, runtime, value};

/// Configured as in many applications: failures are retried soon and often. `pause` is the delay
/// before it reconnects.
fn client(url: &str, version: RespVersion, pause: u32) -> Client {
    let mut config = Config::from_url(url).unwrap();
    config.version = version;
    Builder::from_config(config)
        .with_connection_config(|config| {
            config.max_command_attempts = 10;
            config.unresponsive.max_timeout = Some(Duration::from_secs(3));
            config.unresponsive.interval = Duration::from_millis(200);
        })
        .set_policy(ReconnectPolicy::new_constant(0, pause))
        .build()
        .unwrap()
}

fn lend(client: &Client) -> RedisStore {
    RedisStore::from_fred(client.clone(), "ours", runtime()).unwrap()
}

/// Sends a command of the program itself on its client.
async fn says(client: &Client, name: &'static str, word: &str) -> Result<String, fred::error::Error> {
    let command = CustomCommand::new_static(name, ClusterHash::FirstKey, false);
    client.custom(command, vec![word.to_owned()]).await
}

/// redis-dlm: either of two client libraries.
#[tokio::test]
async fn a_client_of_fred_can_be_lent_and_comes_back_after_a_restart() {
    for (flavor, version) in [(Flavor::Redis70, RespVersion::RESP2), (Flavor::Valkey91, RespVersion::RESP3)] {
        let server = Server::start(flavor);
        let client = client(&server.url(), version, 10);
        client.init().await.unwrap();
        let store = lend(&client);
        it_works(&server, &store).await;
        server.restart();
        for _ in 0..200 {
            if store.open().await.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        it_works(&server, &store).await;
    }
}

/// fred is configured to resend unanswered commands up to ten times when a connection breaks, and
/// does so with the program's own command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_in_flight_when_the_connection_breaks_is_not_sent_again() {
    for (flavor, version) in [(Flavor::Redis70, RespVersion::RESP2), (Flavor::Valkey91, RespVersion::RESP3)] {
        let (server, proxy) = behind_a_proxy(flavor);
        let client = client(&proxy.url(), version, 10);
        client.init().await.unwrap();
        let store = lend(&client);
        granted(grant(&store, &attempt(&["first"])).await);
        server.text(&["CONFIG", "RESETSTAT"]);

        let ours = attempt(&["k"]);
        proxy.mute();
        let theirs = client.clone();
        let theirs = tokio::spawn(async move { says(&theirs, "INCR", "n").await });
        let cutting = async {
            until("the script and the INCR are run", Duration::from_secs(10), || {
                server.calls("evalsha") == 1 && value(&server, "n").as_deref() == Some("1")
            })
            .await;
            proxy.cut();
            proxy.heal();
        };
        let (answer, ()) = tokio::join!(grant(&store, &ours), cutting);
        passing(answer, &["ours", "the connection broke"]);
        assert_eq!(theirs.await.unwrap().unwrap(), "2");
        assert_eq!(server.calls("evalsha"), 1);

        store.give_up(&ours).await.unwrap();
        assert_eq!(value(&server, "k"), None);
    }
}

/// fred considers itself connected until it begins to reconnect, and queues commands until then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_queued_without_a_connection_is_not_sent_after_its_limit() {
    let (server, proxy) = behind_a_proxy(Flavor::Valkey91);
    let client = client(&proxy.url(), RespVersion::RESP3, 1500);
    client.init().await.unwrap();
    let store = lend(&client);
    granted(grant(&store, &attempt(&["first"])).await);
    server.text(&["CONFIG", "RESETSTAT"]);

    let mut troubles = client.error_rx();
    proxy.cut();
    troubles.recv().await.unwrap();
    // It refuses what is sent to it while it still drops the connection.
    while let Ok(said) = tokio::time::timeout(Duration::from_millis(20), says(&client, "PING", "early")).await
    {
        assert!(said.is_err(), "it is connected again: {said:?}");
    }
    let (dropped, waited) = (attempt(&["dropped"]), attempt(&["waited"]));
    assert!(tokio::time::timeout(Duration::from_millis(20), grant(&store, &dropped)).await.is_err());
    passing(grant(&store, &waited).await, &["no answer"]);
    // It is behind ours in fred's queue, and waits until fred is connected again.
    assert_eq!(says(&client, "PING", "behind ours").await.unwrap(), "behind ours");
    assert_eq!(server.calls("evalsha"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_stuck_in_a_client_of_freds_is_given_up_for_good() {
    let server = Server::start(Flavor::Redis82);
    let client = client(&server.url(), RespVersion::RESP3, 10);
    client.init().await.unwrap();
    gives_up_a_stuck_grant(&server, &lend(&client)).await;
}

#[tokio::test]
async fn a_client_of_a_cluster_is_refused_before_anything_is_sent() {
    let client = Builder::default_clustered().build().unwrap();
    let refused = RedisStore::from_fred(client, "ours", runtime()).unwrap_err();
    assert!(matches!(&refused, Misuse::NotLendable { name, .. } if name == "ours"));
    assert!(refused.to_string().contains("redis+cluster://"), "{refused}");
}

/// The server repeats a login that it does not understand, and fred repeats the server's message.
#[tokio::test]
async fn no_text_of_a_store_on_fred_has_the_password_in_it() {
    let knows = Server::setup(Flavor::Redis70).acl_user("web", "on >s3cret ~* &* +@all").start();
    let mute = Server::setup(Flavor::Redis70).arg("rename-command", "HELLO \"\"").start();
    for (server, password, version, starts) in [
        (&knows, "s3cret", RespVersion::RESP3, true),
        (&knows, "s3cret", RespVersion::RESP2, true),
        (&knows, "s3cret", RespVersion::RESP3, false),
        (&knows, "s3cret-but-wrong", RespVersion::RESP3, true),
        (&knows, "s3cret-but-wrong", RespVersion::RESP2, true),
        (&mute, "s3cret", RespVersion::RESP3, true),
    ] {
        let client = client(&format!("redis://web:{password}@127.0.0.1:{}", server.port()), version, 10);
        let started = if starts { client.init().await.map(drop) } else { Ok(()) };
        let store = lend(&client);
        let opened = store.open().await;
        let granted = grant(&store, &attempt(&["k"])).await;
        if std::ptr::eq(server, &mute) {
            assert!(started.as_ref().unwrap_err().to_string().contains("s3cret"), "{started:?}");
            assert!(opened.as_ref().unwrap_err().to_string().contains("init"), "{opened:?}");
        }
        let mut texts = format!("{store:?} {store:#?} {} {opened:?} {granted:?}", store.name());
        for fault in [opened.err(), granted.err(), store.inspect(&key("k")).await.err()].into_iter().flatten()
        {
            texts += &format!(" {fault}");
        }
        assert!(!texts.contains("s3c"), "{texts}");
    }
}
