//! Asking whether a lock is free, and waiting until it is, without acquiring it: on every store.

use std::sync::Arc;
use std::time::Duration;

use conformance::faulty::{CallFate, Faulty, members, passing, quorum_of};
use conformance::target::Target;
use conformance::virtual_time::VirtualTime;
use leasehold::{InspectError, LockError, Locks, Misuse, Owner, Watch};
use servers::{Flavor, Server};
use tokio::time::{Instant, sleep};

use super::world::{SECOND, TTL, World, drain, kinds};

async fn on_every_target(check: impl AsyncFn(&Target)) {
    let quorum = [Flavor::Redis70, Flavor::Redis82, Flavor::Valkey91];
    let targets = [
        Target::memory(),
        Target::file(),
        Target::quorum_of_memory(),
        Target::redis(Flavor::Redis62, "resp2"),
        Target::redis(Flavor::Valkey91, "resp3"),
        Target::quorum_of_redis(quorum),
    ];
    for target in targets {
        eprintln!("on {}", target.name());
        check(&target).await;
    }
}

fn process(target: &Target) -> Locks {
    Locks::builder().ttl(10 * SECOND).over(target.store()).unwrap()
}

/// redislock's fork: `check(key)` should wait, a number of retries, until a lock is free. It failed if
/// it was free, with an error of another class than the exported one.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_a_free_lock_ends_when_it_is_free_and_acquires_nothing() {
    on_every_target(async |target| {
        let (here, there) = (process(target), process(target));
        let mutex = there.mutex("k");
        let guard = here.mutex("k").label("here").lock().within(70 * SECOND).await.unwrap();
        assert!(mutex.is_locked().await.unwrap());
        let began = Instant::now();
        let error = mutex.unlocked().within(SECOND / 2).await.unwrap_err();
        let LockError::TimedOut { held_by: Some(held_by), place: None, .. } = &error else {
            panic!("{error:?}")
        };
        let Owner::Holder { holder, .. } = held_by.owner else { panic!("{held_by:?}") };
        // A member of a quorum knows the holder by another id.
        assert!(holder == guard.holder() || target.name().starts_with("quorum"), "{held_by}");
        assert!(error.to_string().contains("held by here"), "{error}");
        let took = began.elapsed();
        assert!(took >= SECOND / 2 && took < 2 * SECOND, "{took:?}");
        let waiting = tokio::spawn(mutex.unlocked().within(20 * SECOND).into_future());
        sleep(SECOND / 2).await;
        assert_eq!(here.inspect("k").await.unwrap().waiters, [], "it is in no queue");
        assert!(!waiting.is_finished());
        guard.release().await.unwrap();
        waiting.await.unwrap().unwrap();
        assert!(!mutex.is_locked().await.unwrap());
        mutex.unlocked().within(SECOND).await.unwrap();
        assert!(here.mutex("k").try_lock().await.unwrap().is_some(), "nothing was taken");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_programs_lock_is_waited_for_until_its_end() {
    let server = Server::start(Flavor::Redis70);
    let locks = Locks::connect(&server.url()).await.unwrap();
    let mutex = locks.mutex_all(["a", "k"]);
    assert!(!mutex.is_locked().await.unwrap());
    server.text(&["SET", "k", "somebody else's", "PX", "1500"]);
    assert!(mutex.is_locked().await.unwrap());
    let error = mutex.unlocked().within(Duration::ZERO).await.unwrap_err();
    assert!(error.to_string().contains("another program's lock (somebody else's)"), "{error}");
    let began = Instant::now();
    mutex.unlocked().within(10 * SECOND).await.unwrap();
    let took = began.elapsed();
    assert!(took > SECOND && took < 2 * SECOND, "{took:?}");
    server.text(&["LPUSH", "k", "no lock"]);
    assert!(mutex.is_locked().await.unwrap());
    let error = mutex.unlocked().await.unwrap_err();
    assert!(matches!(error, LockError::NotALock { .. }), "{error:?}");
}

/// Looks become rarer as the wait goes on, but one comes just after the holder's end.
#[tokio::test(start_paused = true)]
async fn a_dead_holder_is_waited_for_until_its_lease_ends_with_few_looks() {
    let world = World::begin(TTL);
    let dead = world.others();
    let guard = dead.mutex("k").renewal(leasehold::Renewal::Off).lock().await.unwrap();
    std::mem::forget(guard);
    let began = Instant::now();
    world.locks.mutex("k").unlocked().await.unwrap();
    let took = began.elapsed();
    assert!(took >= TTL && took < TTL + SECOND / 50, "{took:?}");
    let looks = world.store.calls();
    assert!(looks < 9 * 14 + 10, "{looks} looks in nine seconds");
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_is_another_error_than_a_held_lock() {
    let world = World::with(TTL, |builder| builder.outage_limit(3 * SECOND));
    let mutex = world.locks.mutex("k");
    world.store.set(CallFate::Lost);
    let began = Instant::now();
    assert!(matches!(mutex.is_locked().await, Err(InspectError::Store(_))));
    let mut events = world.locks.events();
    let error = mutex.unlocked().await.unwrap_err();
    assert!(matches!(error, LockError::Unreachable { fault: Some(_), .. }), "{error:?}");
    assert_eq!(began.elapsed(), 4 * SECOND);
    let told = kinds(&drain(&mut events).await);
    assert!(told.len() > 1 && told.iter().all(|kind| *kind == "store fault"), "{told:?}");
    // A hanging store returns no error.
    world.store.set(CallFate::Hung);
    let error = mutex.unlocked().within(SECOND).await.unwrap_err();
    assert!(matches!(error, LockError::Unreachable { fault: None, .. }), "{error:?}");
    world.store.set(CallFate::Refused);
    assert!(matches!(mutex.unlocked().await, Err(LockError::Refused { .. })));
    world.store.set(CallFate::Fair);
    mutex.unlocked().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn asking_whether_a_lock_is_free_and_waiting_for_it_refuse_an_invalid_key() {
    let world = World::begin(TTL);
    assert_eq!(world.locks.mutex("").unlocked().await, Err(LockError::Misuse(Misuse::EmptyKey)));
    assert_eq!(world.locks.mutex("").is_locked().await, Err(InspectError::Misuse(Misuse::EmptyKey)));
    let nothing: [&str; 0] = [];
    for answer in
        [world.locks.mutex_all(nothing).is_locked().await, world.locks.rw_lock_all(nothing).is_locked().await]
    {
        assert_eq!(answer, Err(InspectError::Misuse(Misuse::NoKeys)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_asks_a_store_that_fails_once_a_second_and_does_not_find_locks_that_it_knows() {
    let world = World::begin(TTL);
    let _guard = world.others().mutex("k").lock().await.unwrap();
    let mut watch = world.locks.watch("");
    for passes in 1..4 {
        while watch.progress().passes < passes {
            watch.step().await.unwrap();
        }
        assert_eq!(watch.progress().uninspected, usize::from(passes == 1), "after {passes} passes");
        while watch.progress().uninspected > 0 {
            watch.step().await.unwrap();
        }
    }
    assert_eq!(watch.found().count(), 1);
    let mut events = world.locks.events();
    world.store.set(passing("busy"));
    watch.step().await.unwrap_err();
    let began = world.time.passed();
    for _ in 0..3 {
        watch.step().await.unwrap_err();
    }
    assert_eq!(world.time.passed() - began, 3 * SECOND);
    assert_eq!(watch.found().count(), 1, "what it knew it still knows");
    world.store.set(CallFate::Fair);
    watch.step().await.unwrap();
    let told = ["store fault", "store fault", "store fault", "store fault", "store back"];
    assert_eq!(kinds(&drain(&mut events).await), told);
}

#[tokio::test(start_paused = true)]
async fn a_watch_keeps_to_its_limit_if_steps_are_dropped_and_if_a_scan_takes_many_commands() {
    let world = World::begin(TTL);
    let _guard = world.locks.mutex("k").lock().await.unwrap();
    let mut watch = world.locks.watch("");
    while watch.found().count() == 0 {
        watch.step().await.unwrap();
    }
    sleep(SECOND).await;
    world.store.on("inspect", CallFate::Hung);
    let began = world.time.passed();
    let looks = world.store.count("inspect");
    while world.store.count("inspect") < looks + 15 {
        watch.due().await;
        let _ = tokio::time::timeout(Duration::from_millis(1), watch.step()).await;
    }
    assert!(world.time.passed() - began >= SECOND, "fifteen commands in less than a second");
    world.store.on("inspect", CallFate::Fair);
    world.store.says(|facts| facts.commands = 70);
    let passes = watch.progress().passes;
    while watch.progress().passes == passes {
        watch.step().await.unwrap();
    }
    let began = world.time.passed();
    watch.due().await;
    assert!(world.time.passed() - began >= 5 * SECOND, "seventy commands in less than five seconds");
}

/// Regression: if a scan took longer than a second, as of a file with some hundred thousand locks, the next
/// one always came before what the last one had found, so `watch` and `top` showed nothing at all.
#[tokio::test(start_paused = true)]
async fn a_watch_shows_what_it_finds_however_long_a_scan_takes() {
    let world = World::begin(TTL);
    world.store.says(|facts| (facts.commands, facts.at_once) = (70, 1));
    let guards = [world.locks.mutex("a").lock().await.unwrap(), world.locks.mutex("b").lock().await.unwrap()];
    let mut watch = world.locks.watch("");
    while watch.found().count() < guards.len() {
        watch.step().await.unwrap();
        assert!(watch.progress().passes < 2, "it scans again before it has inspected what it found");
    }
}

/// An operator who has just broken a lease looks whether it has ended.
#[tokio::test(start_paused = true)]
async fn a_watch_looks_again_at_once_when_it_is_told_and_refreshes_the_chosen_lock_first() {
    let world = World::begin(TTL);
    world.store.says(|facts| facts.at_once = 1);
    let mut guards = Vec::new();
    for name in ["a", "b", "c", "z"] {
        guards.push(world.locks.mutex(name).lock().await.unwrap());
    }
    let z = guards.pop().unwrap();
    let key = z.keys().next().unwrap().clone();
    let mut watch = world.locks.watch("");
    while watch.found().count() < 4 {
        watch.step().await.unwrap();
    }
    let ages = |watch: &Watch| watch.found().map(|lock| lock.ago).collect::<Vec<_>>();
    watch.choose(Some(key.clone()));
    sleep(2 * SECOND).await;
    while ages(&watch).iter().all(|ago| *ago >= SECOND) {
        watch.step().await.unwrap();
    }
    assert!(ages(&watch)[3] < SECOND, "{:?}", ages(&watch));
    world.store.says(|facts| facts.at_once = 100);
    while ages(&watch).iter().any(|ago| *ago >= SECOND / 2) {
        watch.step().await.unwrap();
    }
    z.release().await.unwrap();
    watch.look_again(key);
    let began = world.time.passed();
    while watch.found().count() == 4 {
        watch.step().await.unwrap();
    }
    let took = world.time.passed() - began;
    assert!(took < SECOND / 10, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_more_locks_than_it_can_refresh_goes_on_looking_for_others() {
    let time = VirtualTime::begin();
    let members: Vec<_> = members(3, &time).into_iter().map(Faulty::over).collect();
    members.iter().for_each(|member| member.says(|facts| facts.at_once = 1));
    let quorum = quorum_of(&members, 60 * SECOND, time.clone());
    let locks = Locks::builder().ttl(TTL).runtime(time.clone()).over(Arc::new(quorum)).unwrap();
    let (mut guards, mut watch) = (Vec::new(), locks.watch(""));
    for number in 0..21 {
        guards.push(locks.mutex(format!("{number}")).lock().await.unwrap());
        let began = time.passed();
        while watch.found().count() < guards.len() {
            watch.step().await.unwrap();
            assert!(time.passed() < began + 4 * SECOND, "{number}");
        }
    }
}
