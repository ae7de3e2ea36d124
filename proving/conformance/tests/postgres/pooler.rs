//! Behind PgBouncer in transaction mode, where any session may serve: all but push works.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use conformance::events::wait_for;
use leasehold::postgres::PostgresStore;
use leasehold::{Event, LockError, Severity, TokioRuntime};
use leasehold_core::{
    AdminStore as _, BoxFuture, GrantAnswer, Instant, Runtime, Store as _, StoreRole, WaitMode, WaitQueue,
};
use rustix::process::Signal;
use servers::Pooler;
use tokio::task::block_in_place;
use tokio_postgres::NoTls;

use crate::world::{Crowd, attempt, db, process, request, server, sessions, signal, store, take, two, until};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_pooler_in_transaction_mode_everything_but_push_works() {
    let server = server(&[]).await;
    let pooler = block_in_place(|| Pooler::before(&server));
    let processes = two(&pooler.url(), 3 * SECOND).await;
    let [here, there] = &processes;
    // A holder outlives its TTL by renewals; a waiter polls until its turn comes.
    let guard = take(here, "k").await;
    let mut events = there.events();
    let waits = tokio::spawn(request(there, "k"));
    let down = wait_for(&mut events, 20 * SECOND, |event| match event {
        Event::PushDown { fault, .. } => Some(fault.to_string()),
        _ => None,
    });
    let fault = down.await;
    assert!(fault.contains("pooler") && fault.contains("name the server itself"), "{fault}");
    let dangers: Vec<_> =
        here.diagnose().await.into_iter().filter(|it| it.severity > Severity::Note).collect();
    let abouts: Vec<_> = dangers.iter().map(|it| it.about).collect();
    // The tests' servers do not wait for their disks.
    assert_eq!(abouts, ["disk", "push"], "{dangers:?}");
    // The first lease would have ended.
    tokio::time::sleep(4 * SECOND).await;
    assert!(guard.is_held() && !waits.is_finished());
    assert_eq!(here.inspect("k").await.unwrap().waiters.len(), 1);
    guard.release().await.unwrap();
    waits.await.unwrap().unwrap().release().await.unwrap();

    let crowd = Crowd::start(&processes, "crowded");
    crowd.goes_on(20).await;
    crowd.end().await;
    let readers = [here.rw_lock("r").read().await.unwrap(), there.rw_lock("r").read().await.unwrap()];
    assert!(here.rw_lock("r").try_write().await.unwrap().is_none());
    drop(readers);
    let permits = here.semaphore("s", 2).acquire_many(2).await.unwrap();
    assert!(there.semaphore("s", 2).try_acquire().await.unwrap().is_none());
    permits.release().await.unwrap();
    here.mutex_all(["a", "b"]).lock().await.unwrap().release().await.unwrap();
    let locks =
        db(&server).await.query_one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", &[]).await;
    assert_eq!(locks.unwrap().get::<_, i64>(0), 0, "a session of the pool keeps a lock");
}

/// Regression: a waiter had no answer until it was known whether push works.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_wait_for_a_lock_that_is_held_names_its_holder() {
    let server = server(&[]).await;
    let pooler = block_in_place(|| Pooler::before(&server));
    let [holder, other] = two(&pooler.url(), 30 * SECOND).await;
    let guard = take(&holder, "k").await;
    let mut events = other.events();
    let error = other.mutex("k").lock().within(SECOND * 3 / 10).await.unwrap_err();
    let LockError::TimedOut { held_by: Some(held_by), .. } = &error else { panic!("{error:?}") };
    assert_eq!(held_by.fence, Some(guard.fence()));
    // The check of push takes a second.
    let first = events.next().await;
    assert!(matches!(&first, Some(Event::Waiting { place: Some(1), .. })), "{first:?}");
}

/// A clock that runs ten times as fast.
#[derive(Debug)]
struct Hasty(TokioRuntime);

impl Runtime for Hasty {
    fn now(&self) -> Instant {
        Instant::from_nanos(10 * self.0.now().as_nanos())
    }

    fn since_epoch(&self) -> Duration {
        self.0.since_epoch()
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        self.0.sleep_until(Instant::from_nanos(at.as_nanos().div_ceil(10)))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }

    fn random(&self) -> u128 {
        self.0.random()
    }
}

/// Regression: each try of push left a channel listening in the pooler: thousands after a day.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_does_not_collect_the_channels_on_which_push_was_tried() {
    let server = server(&["log_statement=all"]).await;
    let pooler = block_in_place(|| Pooler::before(&server));
    let holder = process(&server.url(), 60 * SECOND).await;
    let _guard = take(&holder, "k").await;
    let url = format!("{}?call-limit=5s", pooler.url());
    let waiting = PostgresStore::from_url(&url, Arc::new(Hasty(TokioRuntime::current().unwrap()))).unwrap();
    for _ in 0..2 {
        let findings = waiting.diagnose(StoreRole::Alone).await.findings;
        assert!(findings.iter().any(|it| it.about == "push" && it.severity > Severity::Note), "{findings:?}");
    }
    let answer = waiting.grant(&attempt(1, 60 * SECOND), WaitMode::Wait { queue_limit: None }).await.unwrap();
    assert!(matches!(answer, GrantAnswer::Busy { place: Some(_), .. }), "{answer:?}");
    // One for each process, and those that all processes have in common.
    let log = server.directory().join("log");
    let listens = || {
        let log = fs::read_to_string(&log).unwrap();
        let names = log.lines().filter_map(|line| line.split_once("LISTEN leasehold_"));
        names.map(|(_, name)| name.to_owned()).filter(|name| name != "broken").collect::<Vec<_>>()
    };
    until("push was tried twice more", async || listens().len() >= 4).await;
    let names: BTreeSet<_> = listens().into_iter().collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// Its waiters ask once, and never again.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_behind_a_pooler_that_is_gone_costs_one_claim_window() {
    let server = server(&[]).await;
    let pooler = block_in_place(|| Pooler::before(&server));
    let gone = store(&pooler.url());
    let here = process(&server.url(), 30 * SECOND).await;
    let guard = take(&here, "k").await;
    for who in 1..=3 {
        let answer =
            gone.grant(&attempt(who, 30 * SECOND), WaitMode::Wait { queue_limit: None }).await.unwrap();
        assert!(matches!(answer, GrantAnswer::Busy { place: Some(_), .. }), "{answer:?}");
    }
    let waits = tokio::spawn(request(&here, "k"));
    until("the last one waits", async || here.inspect("k").await.unwrap().waiters.len() == 4).await;
    let released = tokio::time::Instant::now();
    guard.release().await.unwrap();
    let _next = waits.await.unwrap().unwrap();
    let (gap, window) = (released.elapsed(), WaitQueue::CLAIM_WINDOW);
    // Three would take three windows.
    assert!((window..5 * window / 2).contains(&gap), "{gap:?} for three waiters of one process");
}

/// Regression: the pooler's error counted as the answer to a grant, which ran after the release.
#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_the_pooler_gave_up_is_released_also_if_the_server_serves_it_later() {
    let server = server(&[]).await;
    let pooler = block_in_place(|| Pooler::before(&server));
    let (db, (console, connection)) =
        (db(&server).await, tokio_postgres::connect(&pooler.console(), NoTls).await.unwrap());
    tokio::spawn(connection);
    let locks = process(&format!("{}?call-limit=5s", pooler.url()), 60 * SECOND).await;
    take(&locks, "k").await.release().await.unwrap();
    let stopped = sessions(&db, "true").await;
    signal(&stopped, Signal::STOP);
    let mut cycle = tokio::spawn(async move { take(&locks, "k").await.release().await });
    tokio::time::sleep(SECOND / 5).await;
    for command in ["KILL postgres", "RESUME postgres"] {
        console.simple_query(command).await.unwrap();
    }
    // The release must come again once the server has refused the grant, or served it.
    let _ = tokio::time::timeout(2 * SECOND, &mut cycle).await;
    signal(&stopped, Signal::CONT);
    if !cycle.is_finished() {
        cycle.await.unwrap().unwrap();
    }
    until("the sessions are at their ends", async || {
        sessions(&db, "true").await.iter().all(|session| !stopped.contains(session))
    })
    .await;
    let observer = process(&format!("{}?call-limit=5s", server.url()), 60 * SECOND).await;
    assert!(!observer.mutex("k").is_locked().await.unwrap());
}

/// Regression: it counted as a server out of reach, and a command waited for it for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_pooler_in_statement_mode_is_refused_at_once_and_the_error_says_what_to_do() {
    let server = server(&[]).await;
    let pooler = block_in_place(|| Pooler::in_mode("statement", &server));
    let locks = process(&pooler.url(), 5 * SECOND).await;
    let refused = locks.mutex_all(["a", "b"]).lock().await;
    let Err(LockError::Refused { fault, .. }) = &refused else { panic!("{refused:?}") };
    assert!(fault.to_string().contains("use transaction mode"), "{fault}");
    // Regression: the doctor found nothing unsafe, and took the pooler for one in transaction mode.
    let findings = locks.diagnose().await;
    let unsafe_ = findings.iter().find(|finding| finding.severity == Severity::Unsafe);
    assert!(unsafe_.is_some_and(|finding| finding.what.contains("use transaction mode")), "{findings:?}");
}
