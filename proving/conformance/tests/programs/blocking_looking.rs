//! Locks seen by a blocking program, and that the blocking API has every function of the async one.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use leasehold::blocking::Locks;
use leasehold::{BreakError, Event, LockError, Loss, MemoryStore, Severity, TokioRuntime};
use servers::{Flavor, Reply, Server};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn the_blocking_api_diagnoses_a_store() {
    let server = Server::start(Flavor::Valkey91);
    let locks = Locks::connect(&server.url()).unwrap();
    let about_eviction = || {
        let findings = locks.diagnose();
        assert!(findings.is_sorted_by(|one, next| one.severity >= next.severity), "the worst first");
        findings.into_iter().find(|finding| finding.what.contains("maxmemory-policy")).map(|it| it.severity)
    };
    server.text(&["CONFIG", "SET", "maxmemory", "100mb"]);
    server.text(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    assert_eq!(about_eviction(), Some(Severity::Unsafe));
    server.text(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert!(about_eviction() < Some(Severity::Unsafe));
}

#[test]
fn a_server_that_is_not_there_can_be_diagnosed() {
    let builder = leasehold::Locks::builder();
    let locks = Locks::unopened_with(builder, "redis://127.0.0.1:1").unwrap();
    let findings = locks.diagnose();
    assert!(findings.iter().any(|finding| finding.severity > Severity::Note), "{findings:?}");
}

#[test]
fn a_lease_is_broken_and_every_event_is_reported() {
    let server = Server::start(Flavor::Valkey91);
    let (here, there) = (Locks::connect(&server.url()).unwrap(), Locks::connect(&server.url()).unwrap());
    let events = here.events();
    let guard = here.mutex("k").lock().wait().unwrap();
    // A grant does not wait for the subscription to notices of breaks.
    let nobody = Reply::Array(Some(Vec::new()));
    while server.text(&["PUBSUB", "CHANNELS", "leasehold:broken"]) == nobody {
        thread::yield_now();
    }
    let broken = there.break_lease("k", guard.fence()).unwrap();
    assert_eq!(broken.fence, Some(guard.fence()));
    assert!(matches!(there.break_lease("k", guard.fence()), Err(BreakError::NotHeld { .. })));
    assert!(matches!(leasehold::blocking::Guard::await_loss(&guard.held()), Loss::Broken { .. }));
    drop(here);
    drop(guard);
    let told: Vec<_> = events.collect();
    assert!(matches!(told.first(), Some(Event::Acquired { .. })), "{told:?}");
    assert!(told.iter().any(|event| matches!(event, Event::Lost { .. })), "{told:?}");
}

#[test]
fn a_watch_finds_all_locks() {
    let server = Server::start(Flavor::Valkey91);
    let defaults = leasehold::Locks::builder().prefix("app:");
    for locks in [
        Locks::in_memory_with(defaults.clone()).unwrap(),
        Locks::connect_with(defaults, &server.url()).unwrap(),
    ] {
        let _guard = locks.mutex("invoice:42").lock().wait().unwrap();
        let mut watch = locks.watch("invoice:");
        while watch.found().next().is_none() {
            watch.step().unwrap();
        }
        assert_eq!(watch.found().next().unwrap().state.key.to_string(), "app:invoice:42");
        watch.step().unwrap();
        assert!(watch.progress().passes > 0);
    }
}

#[test]
fn waiting_until_a_lock_is_free_does_not_acquire_it() {
    let store = Arc::new(MemoryStore::new(Arc::new(TokioRuntime::on_own_thread().unwrap())));
    let locks = Locks::over_with(leasehold::Locks::builder(), store).unwrap();
    let migration = locks.mutex("migration");
    let guard = migration.lock().wait().unwrap();
    assert!(migration.is_locked().unwrap());
    let busy = migration.unlocked().within(SECOND / 20).wait();
    assert!(matches!(busy, Err(LockError::TimedOut { .. })), "{busy:?}");
    let waiting = thread::spawn({
        let migration = migration.clone();
        move || migration.unlocked().within(10 * SECOND).wait()
    });
    guard.release().unwrap();
    waiting.join().unwrap().unwrap();
    assert!(!migration.is_locked().unwrap());
}

/// The names of the public functions of a source file, and of the macros that make some of them.
fn functions(source: &str) -> Vec<&str> {
    let is_public = |line: &&str| line.starts_with("pub ") && line.contains("fn ") || line.ends_with("!();");
    let public = source.lines().map(str::trim_start).filter(is_public);
    let names = public.filter_map(|line| line.split("fn ").last()?.split(['(', '<', '!']).next());
    names.collect()
}

macro_rules! sources {
    ($($file:literal)*) => { concat!($(include_str!(concat!("../../../../crates/leasehold/src/", $file)), "\n"),*) };
}

/// A type, its sources, those of its blocking twin, and the functions that the twin lacks or renames.
type Twins = (&'static str, &'static str, &'static str, &'static [&'static str]);

#[test]
fn the_blocking_api_has_everything_that_the_async_one_has() {
    let twins: [Twins; 11] = [
        // Both APIs share one builder.
        (
            "Locks",
            sources!("locks.rs" "breaking.rs" "diagnose.rs" "watch.rs"),
            sources!("blocking/locks.rs" "blocking/watch.rs"),
            // A step waits until it is due.
            &["builder", "due"],
        ),
        ("settings", sources!("lock/terms.rs" "recipe/mod.rs"), sources!("blocking/mod.rs"), &[]),
        ("Mutex", sources!("mutex.rs"), sources!("blocking/mutex.rs"), &[]),
        ("RwLock", sources!("rw_lock.rs"), sources!("blocking/rw_lock.rs"), &[]),
        ("Semaphore", sources!("semaphore.rs"), sources!("blocking/semaphore.rs"), &[]),
        // There is no `hold`, because blocking work cannot be stopped.
        ("Acquire", sources!("lock/acquire.rs"), sources!("blocking/acquire.rs"), &["hold"]),
        // A thread that watches the loss uses a view of the guard.
        ("Guard", sources!("lock/guard.rs"), sources!("blocking/guard.rs"), &["lost"]),
        ("Once", sources!("recipe/once.rs"), sources!("blocking/once.rs"), &[]),
        // `EveryOutcome` is the same type.
        ("Every", sources!("recipe/every.rs"), sources!("blocking/every.rs"), &[]),
        ("JobGuard", sources!("recipe/job_guard.rs"), sources!("blocking/job_guard.rs"), &[]),
        // There is no `lead`, for the same reason as `hold`.
        ("Election", sources!("recipe/election.rs"), sources!("blocking/election.rs"), &["lead", "next"]),
    ];
    for (noun, source, blocking, without) in twins {
        let has = functions(blocking);
        let lacks =
            functions(source).into_iter().filter(|name| !has.contains(name) && !without.contains(name));
        assert_eq!(lacks.collect::<Vec<_>>(), Vec::<&str>::new(), "{noun}");
        assert!(functions(source).len() > 2, "{noun}: its source is elsewhere");
    }
}
