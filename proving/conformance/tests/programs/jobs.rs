//! Jobs that run once, and jobs that run once per period.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use leasehold::{
    AnyStore, BeginError, EveryOutcome, InspectError, JobError, LockError, Locks, MarkError, Misuse, NotDue,
    OnceOutcome, Ttl,
};
use servers::{Flavor, Server};
use tokio::task::JoinSet;

use super::place::Place;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

type Fine = Result<u32, String>;

async fn counted(times: &AtomicU32) -> Fine {
    tokio::time::sleep(Duration::from_millis(20)).await;
    Ok(times.fetch_add(1, Ordering::SeqCst))
}

/// exclusive-lock: exclusive initialisation.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_ten_simultaneous_callers_does_the_job_and_the_others_find_it_done() {
    for place in Place::each(Flavor::Valkey91) {
        let times = Arc::new(AtomicU32::new(0));
        let mut all = JoinSet::new();
        for locks in place.ten().await {
            let times = times.clone();
            all.spawn(
                async move { locks.once("migrate").run(async |_| counted(&times).await).await.unwrap() },
            );
        }
        let mut ran = 0;
        for outcome in all.join_all().await {
            match outcome {
                OnceOutcome::Ran(_) => ran += 1,
                OnceOutcome::AlreadyDone { mark } => {
                    assert_eq!(mark.label.unwrap().as_str(), "somebody");
                }
            }
        }
        assert_eq!((ran, times.load(Ordering::SeqCst)), (1, 1), "{}", place.locks().await.store());
        assert!(place.locks().await.inspect("migrate").await.unwrap().holders.is_empty());
    }
}

/// exclusive-lock: `acquire()` returns true in one instance and false in all others; periodic checks.
#[tokio::test(flavor = "multi_thread")]
async fn one_of_ten_simultaneous_callers_does_the_job_in_each_period_and_nobody_waits() {
    for place in Place::each(Flavor::Valkey91) {
        let times = Arc::new(AtomicU32::new(0));
        for round in 1..=3 {
            let mut all = JoinSet::new();
            for locks in place.ten().await {
                let times = times.clone();
                let report = locks.every(SECOND, "report");
                all.spawn(async move { report.run(async |_| counted(&times).await).await.unwrap() });
            }
            let outcomes = all.join_all().await;
            let ran = outcomes.iter().filter(|outcome| matches!(outcome, EveryOutcome::Ran(_))).count();
            assert_eq!((ran, times.load(Ordering::SeqCst)), (1, round), "{}", place.locks().await.store());
            let begun = Instant::now();
            let locks = place.locks().await;
            let report = locks.every(SECOND, "report");
            while report.mark().await.unwrap().is_some_and(|mark| is_of_now(mark.at)) {
                assert!(begun.elapsed() < 5 * SECOND);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

/// True if less than a second has passed since then, by the machine's clock.
fn is_of_now(at: leasehold::Stamp) -> bool {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros();
    now < u128::from(at.as_micros()) + 1_000_100
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_is_not_done_and_the_next_may_try_at_once() {
    for place in Place::each(Flavor::Valkey91) {
        let (here, there) = (place.locks().await, place.locks().await);
        let failed = here.once("migrate").run(async |_| Err::<u32, _>("no room")).await.unwrap_err();
        assert_eq!(failed, JobError::Failed("no room"));
        let failed = here.every(HOUR, "report").run(async |_| Err::<u32, _>("no room")).await.unwrap_err();
        assert_eq!(failed, JobError::Failed("no room"));
        assert_eq!(there.once("migrate").run(async |_| Fine::Ok(2)).await.unwrap(), OnceOutcome::Ran(2));
        assert_eq!(
            there.every(HOUR, "report").run(async |_| Fine::Ok(2)).await.unwrap(),
            EveryOutcome::Ran(2)
        );
        let again = here.every(HOUR, "report").run(async |_| Fine::Ok(3)).await.unwrap();
        let EveryOutcome::NotDue(NotDue::Until { left, .. }) = again else { panic!("{again:?}") };
        assert!(left <= HOUR && left > HOUR - 60 * SECOND, "{left:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_dropped_halfway_is_left_to_the_next_caller() {
    for place in Place::each(Flavor::Valkey91) {
        let (here, there) = (place.locks().await, place.locks().await);
        let doing = here.once("migrate").begin().await.unwrap().unwrap();
        let busy = there.once("migrate").within(Duration::ZERO).begin().await.unwrap_err();
        assert!(matches!(busy, BeginError::NotTaken(LockError::TimedOut { .. })), "{busy:?}");
        drop(doing);
        let next = there.once("migrate").within(5 * SECOND).begin().await.unwrap().unwrap();
        let fence = next.guard().fence();
        next.done().await.unwrap();
        assert_eq!(here.once("migrate").mark().await.unwrap().unwrap().fence, fence);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_later_caller_does_not_run_concurrently_with_the_first() {
    for place in Place::each(Flavor::Valkey91) {
        let (here, there) = (place.locks().await, place.locks().await);
        let doing = here.every(HOUR, "report").begin().await.unwrap().unwrap();
        // Never done before, and somebody is doing it: not due, without waiting.
        let underway = there.every(HOUR, "report").begin().await.unwrap().unwrap_err();
        let NotDue::Underway { held_by: Some(held_by), mark: None } = &underway else {
            panic!("{underway:?}")
        };
        assert_eq!(held_by.fence, Some(doing.guard().fence()));
        doing.done().await.unwrap();
        let done = there.every(HOUR, "report").begin().await.unwrap().unwrap_err();
        assert!(matches!(done, NotDue::Until { .. }), "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_lost_its_lock_is_stopped_and_leaves_no_mark() {
    let place = Place::redis(Flavor::Redis82);
    let locks = place.locks().await;
    let server = place.server.as_ref().unwrap();
    let migration = locks.once("migrate").ttl(SECOND);
    let stopped = migration.run(async |_| {
        server.text(&["DEL", "migrate"]);
        std::future::pending::<Fine>().await
    });
    let stopped = stopped.await.unwrap_err();
    assert!(matches!(stopped, JobError::Lost(_)), "{stopped:?}");
    // The job has begun, but is not done.
    let doing = locks.once("migrate").begin().await.unwrap().unwrap();
    server.text(&["SET", "migrate", "another"]);
    let late = doing.done().await.unwrap_err();
    assert!(matches!(late, MarkError::Lost(_)), "{late:?}");
    assert_eq!(locks.once("migrate").mark().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn marks_outlast_a_server_with_an_append_only_file() {
    let server = Server::setup(Flavor::Valkey91).append_only().arg("appendfsync", "always").start();
    let locks = Locks::connect(&server.url()).await.unwrap();
    assert_eq!(locks.once("migrate").run(async |_| Fine::Ok(1)).await.unwrap(), OnceOutcome::Ran(1));
    assert_eq!(locks.every(HOUR, "report").run(async |_| Fine::Ok(1)).await.unwrap(), EveryOutcome::Ran(1));
    server.kill_9();
    server.restart();
    let again = locks.once("migrate").run(async |_| Fine::Ok(2)).await.unwrap();
    assert!(matches!(again, OnceOutcome::AlreadyDone { .. }), "{again:?}");
    let again = locks.every(HOUR, "report").run(async |_| Fine::Ok(2)).await.unwrap();
    assert!(matches!(again, EveryOutcome::NotDue { .. }), "{again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_majority_remembers_what_one_of_its_stores_forgot() {
    let servers = [Flavor::Valkey91, Flavor::Redis82, Flavor::Redis70].map(Server::start);
    let locks = || {
        let stores = servers
            .iter()
            .map(|server| AnyStore::from_url(&format!("{}?quarantine=no", server.url())).unwrap());
        Locks::quorum(stores, 60 * SECOND).unwrap()
    };
    let (here, there) = (locks(), locks());
    assert_eq!(here.once("migrate").run(async |_| Fine::Ok(1)).await.unwrap(), OnceOutcome::Ran(1));
    let mark = here.once("migrate").mark().await.unwrap();
    servers[0].text(&["FLUSHALL"]);
    assert_eq!(there.once("migrate").mark().await.unwrap(), mark);
    servers[1].kill_9();
    let again = there.once("migrate").run(async |_| Fine::Ok(2)).await.unwrap();
    assert!(matches!(again, OnceOutcome::AlreadyDone { .. }), "{again:?}");
    servers[2].kill_9();
    let unknown = there.once("migrate").run(async |_| Fine::Ok(2)).await.unwrap_err();
    assert!(matches!(unknown, JobError::NotBegun(BeginError::NotKnown(_))), "{unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_is_neither_done_nor_due() {
    let place = Place::redis(Flavor::Redis70);
    let locks = place.locks().await;
    locks.once("migrate").mark().await.unwrap();
    place.server.as_ref().unwrap().kill_9();
    let unknown = locks.every(HOUR, "report").run(async |_| Fine::Ok(1)).await.unwrap_err();
    assert!(
        matches!(unknown, JobError::NotBegun(BeginError::NotKnown(InspectError::Store(_)))),
        "{unknown:?}"
    );
}

/// Regression: it was found only once the job was due.
#[tokio::test]
async fn a_limit_below_the_ttl_is_a_misuse_whether_or_not_the_job_is_due() {
    let locks = Locks::in_memory();
    let (once, every) = (locks.once("migrate"), locks.every(HOUR, "report"));
    let at_most = Duration::from_secs(29);
    let misuse = || Misuse::HoldShorterThanTtl { at_most, ttl: Ttl::DEFAULT };
    for _ in 0..2 {
        let error = once.clone().at_most(at_most).begin().await.unwrap_err();
        assert_eq!(error, BeginError::NotKnown(InspectError::Misuse(misuse())));
        let error = every.clone().at_most(at_most).begin().await.unwrap_err();
        assert_eq!(error, BeginError::NotKnown(InspectError::Misuse(misuse())));
        let ttl = Duration::from_secs(10);
        let _ = once.clone().ttl(ttl).at_most(at_most).run(async |_| Fine::Ok(1)).await.unwrap();
        let _ = every.clone().ttl(ttl).at_most(at_most).run(async |_| Fine::Ok(1)).await.unwrap();
    }
}

#[tokio::test]
async fn a_period_that_cannot_be_is_a_misuse() {
    let locks = Locks::in_memory();
    for period in [Duration::ZERO, Duration::from_millis(999), Duration::MAX] {
        let error = locks.every(period, "report").begin().await.unwrap_err();
        let misuse = Misuse::PeriodOutOfRange { period };
        assert_eq!(error.to_string(), misuse.to_string());
        assert_eq!(error, BeginError::NotKnown(InspectError::Misuse(misuse)));
    }
}
