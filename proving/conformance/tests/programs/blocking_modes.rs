//! Readers, permits and jobs for blocking programs: in a plain thread, and even in an async
//! runtime.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::blocking::Locks;
use leasehold::{EveryOutcome, JobError, LockError, MarkError, Misuse, NotDue, OnceOutcome};
use servers::{Flavor, Server};
use tokio::runtime::{Builder, Runtime};

use super::place::on_every_store;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

type Fine = Result<u32, String>;

/// Runs a test in a plain thread, in a task of a single-threaded runtime, and in one of a
/// multi-threaded runtime.
fn in_every_surrounding(test: impl Fn() + Send + Sync + Clone + 'static) {
    test();
    let runtimes: [fn() -> Runtime; 2] = [
        || Builder::new_current_thread().enable_all().build().unwrap(),
        || Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    ];
    for runtime in runtimes {
        let test = test.clone();
        runtime().block_on(async { tokio::spawn(async move { test() }).await.unwrap() });
    }
}

#[test]
fn readers_hold_together_and_a_writer_alone() {
    on_every_store(|connect| {
        let (here, there) = (connect(), connect());
        let reading = here.rw_lock("doc").label("reader").read().wait().unwrap();
        let another = there.rw_lock("doc").try_read().unwrap().expect("readers hold together");
        assert!(there.rw_lock("doc").try_write().unwrap().is_none());
        let error = there.rw_lock("doc").write().within(Duration::ZERO).wait().unwrap_err();
        assert!(matches!(error, LockError::TimedOut { .. }), "{error}");
        reading.release().unwrap();
        another.release().unwrap();
        let writing = there.rw_lock("doc").write().within(5 * SECOND).wait().unwrap();
        assert!(here.rw_lock("doc").try_read().unwrap().is_none());
        writing.release().unwrap();
        let both = here.rw_lock_all(["a", "b"]).write().wait().unwrap();
        assert!(there.rw_lock("b").try_read().unwrap().is_none());
        both.release().unwrap();
    });
}

#[test]
fn there_are_as_many_permits_as_were_named_and_no_more() {
    on_every_store(|connect| {
        const PERMITS: u32 = 3;
        let (inside, most, turns) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let gpus = connect().semaphore("gpus", PERMITS);
                    for _ in 0..10 {
                        let guard = gpus.acquire().within(30 * SECOND).wait().unwrap();
                        let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        thread::sleep(Duration::from_millis(2));
                        inside.fetch_sub(1, Ordering::SeqCst);
                        turns.fetch_add(1, Ordering::SeqCst);
                        guard.release().unwrap();
                    }
                });
            }
        });
        assert_eq!(turns.into_inner(), 60);
        assert!((2..=PERMITS).contains(&most.into_inner()), "together, and no more than there are");

        let gpus = connect().semaphore("gpus", PERMITS);
        let two = gpus.acquire_many(2).wait().unwrap();
        assert!(gpus.try_acquire_many(2).unwrap().is_none());
        let one = gpus.try_acquire().unwrap().expect("one is left");
        one.release().unwrap();
        two.release().unwrap();
        let error = gpus.acquire_many(PERMITS + 1).wait().unwrap_err();
        assert!(matches!(error, LockError::Misuse(_)), "{error}");
    });
}

#[test]
fn one_of_several_threads_that_start_at_once_does_the_job() {
    on_every_store(|connect| {
        let (ran, in_period) = (AtomicU32::new(0), AtomicU32::new(0));
        let counted = |count: &AtomicU32| {
            thread::sleep(Duration::from_millis(20));
            Fine::Ok(count.fetch_add(1, Ordering::SeqCst))
        };
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let locks = connect();
                    locks.every(HOUR, "report").run(|_| counted(&in_period)).unwrap();
                    locks.once("migrate").run(|_| counted(&ran)).unwrap();
                    assert_eq!(ran.load(Ordering::SeqCst), 1, "whoever goes on knows that it is done");
                });
            }
        });
        assert_eq!(in_period.into_inner(), 1);
        let locks = connect();
        let again = locks.once("migrate").run(|_| Fine::Ok(9)).unwrap();
        assert!(matches!(again, OnceOutcome::AlreadyDone { .. }), "{again:?}");
        let again = locks.every(HOUR, "report").run(|_| Fine::Ok(9)).unwrap();
        assert!(matches!(again, EveryOutcome::NotDue(NotDue::Until { .. })), "{again:?}");
        assert!(locks.once("migrate").mark().unwrap().is_some());
    });
}

#[test]
fn a_job_that_failed_or_was_dropped_is_left_to_the_next() {
    on_every_store(|connect| {
        let locks = connect();
        let failed = locks.once("migrate").run(|_| Err::<u32, _>("no room")).unwrap_err();
        assert_eq!(failed, JobError::Failed("no room"));
        let doing = locks.once("migrate").begin().unwrap().unwrap();
        let underway = connect().every(HOUR, "migrate").begin().unwrap().unwrap_err();
        assert!(matches!(underway, NotDue::Underway { held_by: Some(_), mark: None }), "{underway:?}");
        drop(doing);
        let doing = locks.once("migrate").within(5 * SECOND).begin().unwrap().unwrap();
        let fence = doing.held().fence();
        doing.done().unwrap();
        assert_eq!(connect().once("migrate").mark().unwrap().unwrap().fence, fence);
    });
}

#[test]
fn work_that_outlived_its_lock_is_refused_a_mark() {
    let server = Server::start(Flavor::Redis82);
    let locks = Locks::connect(&server.url()).unwrap();
    let late = locks.once("migrate").run(|held| {
        assert!(held.is_held());
        server.text(&["SET", "migrate", "another"]);
        Fine::Ok(1)
    });
    assert!(matches!(late, Err(JobError::NotMarked(MarkError::Lost(_)))), "{late:?}");
    assert_eq!(locks.once("migrate").mark().unwrap(), None);
}

/// Each operation waits on its own thread, so it hangs in none of these.
#[test]
fn all_of_it_works_outside_of_a_runtime_and_inside_of_one() {
    let server = Server::start(Flavor::Valkey91);
    let url = server.url();
    let runs = std::sync::Arc::new(AtomicU32::new(0));
    in_every_surrounding(move || {
        let name = runs.fetch_add(1, Ordering::SeqCst);
        let locks = Locks::connect(&url).unwrap();
        // More than tokio lets a task do without a pause.
        for _ in 0..150 {
            locks.rw_lock("doc").read().wait().unwrap().release().unwrap();
            locks.semaphore("gpus", 2).acquire().wait().unwrap().release().unwrap();
        }
        let once = locks.once(format!("migrate:{name}"));
        assert_eq!(once.run(|_| Fine::Ok(name)).unwrap(), OnceOutcome::Ran(name));
        let every = locks.every(HOUR, format!("report:{name}"));
        assert_eq!(every.run(|_| Fine::Ok(name)).unwrap(), EveryOutcome::Ran(name));
        locks.close(SECOND).unwrap();
    });
}

#[test]
fn a_period_that_cannot_be_is_a_misuse() {
    let error = Locks::in_memory().unwrap().every(Duration::ZERO, "report").begin().unwrap_err();
    assert!(error.to_string().contains(&Misuse::PeriodOutOfRange { period: Duration::ZERO }.to_string()));
}
