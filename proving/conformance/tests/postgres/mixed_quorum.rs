//! A quorum of three kinds of stores; and a member that was restored.

use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::{AnyStore, Locks};
use servers::{Flavor, Postgres, Server};
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::world::{served, take, until};

const SECOND: Duration = Duration::from_secs(1);

/// redis-dlm: Redlock over instances of several kinds.
#[tokio::test(flavor = "multi_thread")]
async fn a_quorum_of_redis_postgresql_and_a_file_loses_one_of_them_and_leaves_nothing() {
    let (postgres, db) = served().await;
    let redis = block_in_place(|| Server::start(Flavor::Valkey91));
    let directory = TempDir::new().unwrap();
    // As if it had been in use for long.
    db.batch_execute("UPDATE leasehold.meta SET value = '0' WHERE name = 'voided'").await.unwrap();
    let urls = [
        format!("{}?quarantine=no", redis.url()),
        postgres.url(),
        format!("file:{}", directory.path().join("leases.db").display()),
    ];
    let quorum = || {
        let members = urls.each_ref().map(|url| AnyStore::from_url(url).unwrap());
        Locks::builder().ttl(2 * SECOND).outage_limit(20 * SECOND).quorum(members, 10 * SECOND).unwrap()
    };
    let (here, there) = (quorum(), quorum());
    let guard = take(&here, "k").await;
    assert!(there.mutex("k").try_lock().await.unwrap().is_none());
    // The file is new and abstains for the longest TTL. After that, any two are enough.
    let single = async |url: &str| Locks::connect(url).await.unwrap();
    let file = single(&urls[2]).await;
    until("the file takes part", async || !file.inspect("k").await.unwrap().holders.is_empty()).await;
    block_in_place(|| postgres.kill_9());
    tokio::time::timeout(3 * SECOND, guard.lost()).await.unwrap_err();
    assert!(guard.is_held());
    let fence = guard.fence();
    guard.release().await.unwrap();
    let next = take(&there, "k").await;
    assert!(next.fence() > fence);
    block_in_place(|| postgres.restart());
    next.release().await.unwrap();
    for url in &urls {
        let member = single(url).await;
        until("nothing is left", async || member.list("").await.unwrap().is_empty()).await;
    }
}

/// Regression: a restored dump granted what others held: a new cluster begins with the same timeline.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_was_restored_from_a_dump_abstains() {
    let (dumped, db) = served().await;
    // As if it had been in use for long.
    db.batch_execute("UPDATE leasehold.meta SET value = '0' WHERE name = 'voided'").await.unwrap();
    let restored = block_in_place(Postgres::start);
    block_in_place(|| restore(&dumped, &restored));
    let quorum = |server: &Postgres| {
        let member = AnyStore::from_url(&server.url()).unwrap();
        Locks::builder().ttl(2 * SECOND).outage_limit(20 * SECOND).quorum([member], 5 * SECOND).unwrap()
    };
    take(&quorum(&dumped), "k").await.release().await.unwrap();
    let quorum = quorum(&restored);
    let error = quorum.mutex("k").try_lock().await.unwrap_err().to_string();
    assert!(error.contains("quarantined"), "{error}");
    take(&quorum, "k").await.release().await.unwrap();
}

/// Copies the tables by a dump.
fn restore(from: &Postgres, to: &Postgres) {
    let programs = Postgres::programs().unwrap();
    let mut dump = Command::new(programs.join("pg_dump"))
        .args(["-d", &from.config()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let restored = Command::new(programs.join("psql"))
        .args(["-qX", "-v", "ON_ERROR_STOP=1", "-d", &to.config()])
        .stdin(dump.stdout.take().unwrap())
        .stdout(Stdio::null())
        .status();
    assert!(restored.unwrap().success() && dump.wait().unwrap().success());
}
