//! A URL with several hosts, and a standby that takes over.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use leasehold::postgres::CheckError;
use leasehold::{FaultCause, Guard, LockError, Locks, Remedy};
use servers::Postgres;
use tempfile::TempDir;
use tokio::task::block_in_place;
use tokio_postgres::{Client, NoTls};

use crate::world::{
    BUSY, Crowd, db, process, request, server, sessions, take, two, until, until_found, until_told,
};

const SECOND: Duration = Duration::from_secs(1);

/// A server and its standby. The URL names the standby first, so that it must be skipped.
struct Pair {
    primary: Postgres,
    standby: Postgres,
    url: String,
}

fn url_of(servers: [&Postgres; 2]) -> String {
    let [one, other] = servers.map(Postgres::port);
    format!("postgres://postgres@127.0.0.1:{one},127.0.0.1:{other}/postgres")
}

impl Pair {
    async fn start() -> Self {
        let primary = server(&[]).await;
        let standby = block_in_place(|| primary.standby());
        let url = url_of([&standby, &primary]);
        Self { primary, standby, url }
    }

    /// Commits on the primary wait until the standby has them.
    async fn is_synchronous(&self, db: &Client) {
        db.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").await.unwrap();
        db.batch_execute("SELECT pg_reload_conf()").await.unwrap();
        let synchronous = "SELECT FROM pg_stat_replication WHERE sync_state = 'sync'";
        until_found("a synchronous standby", db, synchronous).await;
    }

    async fn promotes(&self) {
        db(&self.standby).await.batch_execute("SELECT pg_promote()").await.unwrap();
    }
}

async fn checked(guard: &Guard, server: &Postgres) -> Result<(), CheckError> {
    let mut db = db(server).await;
    let transaction = db.transaction().await.unwrap();
    guard.check(&transaction).await?;
    transaction.commit().await.unwrap();
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_a_synchronous_standby_a_failover_grants_nothing_twice_and_forgets_no_lease() {
    let pair = Pair::start().await;
    pair.is_synchronous(&db(&pair.primary).await).await;
    let processes = two(&pair.url, 2 * SECOND).await;
    let [holder, other] = two(&pair.url, 60 * SECOND).await;
    let kept = take(&holder, "kept").await;
    let crowd = Crowd::start(&processes, "k");
    crowd.goes_on(20).await;
    block_in_place(|| pair.primary.kill_9());
    pair.promotes().await;
    crowd.goes_on(20).await;
    crowd.end().await;

    assert!(kept.is_held());
    assert!(other.mutex("kept").try_lock().await.unwrap().is_none(), "a lease is gone with the primary");
    kept.renew(60 * SECOND).await.unwrap();
    checked(&kept, &pair.standby).await.unwrap();
    kept.release().await.unwrap();
    take(&other, "kept").await.release().await.unwrap();
}

/// The standby is down when the lock is granted, and never receives that.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_a_failover_lost_is_refused_by_check_and_the_next_fence_is_greater() {
    let pair = Pair::start().await;
    let [locks, other] = two(&pair.url, 60 * SECOND).await;
    block_in_place(|| pair.standby.kill_9());
    let lost = take(&locks, "k").await;
    block_in_place(|| {
        pair.primary.kill_9();
        pair.standby.restart();
    });
    pair.promotes().await;

    assert!(matches!(checked(&lost, &pair.standby).await, Err(CheckError::Lost { .. })));
    let next = take(&other, "k").await;
    assert!(next.fence() > lost.fence());
    checked(&next, &pair.standby).await.unwrap();
}

/// Regression: if the URL's last host was a standby, no request survived a failover.
#[tokio::test(flavor = "multi_thread")]
async fn while_only_standbys_are_left_the_error_says_so_and_a_request_waits_for_a_primary() {
    let pair = Pair::start().await;
    let only = format!("postgres://postgres@127.0.0.1:{}/postgres", pair.standby.port());
    let both = url_of([&pair.primary, &pair.standby]);
    let locks = Locks::builder().outage_limit(BUSY).connect(&both).await.unwrap();
    take(&locks, "k").await.release().await.unwrap();
    block_in_place(|| pair.primary.kill_9());

    for url in [format!("{only}?target_session_attrs=read-write"), only, both.clone()] {
        is_only_a_standby(&url).await;
    }
    let waits = tokio::spawn(request(&locks, "another"));
    is_only_a_standby(&both).await;
    assert!(!waits.is_finished());
    pair.promotes().await;
    waits.await.unwrap().unwrap().release().await.unwrap();
}

/// Regression: a first host that accepted the connection in silence used up the time of all hosts.
#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_hangs_is_passed_over_once_its_standby_has_taken_over() {
    let pair = Pair::start().await;
    let url = url_of([&pair.primary, &pair.standby]);
    let locks = process(&url, 30 * SECOND).await;
    take(&locks, "k").await.release().await.unwrap();
    pair.primary.stop();
    pair.promotes().await;
    take(&locks, "another").await.release().await.unwrap();
    take(&process(&url, 30 * SECOND).await, "one more").await.release().await.unwrap();
    pair.primary.cont();
}

/// Regression: the connection to the standby was kept for as long as the standby ran.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_led_to_a_standby_is_asked_again_and_reading_from_a_standby_goes_on() {
    let pair = Pair::start().await;
    take(&process(&pair.url, 30 * SECOND).await, "k").await.release().await.unwrap();
    // The socket that leads to either of them.
    let place = TempDir::new().unwrap();
    let socket = place.path().join(".s.PGSQL.5432");
    let lead_to = |server: &Postgres| {
        let _ = fs::remove_file(&socket);
        symlink(server.directory().join(format!(".s.PGSQL.{}", server.port())), &socket).unwrap();
    };
    lead_to(&pair.standby);
    let directory = place.path().to_str().unwrap();
    let locks = process(&format!("postgres:///postgres?user=postgres&host={directory}"), 30 * SECOND).await;
    let error = locks.mutex("k").lock().within(SECOND).await.unwrap_err();
    assert!(error.to_string().contains("is a standby and takes no writes"), "{error}");
    assert!(error.fault().is_some_and(|fault| fault.cause == FaultCause::NotServing), "{error:?}");
    locks.list("").await.unwrap();
    lead_to(&pair.primary);
    take(&locks, "k").await.release().await.unwrap();
}

/// Regression: a committed hand-over whose message an operator cancelled was reported as a loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_whose_message_failed_is_no_loss() {
    let pair = Pair::start().await;
    let (owner, standby) = (db(&pair.primary).await, db(&pair.standby).await);
    pair.is_synchronous(&owner).await;
    owner.batch_execute("CREATE TABLE written ()").await.unwrap();
    let url = pair.primary.url();
    let [holder, next] = two(&url, 30 * SECOND).await;
    let guard = take(&holder, "k").await;
    let waits = tokio::spawn(request(&next, "k"));
    until_told(&owner).await;
    // Commits that notify come one after the other, and this one waits for the standby.
    standby.batch_execute("SELECT pg_wal_replay_pause()").await.unwrap();
    let notifies = db(&pair.primary).await;
    notifies.batch_execute("SET synchronous_commit = remote_apply").await.unwrap();
    let notifies = tokio::spawn(async move {
        notifies.batch_execute("INSERT INTO written DEFAULT VALUES; NOTIFY elsewhere").await
    });
    let waiting = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until_found("a commit that waits for the standby", &owner, waiting).await;
    let released = tokio::spawn(guard.release());
    until("the message waits for that commit, and is cancelled", async || {
        let waiting = sessions(&owner, "wait_event_type = 'Lock'").await;
        for session in &waiting {
            owner.execute("SELECT pg_cancel_backend($1)", &[session]).await.unwrap();
        }
        !waiting.is_empty()
    })
    .await;
    let released = released.await.unwrap();
    standby.batch_execute("SELECT pg_wal_replay_resume()").await.unwrap();
    released.unwrap();
    notifies.await.unwrap().unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

/// Regression: only the last host's error counted: if it refused for good, so did requests.
#[tokio::test(flavor = "multi_thread")]
async fn if_no_host_will_do_the_error_says_why_for_each_and_passes_if_one_of_them_may() {
    let (away, here) = (server(&[]).await, server(&[]).await);
    let url = url_of([&away, &here]);
    let url = format!("{}/nowhere", url.strip_suffix("/postgres").unwrap());
    let error = Locks::connect(&url).await.unwrap_err();
    assert_eq!(error.to_string().matches("does not exist").count(), 1, "{error}");
    block_in_place(|| away.kill_9());
    let locks = Locks::builder().outage_limit(SECOND).unopened(&url).unwrap();
    let error = locks.mutex("k").lock().await.unwrap_err();
    assert!(matches!(error, LockError::Unreachable { .. }), "{error:?}");
    let (refused, absent) =
        (format!("127.0.0.1:{}: cannot reach", away.port()), "\"nowhere\" does not exist");
    assert!(error.to_string().contains(&refused) && error.to_string().contains(absent), "{error}");
}

/// Asks for a second.
async fn is_only_a_standby(url: &str) {
    let error = match Locks::builder().outage_limit(SECOND).connect(url).await {
        Err(error) => error.to_string(),
        Ok(locks) => locks.mutex("k").lock().await.unwrap_err().to_string(),
    };
    assert!(error.contains("is a standby and takes no writes"), "{url}: {error}");
}

/// Regression: a client that decodes changes counted as a replica for commits to wait for.
#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_names_replicas_that_can_take_over_and_no_other_clients() {
    let server = server(&["wal_level=logical"]).await;
    let owner = db(&server).await;
    let locks = process(&server.url(), 30 * SECOND).await;
    let remedy = async || {
        let found = locks.diagnose().await.into_iter().find(|finding| finding.about == "replication");
        found.map(|finding| finding.remedy)
    };
    for statement in [
        "CREATE PUBLICATION p",
        "CREATE DATABASE copy",
        "SELECT pg_create_logical_replication_slot('decodes', 'pgoutput')",
    ] {
        owner.batch_execute(statement).await.unwrap();
    }
    let config = server.config();
    let (copy, connection) =
        tokio_postgres::connect(&config.replace("dbname=postgres", "dbname=copy"), NoTls).await.unwrap();
    tokio::spawn(connection);
    let subscribe = format!(
        "CREATE SUBSCRIPTION s CONNECTION '{config}' PUBLICATION p WITH (create_slot = false, slot_name = decodes)"
    );
    copy.batch_execute(&subscribe).await.unwrap();
    until_found("a client that decodes", &owner, "SELECT FROM pg_stat_replication").await;
    assert_eq!(remedy().await, None);
    let _standby = block_in_place(|| server.standby());
    let streams = "SELECT FROM pg_stat_replication WHERE application_name = 'walreceiver'";
    until_found("a standby", &owner, streams).await;
    let Some(Remedy::InDatabase(remedy)) = remedy().await else { panic!("no remedy") };
    assert!(remedy.contains("'ANY 1 (\"walreceiver\")'"), "{remedy}");
}
