//! A writer whose lock is lost cannot commit; a checked one keeps others out to its transaction's end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use leasehold::postgres::{CheckError, init};
use leasehold::{Guard, LockError, Locks, Renewal};
use rustix::process::{Pid, Signal, kill_process};
use servers::Postgres;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, IsolationLevel, NoTls};

use crate::world::{db, request, served, take, two, until};

/// Short enough to wait for, and long enough for a busy machine to check in time.
const TTL: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(30);

async fn server() -> Postgres {
    let (server, db) = served().await;
    db.batch_execute("CREATE TABLE account (id int PRIMARY KEY, by text)").await.unwrap();
    db.batch_execute("INSERT INTO account VALUES (1, 'nobody')").await.unwrap();
    server
}

async fn writer(client: &Client) -> String {
    client.query_one("SELECT by FROM account", &[]).await.unwrap().get(0)
}

/// A lock that is not renewed, as if its holder were stopped.
async fn stalled(locks: &Locks) -> Guard {
    locks.mutex("account:1").ttl(TTL).renewal(Renewal::Off).lock().await.unwrap()
}

/// `psql`, as used from plain SQL.
struct Psql {
    child: Child,
    says: ChildStdin,
    hears: BufReader<ChildStdout>,
}

impl Psql {
    fn on(server: &Postgres) -> Self {
        let mut child = Command::new(Postgres::programs().unwrap().join("psql"))
            .args(["-XqAt", "-v", "VERBOSITY=verbose", "-d", &server.url()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (says, hears) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, says, hears }
    }

    fn say(&mut self, sql: &str) {
        writeln!(self.says, "{sql}").unwrap();
    }

    /// Waits until all previous statements are done.
    fn is_through(&mut self) {
        self.say("\\echo through");
        let mut line = String::new();
        while line.trim() != "through" {
            line.clear();
            assert_ne!(self.hears.read_line(&mut line).unwrap(), 0, "psql ended");
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends the session; returns its errors.
    fn end(self) -> String {
        drop(self.says);
        String::from_utf8(self.child.wait_with_output().unwrap().stderr).unwrap()
    }
}

/// The writer is stopped in its transaction past its lease, and continues when another has written.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_was_stopped_and_wakes_up_late_cannot_commit() {
    let server = server().await;
    let [one, other] = two(&server.url(), LONG).await;
    let guard = stalled(&one).await;
    let mut late = Psql::on(&server);
    late.say("BEGIN;");
    late.is_through();
    late.signal(Signal::STOP);

    let next = other.mutex("account:1").lock().await.unwrap();
    let mut db = db(&server).await;
    let transaction = db.transaction().await.unwrap();
    transaction.execute("UPDATE account SET by = 'the next'", &[]).await.unwrap();
    next.check(&transaction).await.unwrap();
    transaction.commit().await.unwrap();

    late.signal(Signal::CONT);
    late.say("UPDATE account SET by = 'the late';");
    late.say(&format!("SELECT leasehold.check('account:1', {});", guard.fence()));
    late.say("COMMIT;");
    late.is_through();
    let complaint = late.end();
    assert!(complaint.contains("LH001: the lock on account:1 is not held under fence"), "{complaint}");
    assert!(complaint.contains("It was granted again since, under fence"), "{complaint}");
    assert_eq!(writer(&db).await, "the next");

    let transaction = db.transaction().await.unwrap();
    let refused = guard.check(&transaction).await.unwrap_err();
    assert!(matches!(&refused, CheckError::Lost { .. }), "{refused:?}");
}

/// Without the row lock of the check, the next holder would overwrite data not committed yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_checked_holder_keeps_others_out_until_its_transaction_ends_also_past_its_lease() {
    let server = server().await;
    let [one, other] = two(&server.url(), LONG).await;
    let (guard, mut db) = (stalled(&one).await, db(&server).await);
    let transaction = db.transaction().await.unwrap();
    guard.check(&transaction).await.unwrap();
    tokio::time::timeout(5 * TTL, guard.lost()).await.unwrap();

    let late = other.mutex("account:1").lock().within(TTL).await;
    assert!(late.is_err(), "granted under an open transaction of {}", guard.fence());
    transaction.execute("UPDATE account SET by = 'the first'", &[]).await.unwrap();
    transaction.commit().await.unwrap();

    let next = other.mutex("account:1").lock().within(10 * TTL).await.unwrap();
    assert!(next.fence() > guard.fence());
    assert_eq!(writer(&db).await, "the first");
}

/// Regression: the docs left out `now_micros` for the views, and a text's `check` that of a `bytea`.
#[tokio::test(flavor = "multi_thread")]
async fn where_execution_is_revoked_the_documented_grant_is_enough_to_check_and_to_look() {
    let docs = include_str!("../../../../docs/postgres.md");
    let (_, grant) = docs.split_once("GRANT EXECUTE").unwrap();
    let (grant, _) = grant.split_once(';').unwrap();
    let (server, db) = served().await;
    let [locks, _] = two(&server.url(), LONG).await;
    let guard = take(&locks, "account:1").await;
    let roles = "CREATE ROLE web; CREATE ROLE ops; GRANT USAGE ON SCHEMA leasehold TO web, ops; \
        GRANT SELECT ON leasehold.held, leasehold.waiting TO ops; \
        REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA leasehold FROM PUBLIC";
    db.batch_execute(roles).await.unwrap();
    let fence = guard.fence();
    let asked = [
        format!("SET ROLE web; SELECT leasehold.check('account:1', {fence})"),
        format!("SET ROLE web; SELECT leasehold.check('account:1'::bytea, {fence})"),
        "SET ROLE ops; TABLE leasehold.held".into(),
        "SET ROLE ops; TABLE leasehold.waiting".into(),
    ];
    for asked in &asked {
        let refused = db.batch_execute(asked).await.unwrap_err();
        assert_eq!(refused.code(), Some(&SqlState::INSUFFICIENT_PRIVILEGE), "{asked}");
    }
    db.batch_execute(&format!("RESET ROLE; GRANT EXECUTE{grant}")).await.unwrap();
    for asked in &asked {
        db.batch_execute(asked).await.unwrap_or_else(|error| panic!("{asked}: {error}"));
    }
}

/// Regression: it was reported as an outage of the store, and nobody could queue meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_whose_holder_is_in_a_checked_transaction_is_held_and_can_be_waited_for() {
    let server = server().await;
    let [one, other] = two(&server.url(), LONG).await;
    let other = other.with_outage_limit(TTL / 2);
    let guard = take(&one, "account:1").await;
    let mut db = db(&server).await;
    let transaction = db.transaction().await.unwrap();
    guard.check(&transaction).await.unwrap();

    assert!(other.mutex("account:1").try_lock().await.unwrap().is_none());
    let error = other.mutex("account:1").lock().within(TTL).await.unwrap_err();
    let LockError::TimedOut { held_by: Some(held_by), place: Some(1), .. } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(held_by.fence, Some(guard.fence()));
    let waits = tokio::spawn(request(&other, "account:1"));
    until("it waits", async || one.inspect("account:1").await.unwrap().waiters.len() == 1).await;
    transaction.commit().await.unwrap();
    guard.release().await.unwrap();
    let _next = waits.await.unwrap().unwrap();
}

/// A permit or a shared lock has its own row, and the same must hold for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_was_checked_keeps_a_writer_out_until_its_transaction_ends() {
    let server = server().await;
    let [one, other] = two(&server.url(), LONG).await;
    let reader = one.rw_lock("account:1").ttl(TTL).renewal(Renewal::Off).read().await.unwrap();
    let mut db = db(&server).await;
    let transaction = db.transaction().await.unwrap();
    reader.check(&transaction).await.unwrap();
    tokio::time::timeout(5 * TTL, reader.lost()).await.unwrap();

    // It can queue: nothing that it writes waits for the transaction.
    let error = other.rw_lock("account:1").write().within(TTL).await.unwrap_err();
    assert!(matches!(error, LockError::TimedOut { place: Some(1), .. }), "{error:?}");
    transaction.commit().await.unwrap();
    let _writer = other.rw_lock("account:1").write().within(10 * TTL).await.unwrap();
    let transaction = db.transaction().await.unwrap();
    assert!(matches!(reader.check(&transaction).await, Err(CheckError::Lost { .. })));
}

/// The fence of a reader that came first is also that of the key's last grant.
#[tokio::test(flavor = "multi_thread")]
async fn a_checked_reader_keeps_no_other_reader_out_and_is_not_taken_for_another_one() {
    let server = server().await;
    let [one, other] = two(&server.url(), LONG).await;
    let reader = one.rw_lock("account:1").read().await.unwrap();
    let fence = i64::from(reader.fence());
    let mut db = db(&server).await;
    let transaction = db.transaction().await.unwrap();
    reader.check(&transaction).await.unwrap();
    let second = other.rw_lock("account:1").read().within(10 * TTL).await.unwrap();
    transaction.commit().await.unwrap();
    reader.release().await.unwrap();

    let transaction = db.transaction().await.unwrap();
    second.check(&transaction).await.unwrap();
    let stale = transaction.execute("SELECT leasehold.check('account:1', $1)", &[&fence]).await.unwrap_err();
    assert_eq!(stale.code().map(SqlState::code), Some("LH001"), "{stale}");
}

/// Regression: requests of others waited for a checked transaction; a healthy holder lost its share.
#[tokio::test(flavor = "multi_thread")]
async fn a_checked_share_that_has_ended_costs_no_other_share_and_is_not_granted_again() {
    let server = server().await;
    let [one, other] = two(&server.url(), LONG).await;
    let permits = |locks: &Locks| locks.semaphore("account:1", 2).ttl(TTL);
    let stalled = permits(&one).renewal(Renewal::Off).acquire().await.unwrap();
    let held = permits(&other).acquire().await.unwrap();
    let mut db = db(&server).await;
    let transaction = db.transaction().await.unwrap();
    stalled.check(&transaction).await.unwrap();
    tokio::time::timeout(5 * TTL, stalled.lost()).await.unwrap();

    let waits = tokio::spawn(permits(&one).acquire().within(10 * TTL));
    tokio::time::sleep(2 * TTL).await;
    assert!(held.is_held() && !waits.is_finished());
    assert!(permits(&other).try_acquire().await.unwrap().is_none());
    transaction.commit().await.unwrap();
    let next = waits.await.unwrap().unwrap();
    assert!(held.is_held());
    held.release().await.unwrap();
    next.release().await.unwrap();
}

/// An ended lease is refused although nobody took the lock; renewals do not disturb a checked writer.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_has_ended_is_refused_and_a_renewal_does_not_wait_for_a_transaction() {
    let server = server().await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mut db = db(&server).await;
    let guard = locks.mutex("account:1").ttl(TTL).renewal(Renewal::Off).lock().await.unwrap();
    let transaction = db.transaction().await.unwrap();
    guard.check(&transaction).await.unwrap();
    guard.renew(TTL).await.unwrap();
    transaction.rollback().await.unwrap();
    tokio::time::timeout(5 * TTL, guard.lost()).await.unwrap();
    // The server's clock ends it a little later than its holder's.
    let refused = loop {
        let transaction = db.transaction().await.unwrap();
        if let Err(refused) = guard.check(&transaction).await {
            break refused.to_string();
        }
        transaction.rollback().await.unwrap();
        tokio::time::sleep(TTL / 20).await;
    };
    assert!(refused.contains("is not held under fence"), "{refused}");

    let elsewhere = Locks::connect("memory:").await.unwrap();
    let guard = elsewhere.mutex("account:1").lock().await.unwrap();
    let transaction = db.transaction().await.unwrap();
    assert!(matches!(guard.check(&transaction).await, Err(CheckError::OtherStore { .. })));
}

/// Regression: such a transaction was told that the lock was lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_does_not_show_a_renewal_is_no_loss() {
    let server = server().await;
    let locks = Locks::connect(&server.url()).await.unwrap();
    let (mut client, other) = (db(&server).await, db(&server).await);
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let guard = stalled(&locks).await;
        let transaction = client.build_transaction().isolation_level(level).start().await.unwrap();
        transaction.query_one("SELECT by FROM account", &[]).await.unwrap();
        let ends: i64 = other.query_one("SELECT ends FROM leasehold.lease", &[]).await.unwrap().get(0);
        guard.renew(60 * TTL).await.unwrap();
        let has_ended = "SELECT leasehold.now_micros() > $1";
        while !other.query_one(has_ended, &[&ends]).await.unwrap().get::<_, bool>(0) {
            tokio::time::sleep(TTL / 20).await;
        }
        let refused = guard.check(&transaction).await;
        let Err(CheckError::Unknown(error)) = &refused else { panic!("{refused:?}") };
        assert_eq!(error.code(), Some(&SqlState::T_R_SERIALIZATION_FAILURE), "{error}");
        transaction.rollback().await.unwrap();
        let again = client.build_transaction().isolation_level(level).start().await.unwrap();
        guard.check(&again).await.unwrap();
        again.commit().await.unwrap();
        // A lease that had ended before the transaction is lost.
        other.batch_execute("UPDATE leasehold.lease SET ends = 1").await.unwrap();
        let late = client.build_transaction().isolation_level(level).start().await.unwrap();
        assert!(matches!(guard.check(&late).await, Err(CheckError::Lost { .. })));
        late.rollback().await.unwrap();
    }
}

/// `check` runs with the rights of its owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_check_calls_no_function_of_its_caller() {
    let server = server().await;
    let [locks, _] = two(&server.url(), LONG).await;
    let guard = take(&locks, "account:1").await;
    let db = db(&server).await;
    let function = "CREATE SCHEMA callers; CREATE FUNCTION callers.clock_timestamp() RETURNS timestamptz
        LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$; SET search_path = callers, pg_catalog";
    db.batch_execute(function).await.unwrap();
    let called = db.batch_execute("SELECT clock_timestamp()").await.unwrap_err();
    assert_eq!(called.code(), Some(&SqlState::RAISE_EXCEPTION), "{called}");
    let check = format!("SELECT leasehold.check('account:1'::bytea, {})", guard.fence());
    db.batch_execute(&check).await.unwrap();
}

/// Regression: a slash in a user's name, or `?` in a database's, made `check` refuse the right store.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_checked_whatever_the_names_of_user_and_database_are() {
    let server = server().await;
    let owner = db(&server).await;
    let user = r"a/b?c#d@e:f,g%2Fh\ ü";
    owner.batch_execute(&format!("CREATE ROLE \"{user}\" LOGIN SUPERUSER")).await.unwrap();
    let database = "x?y#z%20 ü";
    owner.batch_execute(&format!("CREATE DATABASE \"{database}\"")).await.unwrap();
    let encoded = |name: &str| name.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let url = format!("postgres://{}@127.0.0.1:{}/{}", encoded(user), server.port(), encoded(database));
    init(&url).await.unwrap();
    let locks = Locks::connect(&url).await.unwrap();
    let guard = locks.mutex("account:1").lock().await.unwrap();
    let config = server.config().replace("dbname=postgres", &format!("dbname='{database}'"));
    let (mut client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    let transaction = client.transaction().await.unwrap();
    guard.check(&transaction).await.unwrap();
}
