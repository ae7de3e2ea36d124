//! An administrator's limits and isolation levels, locks of other transactions, and deadlocks.

use std::time::Duration;

use conformance::events::wait_for;
use leasehold::postgres::init;
use leasehold::{Event, LockError, Locks, LocksBuilder, Remedy};
use leasehold_core::{GrantAnswer, Store as _, WaitMode};
use servers::Postgres;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::Instant;
use tokio_postgres::{Client, Transaction};

use crate::world::{
    BUSY, Crowd, attempt, db, process, request, role, served, server, sessions, store, take, two, until,
    until_found, until_session, until_told,
};

const SECOND: Duration = Duration::from_secs(1);

/// A transaction of another program that locks something.
async fn begun<'a>(db: &'a mut Client, locks: &str) -> Transaction<'a> {
    let transaction = db.transaction().await.unwrap();
    transaction.batch_execute(locks).await.unwrap();
    transaction
}

/// Regression: to make the tables in a schema that an administrator had made, a user needed the right
/// to make schemas.
#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_schema_who_may_create_no_other_can_make_the_tables_there() {
    let (server, db) = served().await;
    let url = format!("{}?schema=locks", role(&db, &server, &[]).await);
    let error = init(&url).await.unwrap_err().to_string();
    assert!(error.contains("permission denied for database"), "{error}");
    db.batch_execute("CREATE SCHEMA locks AUTHORIZATION web").await.unwrap();
    init(&url).await.unwrap();
    take(&process(&url, 5 * SECOND).await, "k").await.release().await.unwrap();
}

/// A transaction of the store uses its own settings, whatever the role's are.
#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_is_serializable_and_read_only_and_impatient_takes_locks_as_any_other() {
    let (server, db) = served().await;
    let settings = [
        "default_transaction_isolation = 'serializable'",
        "default_transaction_read_only = on",
        "lock_timeout = '1ms'",
        "idle_in_transaction_session_timeout = '20ms'",
        "synchronous_commit = off",
        "search_path = ''",
    ];
    let url = role(&db, &server, &settings).await;
    let processes = two(&url, 5 * SECOND).await;
    let crowd = Crowd::start(&processes, "k");
    crowd.goes_on(100).await;
    crowd.end().await;
    let many = processes[0].mutex_all(["a", "b", "c"]).lock().within(SECOND).await.unwrap();
    assert_eq!(processes[1].list("").await.unwrap().len(), 3);
    many.release().await.unwrap();
}

/// Regression: for such a role the sweep always failed, without a word, and the table grew for ever.
#[tokio::test(flavor = "multi_thread")]
async fn ended_records_are_removed_also_for_a_role_that_is_read_only_by_default() {
    let (server, db) = served().await;
    let ended = "INSERT INTO leasehold.lease (key, fence, fence_ends) \
        SELECT convert_to('old:' || n, 'UTF8'), n, 1 FROM generate_series(1, 500) AS n";
    db.batch_execute(ended).await.unwrap();
    let url = role(&db, &server, &["default_transaction_read_only = on"]).await;
    let locks = process(&url, 5 * SECOND).await;
    let mut fresh = 0..;
    until("the ended records are gone", async || {
        take(&locks, &format!("new:{:?}", fresh.next())).await.release().await.unwrap();
        let left = "SELECT FROM leasehold.lease WHERE fence_ends = 1 LIMIT 1";
        db.query_opt(left, &[]).await.unwrap().is_none()
    })
    .await;
}

/// Regression: a release handed the lock to the first waiter that its user could see, past others.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_by_a_user_from_whom_waiters_are_hidden_passes_nobody_over() {
    let (server, db) = served().await;
    let web = role(&db, &server, &[]).await;
    let holder = process(&web, 30 * SECOND).await;
    let guard = take(&holder, "k").await;
    let mut waits = Vec::new();
    for label in ["first", "second"] {
        let builder = Locks::builder().label(label).ttl(30 * SECOND);
        let locks = builder.connect(&server.url()).await.unwrap();
        waits.push(tokio::spawn(request(&locks, "k")));
        let is_in = format!("SELECT FROM leasehold.waiter WHERE label = '{label}' AND channel >= 0");
        until_found("it waits and can be notified", &db, &is_in).await;
    }
    db.batch_execute("ALTER TABLE leasehold.waiter ENABLE ROW LEVEL SECURITY").await.unwrap();
    let policy = "CREATE POLICY hides ON leasehold.waiter USING (label = 'second') WITH CHECK (true)";
    db.batch_execute(policy).await.unwrap();
    let refused = guard.release().await.unwrap_err().to_string();
    assert!(refused.contains("row-level security"), "{refused}");
    assert!(waits.iter().all(|waits| !waits.is_finished()));
}

/// Regression: each sweep waited for half a call for an ended share that a transaction had checked, and
/// so did all requests of its process.
#[tokio::test(flavor = "multi_thread")]
async fn an_ended_share_that_is_locked_delays_no_request() {
    let (server, db) = served().await;
    let ended = "INSERT INTO leasehold.lease (key) VALUES ('old'); \
        INSERT INTO leasehold.share (key, holder, weight, ends) VALUES ('old', decode(repeat('00', 16), 'hex'), 1, 1)";
    db.batch_execute(ended).await.unwrap();
    db.batch_execute("BEGIN; SELECT FROM leasehold.share FOR KEY SHARE").await.unwrap();
    let url = format!("{}?call-limit=10s", server.url());
    let locks = process(&url, 50 * SECOND).await;
    // It adds a row, and so the table, which has one page, is swept.
    let guard = take(&locks, "new").await;
    let began = Instant::now();
    guard.release().await.unwrap();
    assert!(began.elapsed() < 2 * SECOND, "{:?}", began.elapsed());
    let left = "SELECT FROM leasehold.lease WHERE key = 'old'";
    assert!(self::db(&server).await.query_opt(left, &[]).await.unwrap().is_some());
}

/// A mark and a record of a break that have ended.
const ENDED: &str = "INSERT INTO leasehold.mark (key, at, fence, ends) VALUES ('old', 1, 1, 2);
    INSERT INTO leasehold.broken (key, at, fence, ends) VALUES ('old', 1, 1, 2)";

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_and_a_break_that_have_ended_are_not_shown_and_delay_nobody_while_they_are_locked() {
    let (server, mut db) = served().await;
    db.batch_execute(ENDED).await.unwrap();
    let locks = process(&format!("{}?call-limit=20s", server.url()), 100 * SECOND).await;
    assert_eq!(locks.marks("").await.unwrap(), []);
    assert_eq!(locks.breaks("").await.unwrap(), []);
    assert_eq!(locks.last_break("old").await.unwrap(), None);
    let lock = "SELECT FROM leasehold.mark FOR UPDATE; SELECT FROM leasehold.broken FOR UPDATE";
    let _others = begun(&mut db, lock).await;
    let guard = take(&locks, "k").await;
    let began = Instant::now();
    locks.once("new").run(async |_| Ok::<_, ()>(())).await.unwrap();
    locks.break_lease("k", guard.fence()).await.unwrap();
    assert!(began.elapsed() < 8 * SECOND, "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_mark_and_a_new_break_remove_those_that_have_ended() {
    let (server, db) = served().await;
    db.batch_execute(ENDED).await.unwrap();
    let locks = process(&server.url(), 5 * SECOND).await;
    locks.once("new").run(async |_| Ok::<_, ()>(())).await.unwrap();
    let guard = take(&locks, "new").await;
    locks.break_lease("new", guard.fence()).await.unwrap();
    for table in ["mark", "broken"] {
        let keys = format!("SELECT encode(key, 'escape') FROM leasehold.{table}");
        let left: Vec<String> = db.query(&keys, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
        assert_eq!(left, ["new"], "{table}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_timeout_of_the_role_is_named_and_so_is_its_remedy() {
    let (server, mut db) = served().await;
    let url = role(&db, &server, &["statement_timeout = '50ms'"]).await;
    let others = begun(&mut db, "LOCK TABLE leasehold.meta IN ACCESS EXCLUSIVE MODE").await;
    let error = Locks::builder().outage_limit(SECOND).connect(&url).await.unwrap_err().to_string();
    assert!(error.contains("statement_timeout"), "{error}");
    others.rollback().await.unwrap();
    take(&process(&url, 5 * SECOND).await, "k").await.release().await.unwrap();
}

/// Regression: reads had the role's own limit, and gave up before they could say what they waited for.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_does_not_have_the_statement_timeout_of_the_role() {
    let (server, mut db) = served().await;
    let url = role(&db, &server, &["statement_timeout = '100ms'"]).await;
    let locks = process(&url, 5 * SECOND).await;
    let _others = begun(&mut db, "LOCK TABLE leasehold.mark IN ACCESS EXCLUSIVE MODE").await;
    let error = locks.marks("").await.unwrap_err().to_string();
    assert!(error.contains("another transaction"), "{error}");
}

/// Regression: the error blamed the network, and `init` waited for as long as the lock lasted.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_the_table_that_is_read_first_is_named() {
    let (server, mut db) = served().await;
    let _others = begun(&mut db, "LOCK TABLE leasehold.meta IN ACCESS EXCLUSIVE MODE").await;
    let connected = Locks::builder().outage_limit(3 * SECOND).connect(&server.url()).await;
    let made = init(&server.url()).await;
    for error in [connected.unwrap_err().to_string(), made.unwrap_err().to_string()] {
        assert!(error.contains("another transaction"), "{error}");
    }
}

/// Regression: the error advised `leasehold init`, which found the other tables and did nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_was_dropped_is_named_and_init_does_not_say_that_it_is_there() {
    let (server, db) = served().await;
    let locks = process(&server.url(), 5 * SECOND).await;
    db.batch_execute("DROP TABLE leasehold.mark").await.unwrap();
    let asked = locks.marks("").await.unwrap_err().to_string();
    let made = init(&server.url()).await.unwrap_err().to_string();
    for error in [asked, made] {
        assert!(error.contains("mark") && error.contains("drop the schema"), "{error}");
    }
}

/// Regression: the end of a connection made all requests ask again at once, also the one that ended it.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_ends_its_connection_each_time_is_repeated_with_growing_pauses() {
    let (server, db) = served().await;
    db.batch_execute(ENDS_ITS_CONNECTION).await.unwrap();
    let locks = process(&server.url(), 5 * SECOND).await;
    locks.mutex("bad").lock().within(4 * SECOND).await.unwrap_err();
    let tries: i64 = db.query_one("SELECT last_value FROM tries", &[]).await.unwrap().get(0);
    assert!((2..20).contains(&tries), "{tries} tries in four seconds");
}

/// Regression: once others were served on each connection, such a request was tried 100 times in 4 s.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_ends_its_connection_keeps_its_pauses_while_others_are_served() {
    let (server, db) = served().await;
    db.batch_execute(ENDS_ITS_CONNECTION).await.unwrap();
    let locks = process(&server.url(), 5 * SECOND).await;
    let _kept = take(&process(&server.url(), 60 * SECOND).await, "kept").await;
    let _waits = tokio::spawn(request(&locks, "kept"));
    until_told(&db).await;
    let bad = tokio::spawn(locks.mutex("bad").lock().within(4 * SECOND));
    let others = (0..8).map(|nth| {
        let locks = locks.clone();
        tokio::spawn(async move {
            loop {
                // It may be in the same batch.
                let _ = locks.mutex(format!("other:{nth}")).try_lock().await;
            }
        })
    });
    let others: Vec<_> = others.collect();
    bad.await.unwrap().unwrap_err();
    others.iter().for_each(tokio::task::JoinHandle::abort);
    let tries: i64 = db.query_one("SELECT last_value FROM tries", &[]).await.unwrap().get(0);
    assert!((2..20).contains(&tries), "{tries} tries in four seconds");
}

/// Ends the connection of each request for `bad`, and counts them.
const ENDS_ITS_CONNECTION: &str = "CREATE SEQUENCE tries; CREATE FUNCTION ends() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM nextval('tries'), pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;
        CREATE TRIGGER ends BEFORE INSERT ON leasehold.lease FOR EACH ROW WHEN (NEW.key = 'bad') EXECUTE FUNCTION ends()";

/// A checked transaction that stays open past the lease blocks others from that key alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_another_transaction_has_locked_is_named_and_costs_other_keys_nothing() {
    let (server, mut db) = served().await;
    let locks =
        Locks::builder().ttl(3 * SECOND).outage_limit(2 * SECOND).connect(&server.url()).await.unwrap();
    take(&locks, "k").await.release().await.unwrap();
    let kept = take(&locks, "kept").await;
    let others = begun(&mut db, "SELECT FROM leasehold.lease WHERE key = 'k' FOR UPDATE").await;
    let waits = tokio::spawn(locks.mutex("k").lock().within(30 * SECOND));
    let began = Instant::now();
    let mut slowest = Duration::ZERO;
    while !waits.is_finished() {
        let asked = Instant::now();
        locks.mutex("other").lock().await.unwrap().release().await.unwrap();
        slowest = slowest.max(asked.elapsed());
        assert!(began.elapsed() < 20 * SECOND, "no end");
    }
    let error = waits.await.unwrap().unwrap_err().to_string();
    assert!(error.contains("another transaction") && error.contains("pg_stat_activity"), "{error}");
    assert!(kept.is_held());
    assert!(slowest < SECOND, "a lock and a release of another key took {slowest:?}");
    others.rollback().await.unwrap();
    take(&locks, "k").await.release().await.unwrap();
}

/// Regression: a request was answered with its whole batch, after all locked rows: all locks were lost.
#[tokio::test(flavor = "multi_thread")]
async fn many_rows_that_another_transaction_has_locked_cost_no_other_lock() {
    locked_rows_cost_no_other_lock(Locks::builder().ttl(6 * SECOND), 40, 5).await;
}

/// Regression: a batch waited for its locked rows in turn: with sixty, no renewal was answered in time.
#[tokio::test(flavor = "multi_thread")]
async fn sixty_locked_rows_cost_no_lock_with_a_ttl_of_three_seconds() {
    let builder = Locks::builder().ttl(3 * SECOND).outage_limit(2 * SECOND);
    locked_rows_cost_no_other_lock(builder, 60, 10).await;
}

/// Asks for so many locked rows, again and again, while another lock is renewed so many times.
async fn locked_rows_cost_no_other_lock(builder: LocksBuilder, rows: u32, renewals: u32) {
    let (server, mut db) = served().await;
    let locks = builder.connect(&server.url()).await.unwrap();
    let keys: Vec<_> = (0..rows).map(|nth| format!("k:{nth}")).collect();
    locks.mutex_all(&keys).lock().await.unwrap().release().await.unwrap();
    let kept = take(&locks, "kept").await;
    let others = begun(&mut db, "SELECT FROM leasehold.lease WHERE key <> 'kept' FOR UPDATE").await;
    let mut asking = JoinSet::new();
    for key in keys {
        let locks = locks.clone();
        asking.spawn(async move {
            loop {
                let _ = locks.mutex(&key).try_lock().await;
            }
        });
    }
    let renewed = async {
        for _ in 0..renewals {
            kept.held().renewed().await;
        }
    };
    tokio::select! {
        loss = kept.lost() => panic!("{loss}"),
        () = renewed => {}
    }
    asking.abort_all();
    others.rollback().await.unwrap();
}

/// Regression: a list of marks waited ten seconds for a locked table, and so did all renewals.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_another_transaction_has_locked_costs_no_lock() {
    let (server, mut db) = served().await;
    // The server gives up after half of it. The rest is for an answer from a busy machine.
    let url = format!("{}?call-limit=1s", server.url());
    let locks = Locks::builder().ttl(4 * SECOND).connect(&url).await.unwrap();
    let kept = take(&locks, "kept").await;
    let lock = "LOCK TABLE leasehold.mark, leasehold.broken, leasehold.share IN ACCESS EXCLUSIVE MODE";
    let others = begun(&mut db, lock).await;
    let began = Instant::now();
    while began.elapsed() < 6 * SECOND {
        for asked in [
            locks.marks("").await.map(drop),
            locks.breaks("").await.map(drop),
            locks.last_break("kept").await.map(drop),
        ] {
            let error = asked.unwrap_err().to_string();
            assert!(error.contains("another transaction"), "{error}");
        }
        // They do not wait one after the other.
        let looks = (0..60).map(|nth| {
            let locks = locks.clone();
            tokio::spawn(async move { locks.inspect(format!("k:{nth}")).await })
        });
        for look in looks.collect::<Vec<_>>() {
            assert!(look.await.unwrap().is_err());
        }
        assert!(kept.is_held());
    }
    others.rollback().await.unwrap();
    assert!(locks.marks("").await.unwrap().is_empty());
}

/// Regression: it was reported as an outage of the store.
#[tokio::test(flavor = "multi_thread")]
async fn a_held_lock_with_a_row_that_another_transaction_has_locked_is_held() {
    let (server, mut db) = served().await;
    let [holder, other] = two(&server.url(), 30 * SECOND).await;
    let other = other.with_outage_limit(SECOND);
    let guard = take(&holder, "k").await;
    let reader = holder.rw_lock("shared").read().await.unwrap();
    let others = begun(&mut db, "SELECT FROM leasehold.lease FOR UPDATE").await;

    assert!(other.mutex("k").try_lock().await.unwrap().is_none());
    assert!(other.rw_lock("shared").try_write().await.unwrap().is_none());
    let error = other.mutex("k").lock().within(2 * SECOND).await.unwrap_err();
    let LockError::TimedOut { held_by: Some(held_by), place: None, .. } = &error else { panic!("{error:?}") };
    assert_eq!(held_by.fence, Some(guard.fence()));
    // Nothing excludes another reader but the locked row.
    let error = other.rw_lock("shared").read().await.unwrap_err().to_string();
    assert!(error.contains("another transaction"), "{error}");

    let mut events = other.events();
    // For half a second after the transaction, a request may still fail.
    let waits = tokio::spawn(request(&other.clone().with_outage_limit(10 * SECOND), "k"));
    wait_for(&mut events, BUSY, |event| matches!(event, Event::Waiting { .. }).then_some(())).await;
    others.rollback().await.unwrap();
    guard.release().await.unwrap();
    let _next = waits.await.unwrap().unwrap();
    reader.release().await.unwrap();
}

/// The first request already; later ones are not sent as long as the row is probably locked.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_request_for_a_held_lock_with_a_locked_row_says_who_holds_it() {
    let (server, mut db) = served().await;
    let holder = process(&server.url(), 30 * SECOND).await;
    let _guard = take(&holder, "k").await;
    let others = begun(&mut db, "SELECT FROM leasehold.lease FOR UPDATE").await;
    let store = store(&server.url());
    store.open().await.unwrap();
    let answer = store.grant(&attempt(1, 30 * SECOND), WaitMode::Try).await;
    assert!(matches!(answer, Ok(GrantAnswer::Busy { .. })), "{answer:?}");
    others.rollback().await.unwrap();
}

/// Whatever the role has set. A trigger looks at the end of each transaction.
#[tokio::test(flavor = "multi_thread")]
async fn grants_renewals_hand_overs_and_marks_are_committed_durably() {
    let (server, db) = served().await;
    let looks = "CREATE FUNCTION looks() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF current_setting('synchronous_commit') <> 'on' THEN RAISE EXCEPTION 'it is not durable'; END IF;
        RETURN NULL; END $$;
        CREATE CONSTRAINT TRIGGER looks AFTER INSERT OR UPDATE ON leasehold.lease DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (NEW.holder IS NOT NULL OR NEW.marker IS NOT NULL) EXECUTE FUNCTION looks();
        CREATE CONSTRAINT TRIGGER looks AFTER INSERT OR UPDATE ON leasehold.mark DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION looks()";
    db.batch_execute(looks).await.unwrap();
    let url = role(&db, &server, &["synchronous_commit = off"]).await;
    let [here, there] = two(&url, 30 * SECOND).await;
    let guard = take(&here, "k").await;
    guard.renew(30 * SECOND).await.unwrap();
    let waits = tokio::spawn(request(&there, "k"));
    until_told(&db).await;
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
    let reader = here.rw_lock("r").read().await.unwrap();
    reader.renew(30 * SECOND).await.unwrap();
    reader.release().await.unwrap();
    // A hand-over that the functions do not serve.
    let writer = here.rw_lock("w").write().await.unwrap();
    let waits = tokio::spawn(there.rw_lock("w").read().within(20 * SECOND).into_future());
    until_told(&db).await;
    writer.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
    here.mutex_all(["a", "b"]).lock().await.unwrap().release().await.unwrap();
    here.once("done").run(async |_| Ok::<_, ()>(())).await.unwrap();
}

/// The key would be handed to the waiter, if the row were not locked.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_for_a_lock_that_has_ended_is_not_its_holder() {
    let (server, mut db) = served().await;
    let gone = store(&server.url());
    let other = process(&server.url(), 30 * SECOND).await.with_outage_limit(SECOND);
    gone.grant(&attempt(1, SECOND), WaitMode::Try).await.unwrap();
    gone.grant(&attempt(2, SECOND), WaitMode::Wait { queue_limit: None }).await.unwrap();
    let others = begun(&mut db, "SELECT FROM leasehold.lease FOR UPDATE").await;
    let ended = "SELECT ends < leasehold.now_micros() FROM leasehold.lease";
    until("the lease has ended", async || others.query_one(ended, &[]).await.unwrap().get(0)).await;
    let error = other.mutex("k").try_lock().await.unwrap_err().to_string();
    assert!(error.contains("another transaction"), "{error}");
}

/// The store locks rows in the order of their keys; another transaction need not.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadlock_with_another_transaction_is_resolved() {
    let server = server(&["deadlock_timeout=100ms"]).await;
    let (mut others, looks) = (db(&server).await, db(&server).await);
    // So that the server aborts the store's transaction.
    others.batch_execute("SET deadlock_timeout = '20s'").await.unwrap();
    let locks = process(&server.url(), 10 * SECOND).await;
    locks.mutex_all(["a", "b"]).lock().await.unwrap().release().await.unwrap();
    let said = || std::fs::read_to_string(server.directory().join("log")).unwrap();
    while !said().contains("deadlock detected") {
        let transaction = others.transaction().await.unwrap();
        transaction.batch_execute("SELECT FROM leasehold.lease WHERE key = 'b' FOR UPDATE").await.unwrap();
        let takes = tokio::spawn(locks.mutex_all(["a", "b"]).lock().within(20 * SECOND));
        until_session(&looks, "wait_event_type = 'Lock'").await;
        transaction.batch_execute("SELECT FROM leasehold.lease WHERE key = 'a' FOR UPDATE").await.unwrap();
        transaction.commit().await.unwrap();
        takes.await.unwrap().unwrap().release().await.unwrap();
    }
}

/// Regression: `REINDEX CONCURRENTLY` can refuse one of two inserts; the request failed for good.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_two_add_at_once_while_its_index_is_rebuilt_is_asked_for_again() {
    let (server, db) = served().await;
    // The statement that serves most requests, and the transaction after it.
    let refuses_twice = "CREATE SEQUENCE refused;
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('refused') <= 2 THEN RAISE unique_violation; END IF;
            RETURN new;
        END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON leasehold.lease FOR EACH ROW EXECUTE FUNCTION refuse()";
    db.batch_execute(refuses_twice).await.unwrap();
    take(&process(&server.url(), 5 * SECOND).await, "k").await.release().await.unwrap();
    assert!(db.query_one("SELECT last_value > 2 FROM refused", &[]).await.unwrap().get::<_, bool>(0));
}

/// The file of the table is `/dev/full`, to which the kernel refuses to write for want of space.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_named_and_nothing_is_taken_and_space_is_enough_to_mend_it() {
    let server = server(&[]).await;
    let locks = process(&server.url(), 5 * SECOND).await;
    let path = db(&server).await.query_one("SELECT pg_relation_filepath('leasehold.lease')", &[]).await;
    let file = server.directory().join("data").join(path.unwrap().get::<_, &str>(0));
    block_in_place(|| {
        server.kill_9();
        std::fs::rename(&file, file.with_extension("kept")).unwrap();
        std::os::unix::fs::symlink("/dev/full", &file).unwrap();
        server.restart();
    });
    let error = locks.mutex("k").lock().within(5 * SECOND).await.unwrap_err().to_string();
    assert!(error.contains("disk is full") && error.contains("free some space"), "{error}");
    // The table gets a new file.
    db(&server).await.batch_execute("TRUNCATE leasehold.lease").await.unwrap();
    take(&locks, "k").await.release().await.unwrap();
}

async fn with_a_short_queue() -> Postgres {
    let programs = Postgres::programs_of(18).expect("PostgreSQL 18");
    let server = block_in_place(|| Postgres::of(&programs, &["max_notify_queue_pages=64"]));
    init(&server.url()).await.unwrap();
    server
}

/// Fills the server's queue of messages, which the first client keeps by listening in a transaction.
async fn full_queue(server: &Postgres) -> (Client, Client) {
    let (keeper, notifier) = (db(server).await, db(server).await);
    keeper.batch_execute("LISTEN other; BEGIN; SELECT pg_catalog.pg_current_xact_id()").await.unwrap();
    for length in [7000, 100] {
        let fill =
            format!("SELECT pg_notify('other', n || repeat('x', {length})) FROM generate_series(1, 10) AS n");
        while notifier.batch_execute(&fill).await.is_ok() {}
    }
    (keeper, notifier)
}

/// Regression: it counted as a lost connection, so a busy server had to serve more of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_a_server_refuses_because_its_queue_is_full_costs_no_connection() {
    let server = with_a_short_queue().await;
    let [holder, other] = two(&server.url(), 2 * SECOND).await;
    let guard = take(&holder, "k").await;
    let (_keeper, notifier) = full_queue(&server).await;
    let before = sessions(&notifier, "true").await;
    other.break_lease("k", guard.fence()).await.unwrap();
    // It was not told, and finds out when it renews the lease.
    guard.lost().await;
    take(&other, "k").await.release().await.unwrap();
    assert_eq!(sessions(&notifier, "true").await, before);
}

/// Regression: a full queue stays full until somebody asks how full it is: waiters polled for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_of_messages_is_named_and_is_emptied_once_that_is_possible() {
    let server = with_a_short_queue().await;
    let [holder, other] = two(&server.url(), 30 * SECOND).await;
    let guard = take(&holder, "k").await;
    let (keeper, notifier) = full_queue(&server).await;
    let found = other.diagnose().await;
    let push = found.iter().find(|finding| finding.about == "push").expect("a finding");
    assert!(push.what.contains("queue of notifications is full"), "{push:?}");
    assert_eq!(push.remedy, Remedy::Nothing, "{push:?}");

    keeper.batch_execute("COMMIT").await.unwrap();
    assert!(notifier.batch_execute("NOTIFY other").await.is_err(), "the server empties it by itself");
    let waits = tokio::spawn(request(&other, "k"));
    until_told(&notifier).await;
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

/// Regression: only a user's own sessions were counted, so a lack of connections went unnoticed.
#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_counts_the_connections_of_all_users() {
    let server = server(&["max_connections=20", "superuser_reserved_connections=0"]).await;
    let owner = db(&server).await;
    let locks = process(&role(&owner, &server, &[]).await, 5 * SECOND).await;
    let about = async || locks.diagnose().await.into_iter().any(|finding| finding.about == "connections");
    assert!(!about().await);
    let mut others = Vec::new();
    while others.len() < 16 {
        others.push(db(&server).await);
    }
    assert!(about().await);
}

/// Regression: if the procedure could not notify after its commit, the holder was told of a loss.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_by_a_role_that_may_not_notify_is_no_loss() {
    let (server, db) = served().await;
    let url = role(&db, &server, &[]).await;
    db.batch_execute("REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC").await.unwrap();
    let (holder, next) = (process(&url, 30 * SECOND).await, process(&server.url(), 30 * SECOND).await);
    let guard = take(&holder, "k").await;
    let waits = tokio::spawn(request(&next, "k"));
    until_told(&db).await;
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

/// Regression: the remedy was to see that the server runs and can be reached.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_free_connection_is_named_and_so_is_the_remedy() {
    let (server, db) = served().await;
    let url = role(&db, &server, &[]).await;
    let locks = Locks::builder().outage_limit(SECOND / 2).unopened(&url).unwrap();
    db.batch_execute("ALTER ROLE web CONNECTION LIMIT 0").await.unwrap();
    let refused = locks.mutex("k").try_lock().await.unwrap_err().to_string();
    assert!(refused.contains("not served") && refused.contains("raise max_connections"), "{refused}");
    let findings = locks.diagnose().await;
    let found = findings.iter().find(|finding| finding.what.contains("raise max_connections"));
    assert_eq!(found.map(|finding| &finding.remedy), Some(&Remedy::Nothing), "{findings:?}");
}
