//! Servers that are killed, that hang, and that cut connections.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use conformance::events::wait_for;
use leasehold::postgres::PostgresStore;
use leasehold::{Event, LockError, Locks, TokioRuntime};
use leasehold_core::{
    Attempt, BoxFuture, Claim, GrantAnswer, HoldAnswer, Holder, Key, Runtime, Store as _, Ttl, WaitMode,
};
use rustix::process::Signal;
use tokio::runtime::Builder;
use tokio::task::{JoinSet, block_in_place};
use tokio_postgres::Client;

use crate::world::{
    BUSY, Crowd, process, request, served, server, sessions, signal, store, take, terminate, two, until,
    until_found, until_session, until_told,
};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_and_restarted_grants_nothing_twice_and_forgets_no_lease() {
    let server = server(&[]).await;
    let [holder, other] = two(&server.url(), 30 * SECOND).await;
    let kept = take(&holder, "kept").await;
    let crowd = Crowd::start(&two(&server.url(), 2 * SECOND).await, "k");
    for _ in 0..3 {
        crowd.goes_on(20).await;
        block_in_place(|| {
            server.kill_9();
            server.restart();
        });
    }
    crowd.goes_on(20).await;
    crowd.end().await;
    assert!(kept.is_held());
    assert!(other.mutex("kept").try_lock().await.unwrap().is_none(), "a lease is gone with the server");
    kept.renew(30 * SECOND).await.unwrap();
    kept.release().await.unwrap();
    take(&other, "kept").await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_terminated_again_and_again_break_no_promise() {
    let (server, db) = served().await;
    let crowd = Crowd::start(&two(&server.url(), 2 * SECOND).await, "k");
    for _ in 0..15 {
        crowd.goes_on(4).await;
        terminate(&db, "true").await;
    }
    crowd.goes_on(20).await;
    crowd.end().await;
    let left = db.query_one("SELECT count(*) FROM leasehold.waiter", &[]).await.unwrap();
    assert_eq!(left.get::<_, i64>(0), 0, "waiters are left");
}

/// While it hangs, leases end by its clock.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_for_longer_than_leases_last_grants_nothing_twice() {
    let server = server(&[]).await;
    let holder = process(&server.url(), SECOND).await;
    let crowd = Crowd::start(&two(&server.url(), SECOND).await, "k");
    for _ in 0..2 {
        crowd.goes_on(20).await;
        let stalled = take(&holder, "stalled").await;
        server.stop();
        stalled.lost().await;
        server.cont();
    }
    crowd.goes_on(20).await;
    crowd.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_hangs_is_named_as_the_cause_and_so_is_one_that_is_gone() {
    let server = server(&[]).await;
    let locks = Locks::builder().outage_limit(SECOND).connect(&server.url()).await.unwrap();
    take(&locks, "k").await.release().await.unwrap();
    server.stop();
    let error = locks.mutex("k").lock().await.unwrap_err();
    assert!(matches!(error, LockError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("no answer"), "{error}");
    server.cont();
    take(&locks, "k").await.release().await.unwrap();
    server.kill_9();
    let error = locks.mutex("k").lock().await.unwrap_err();
    assert!(error.to_string().contains("refused"), "{error}");
    server.restart();
    // A lock released just before the kill may still be held: an answered release is not flushed.
    take(&locks, "another").await.release().await.unwrap();
}

/// With synchronous replication and no standby, a commit is done, and its answer never comes.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_whose_commit_was_never_answered_is_given_back() {
    // Several keys are granted in a transaction of several statements.
    for keys in [&["k"][..], &["k", "l"]] {
        let (server, db) = served().await;
        let url = server.url();
        let asks = Locks::builder().ttl(60 * SECOND).outage_limit(SECOND).connect(&url).await.unwrap();
        let other = process(&url, 60 * SECOND).await;
        standby(&db, "nobody").await;
        // The server waits for a standby only once its checkpointer has read the settings.
        let asked = tokio::spawn(async move {
            loop {
                match asks.mutex_all(keys).lock().await {
                    Ok(guard) => drop(guard.release().await.unwrap()),
                    Err(error) => return (error, asks),
                }
            }
        });
        until_session(&db, WAITS_FOR_A_STANDBY).await;
        let (error, _asks) = asked.await.unwrap();
        assert!(matches!(error, LockError::Unreachable { .. }), "{error:?}");
        standby(&db, "").await;
        // The lease that it was granted would last a minute.
        for name in keys {
            take(&other, name).await.release().await.unwrap();
        }
    }
}

/// Regression: its error named another transaction as if nobody knew why that did not end.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_behind_a_grant_that_waits_for_a_standby_learns_what_that_waits_for() {
    let (server, db) = served().await;
    let url = server.url();
    let asks = Locks::builder().ttl(60 * SECOND).outage_limit(SECOND).connect(&url).await.unwrap();
    let other = Locks::builder().outage_limit(3 * SECOND).connect(&url).await.unwrap();
    standby(&db, "nobody").await;
    let waits = tokio::spawn(async move { while let Ok(_guard) = asks.mutex("k").lock().await {} });
    until_session(&db, WAITS_FOR_A_STANDBY).await;
    // Its last question may be cut short by its limit, and learn nothing.
    until("the error names the standby", async || {
        let error = other.mutex("k").lock().await.unwrap_err();
        error.to_string().contains("change synchronous_standby_names")
    })
    .await;
    standby(&db, "").await;
    waits.await.unwrap();
}

/// A runtime of which one task panics when it is told to.
#[derive(Debug)]
struct Fragile {
    runtime: TokioRuntime,
    /// How many tasks are started before that one.
    before: AtomicUsize,
    breaks: Arc<AtomicBool>,
}

impl Runtime for Fragile {
    fn now(&self) -> leasehold_core::Instant {
        self.runtime.now()
    }

    fn since_epoch(&self) -> Duration {
        self.runtime.since_epoch()
    }

    fn sleep_until(&self, at: leasehold_core::Instant) -> BoxFuture<'static, ()> {
        self.runtime.sleep_until(at)
    }

    fn spawn(&self, mut task: BoxFuture<'static, ()>) {
        if self.before.fetch_sub(1, Ordering::SeqCst) != 0 {
            return self.runtime.spawn(task);
        }
        let breaks = self.breaks.clone();
        self.runtime.spawn(Box::pin(poll_fn(move |context| {
            assert!(!breaks.load(Ordering::SeqCst), "a bug of the task");
            task.as_mut().poll(context)
        })));
    }

    fn random(&self) -> u128 {
        self.runtime.random()
    }
}

/// Regression: once the task that sends requests had panicked, waiters were never told of their turn
/// again.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_told_of_their_turn_again_after_the_task_that_sends_requests_has_panicked() {
    waiters_are_told_again_after_a_panic(0).await;
}

/// Regression: the same after the task that listens had panicked. It is started after the task that
/// sends requests and that of the connection for them.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_told_of_their_turn_again_after_the_task_that_listens_has_panicked() {
    waiters_are_told_again_after_a_panic(2).await;
}

/// The task that panics is started after so many others.
async fn waiters_are_told_again_after_a_panic(before: usize) {
    let (server, db) = served().await;
    let holder = process(&server.url(), 60 * SECOND).await;
    let breaks = Arc::<AtomicBool>::default();
    let runtime = TokioRuntime::current().unwrap();
    let runtime = Fragile { runtime, before: before.into(), breaks: breaks.clone() };
    let store = PostgresStore::from_url(&server.url(), Arc::new(runtime)).unwrap();
    let locks = Locks::builder().over(Arc::new(store)).unwrap();
    let _guards = [take(&holder, "k").await, take(&holder, "l").await];
    let _waits = tokio::spawn(locks.mutex("k").lock().into_future());
    until_told(&db).await;
    let listener = db.query_one("SELECT pid FROM pg_locks WHERE locktype = 'advisory'", &[]).await.unwrap();
    breaks.store(true, Ordering::SeqCst);
    take(&locks, "other").await.release().await.unwrap();
    let is_left = format!("pid = {}", listener.get::<_, i32>(0));
    until("its connection is closed", async || sessions(&db, &is_left).await.is_empty()).await;
    let listens = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted";
    until_found("it listens on a new connection", &db, listens).await;
    let _waits = tokio::spawn(locks.mutex("l").lock().into_future());
    let told = "SELECT FROM leasehold.waiter AS w JOIN pg_locks AS l ON l.locktype = 'advisory' \
        AND w.channel = (l.classid::bigint << 32 | l.objid::bigint) WHERE w.key = 'l'";
    until_found("it can be told of its turn", &db, told).await;
}

/// Regression: the error said that the runtime had ended.
#[test]
fn a_runtime_that_was_built_without_io_is_named_as_the_cause() {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let connecting = Locks::builder().outage_limit(SECOND / 2).connect("postgres://127.0.0.1/db");
    let error = runtime.block_on(connecting).unwrap_err();
    assert!(error.to_string().contains("built without enable_all"), "{error}");
}

/// Names the standby for which commits wait.
async fn standby(db: &Client, names: &str) {
    db.batch_execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'")).await.unwrap();
    db.batch_execute("SELECT pg_reload_conf()").await.unwrap();
}

/// The condition of a session with a commit that waits for a standby.
const WAITS_FOR_A_STANDBY: &str = "wait_event = 'SyncRep'";

/// The connection breaks after the commit that hands the lock to a waiter of the same process.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_turn_was_in_an_answer_that_is_lost_asks_at_once() {
    let (server, db) = served().await;
    let locks = process(&server.url(), 60 * SECOND).await;
    let mut told_after = Vec::new();
    // By itself it asks after at least two and a half seconds. On a busy machine, so may others.
    while told_after.len() < 5 {
        let guard = take(&locks, "k").await;
        let waits = request(&locks, "k");
        let waits = tokio::spawn(async move { (waits.await.unwrap(), Instant::now()) });
        let told = "SELECT FROM leasehold.waiter WHERE channel >= 0";
        until_found("it can be told of its turn", &db, told).await;
        standby(&db, "nobody").await;
        let releases = tokio::spawn(guard.release());
        // The server may not have read the setting yet, and then answers.
        until("it waits for a standby", async || {
            releases.is_finished() || !sessions(&db, WAITS_FOR_A_STANDBY).await.is_empty()
        })
        .await;
        terminate(&db, WAITS_FOR_A_STANDBY).await;
        let (broken, is_lost) = (Instant::now(), !releases.is_finished());
        standby(&db, "").await;
        // It may be in doubt.
        drop(releases.await.unwrap());
        let (guard, told) = waits.await.unwrap();
        guard.release().await.unwrap();
        told_after.extend(is_lost.then(|| told.saturating_duration_since(broken)));
        if told_after.last().is_some_and(|after| *after < SECOND) {
            return;
        }
    }
    panic!("{told_after:?}");
}

/// A runtime may drop the task that serves requests after a release that waits for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_guard_is_released_although_its_runtime_has_ended() {
    let server = server(&[]).await;
    let other = process(&server.url(), 60 * SECOND).await;
    for tasks_before in 0..16 {
        let url = server.url();
        let took = tokio::task::spawn_blocking(move || {
            let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
            runtime.block_on(async {
                for _ in 0..tasks_before {
                    tokio::spawn(async {}).await.unwrap();
                }
                let locks = process(&url, 60 * SECOND).await;
                drop(take(&locks, "k").await);
            });
            let begun = Instant::now();
            drop(runtime);
            begun.elapsed()
        });
        let took = took.await.unwrap();
        assert!(!other.mutex("k").is_locked().await.unwrap(), "after {tasks_before} other tasks");
        assert!(took < SECOND, "after {tasks_before} other tasks: {took:?}");
    }
}

/// They ask once before, without a channel.
#[tokio::test(flavor = "multi_thread")]
async fn all_waiters_of_a_process_ask_again_once_it_listens() {
    let (server, db) = served().await;
    let [holder, other] = two(&server.url(), 60 * SECOND).await;
    let guard = take(&holder, "k").await;
    let mut waits = JoinSet::new();
    for request in [(); 3].map(|()| request(&other, "k")) {
        waits.spawn(async move { request.await.unwrap().release().await.unwrap() });
    }
    let told = "SELECT FROM leasehold.waiter WHERE channel >= 0 HAVING count(*) = 3";
    until_found("all of them can be told of their turn", &db, told).await;
    guard.release().await.unwrap();
    waits.join_all().await;
}

/// Regression: the listener blamed a pooler, because the connection for requests was not back yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_is_back_first_blames_no_pooler_and_tries_again_soon() {
    let (server, db) = served().await;
    let mut owner = crate::world::db(&server).await;
    let [holder, waiter] = two(&server.url(), 60 * SECOND).await;
    let guard = take(&holder, "k").await;
    let mut events = waiter.events();
    let waits = tokio::spawn(request(&waiter, "k"));
    let listens = "SELECT FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock'";
    until_found("it listens", &db, listens).await;
    // Only the connection for requests reads this table.
    let locked = owner.transaction().await.unwrap();
    locked.batch_execute("LOCK TABLE leasehold.meta IN ACCESS EXCLUSIVE MODE").await.unwrap();
    terminate(&db, "true").await;
    let down = wait_for(&mut events, BUSY, |event| {
        matches!(event, Event::PushDown { .. }).then(|| format!("{event:?}"))
    });
    let down = down.await;
    assert!(!down.contains("pooler"), "{down}");
    locked.rollback().await.unwrap();
    wait_for(&mut events, BUSY, |event| matches!(event, Event::PushBack { .. }).then_some(())).await;
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

/// Otherwise they could come from a server that another one has replaced, whose clock would date them.
#[tokio::test(flavor = "multi_thread")]
async fn when_requests_get_another_connection_so_do_notifications() {
    let (server, db) = served().await;
    let [holder, waiter] = two(&server.url(), 60 * SECOND).await;
    let guard = take(&holder, "k").await;
    let waits = tokio::spawn(request(&waiter, "k"));
    // Another session may listen before the first has ended.
    let listeners = async || -> Vec<i32> {
        let listeners =
            "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted";
        db.query(listeners, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    until("it listens", async || !listeners().await.is_empty()).await;
    let first = listeners().await[0];
    terminate(&db, &format!("pid <> {first}")).await;
    until("there is a new connection for requests", async || waiter.inspect("k").await.is_ok()).await;
    until("another session listens", async || listeners().await.iter().any(|session| *session != first))
        .await;
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();
}

/// Regression: the connection of a request without an answer was used for all later ones, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_hangs_is_replaced() {
    let (server, db) = served().await;
    let locks = process(&server.url(), 10 * SECOND).await;
    let kept = take(&locks, "kept").await;
    // Its row is there, so that the next grant adds nothing, after which the table is swept.
    take(&locks, "another").await.release().await.unwrap();
    let hung = sessions(&db, "true").await;
    signal(&hung, Signal::STOP);
    take(&locks, "another").await.release().await.unwrap();
    kept.release().await.unwrap();
    signal(&hung, Signal::CONT);
}

/// Regression: when a session hung, a mark that was to be forgotten kept all other requests waiting for
/// ten seconds, which was longer than the lease.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_besides_locks_costs_no_lease_when_its_session_hangs() {
    let (server, db) = served().await;
    let locks = process(&server.url(), 5 * SECOND).await;
    let kept = take(&locks, "kept").await;
    // The sweep after that grant has ended by then.
    locks.inspect("kept").await.unwrap();
    let hung = sessions(&db, "true").await;
    signal(&hung, Signal::STOP);
    let refused = locks.forget("job").await.unwrap_err().to_string();
    until("a request is served on another connection", async || locks.inspect("k").await.is_ok()).await;
    tokio::time::sleep(5 * SECOND).await;
    assert!(kept.is_held(), "{:?}", kept.held().loss());
    signal(&hung, Signal::CONT);
    assert!(refused.contains("no answer"), "{refused}");
}

/// If each were then asked for alone, the session would keep all requests waiting.
#[tokio::test(flavor = "multi_thread")]
async fn many_leases_that_are_renewed_together_wait_for_a_session_that_hangs_only_once() {
    let (server, db) = served().await;
    let store = store(&server.url());
    let reader = |who: u128| {
        let claim = Claim::shared([Key::new(format!("read:{who}")).unwrap()]).unwrap();
        Attempt::new(claim, Holder::from_bits(who), None, Ttl::new(60 * SECOND).unwrap())
    };
    let readers: Vec<_> = (1..=20).map(reader).collect();
    for reader in &readers {
        let answer = store.grant(reader, WaitMode::Try).await.unwrap();
        assert!(matches!(answer, GrantAnswer::Granted { .. }), "{answer:?}");
    }
    let hung = sessions(&db, "true").await;
    signal(&hung, Signal::STOP);
    until("they are renewed on another connection", async || {
        store.renew(&readers).await.iter().all(|answer| *answer == Ok(HoldAnswer::Done))
    })
    .await;
    signal(&hung, Signal::CONT);
}

/// Regression: after an unanswered transaction, what came next on its connection was never committed.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_after_a_transaction_without_an_answer_is_no_part_of_it() {
    let server = server(&[]).await;
    let [locks, other] = two(&server.url(), 60 * SECOND).await;
    for n in 0..3 {
        server.stop();
        // Served in a transaction of several statements, unlike a mutex.
        let reads = tokio::spawn(locks.rw_lock("read").read().within(SECOND));
        // A transaction may take three calls of half a second.
        tokio::time::sleep(SECOND + SECOND / 4).await;
        let key = format!("taken:{n}");
        let takes = tokio::spawn(request(&locks, &key));
        tokio::time::sleep(SECOND * 2 / 5).await;
        server.cont();
        let guard = takes.await.unwrap().unwrap();
        assert!(reads.await.unwrap().is_err());
        // An open transaction that nobody continues ends by then.
        tokio::time::sleep(SECOND * 3 / 2).await;
        assert!(guard.is_held());
        assert!(other.mutex(&*key).try_lock().await.unwrap().is_none(), "two hold {key}");
        guard.release().await.unwrap();
    }
}
