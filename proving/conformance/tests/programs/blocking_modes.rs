//! Readers, permits and jobs of blocking programs, in a plain thread and inside async runtimes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use leasehold::blocking::Locks;
use leasehold::{EveryOutcome, JobError, LockError, MarkError, NotDue, OnceOutcome};
use servers::{Flavor, Server};
use tokio::runtime::{Builder, Runtime};

use super::place::on_every_store;

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);

type Fine = Result<u32, String>;

/// Runs a test in a plain thread and in a task of each kind of runtime.
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
        let again = once.run(|_| Fine::Ok(9)).unwrap();
        assert!(matches!(again, OnceOutcome::AlreadyDone { .. }), "{again:?}");
        let every = locks.every(HOUR, format!("report:{name}"));
        assert_eq!(every.run(|_| Fine::Ok(name)).unwrap(), EveryOutcome::Ran(name));
        let again = every.run(|_| Fine::Ok(9)).unwrap();
        assert!(matches!(again, EveryOutcome::NotDue(NotDue::Until { .. })), "{again:?}");
        locks.close(SECOND).unwrap();
    });
}
