//! Notices of stores: members that fail and return, push that does not work, broken leases.

use std::sync::Arc;

use conformance::events::wait_for;
use conformance::faulty::{CallFate, Faulty, members, quorum_of};
use conformance::virtual_time::VirtualTime;
use leasehold::{Event, LockError, Locks, Loss};
use leasehold_core::Fault;
use servers::{Flavor, Server};
use tokio::time::sleep;

use super::world::{SECOND, TTL, drain, kinds};

/// A process on a quorum of three stores in memory, with injected faults for each.
pub(crate) struct Quorum {
    pub(crate) way: Vec<Arc<Faulty>>,
    pub(crate) locks: Locks,
    /// Other locks on the same store.
    pub(crate) others: Locks,
}

impl Quorum {
    pub(crate) fn begin() -> Self {
        let time = VirtualTime::begin();
        let way: Vec<_> = members(3, &time).into_iter().map(Faulty::over).collect();
        let store = Arc::new(quorum_of(&way, 10 * SECOND, time.clone()));
        let locks = || Locks::builder().ttl(TTL).runtime(time.clone()).over(store.clone()).unwrap();
        Self { way, locks: locks(), others: locks() }
    }
}

/// The reports about members, in order: which failed, and which returned.
fn of_members(events: &[Event]) -> Vec<String> {
    let said = |event: &Event| match event {
        Event::MemberDown { fault, .. } => Some(format!("{} down", fault.store)),
        Event::MemberBack { store, .. } => Some(format!("{store} back")),
        _ => None,
    };
    events.iter().filter_map(said).collect()
}

/// node-redlock: the events `clientError` and `error`, of each server.
#[tokio::test(start_paused = true)]
async fn each_outage_of_a_member_is_reported_once_however_many_calls_fail() {
    let quorum = Quorum::begin();
    let mut events = quorum.locks.events();
    let guards =
        [quorum.locks.mutex("k").lock().await.unwrap(), quorum.locks.mutex("l").lock().await.unwrap()];
    quorum.way[1].set(CallFate::Lost);
    for n in 0..50 {
        quorum.locks.mutex(format!("n{n}")).lock().await.unwrap().release().await.unwrap();
    }
    sleep(3 * TTL).await;
    assert_eq!(of_members(&drain(&mut events).await), ["memory:b down"]);
    quorum.way[1].set(CallFate::Fair);
    sleep(3 * TTL).await;
    assert_eq!(of_members(&drain(&mut events).await), ["memory:b back"]);
    assert!(guards.iter().all(leasehold::Guard::is_held));
}

/// Regression: a quarantined member refuses grants and serves releases: it was reported down and back.
#[tokio::test(start_paused = true)]
async fn a_member_that_refuses_grants_and_serves_releases_is_reported_once() {
    for in_batches in [true, false] {
        let quorum = Quorum::begin();
        quorum.way.iter().for_each(|way| way.says(|facts| facts.batches = in_batches));
        let mut events = quorum.locks.events();
        let guard = quorum.locks.mutex("k").lock().await.unwrap();
        quorum.way[1].memory.forget();
        for n in 0..20 {
            quorum.locks.mutex(format!("n{n}")).lock().await.unwrap().release().await.unwrap();
            quorum.locks.inspect("k").await.unwrap();
        }
        assert_eq!(of_members(&drain(&mut events).await), ["memory:b down"]);
        // The renewals of the guard notice that it votes again.
        sleep(3 * TTL).await;
        assert_eq!(of_members(&drain(&mut events).await), ["memory:b back"]);
        guard.release().await.unwrap();
    }
}

/// Regression: a member that came back empty served a release, and so was reported back and down again.
#[tokio::test(start_paused = true)]
async fn a_member_that_comes_back_and_abstains_is_reported_as_back_once_it_votes() {
    let quorum = Quorum::begin();
    let mut events = quorum.locks.events();
    let guard = quorum.locks.mutex("k").lock().await.unwrap();
    quorum.way[1].on("inspect", CallFate::Lost);
    quorum.locks.inspect("k").await.unwrap();
    quorum.way[1].on("inspect", CallFate::Fair);
    quorum.way[1].memory.forget();
    for n in 0..3 {
        quorum.locks.mutex(format!("n{n}")).lock().await.unwrap().release().await.unwrap();
    }
    assert_eq!(of_members(&drain(&mut events).await), ["memory:b down"]);
    sleep(3 * TTL).await;
    assert_eq!(of_members(&drain(&mut events).await), ["memory:b back"]);
    guard.release().await.unwrap();
}

/// What may be refused to an observer alone is back when it is answered, and no vote is needed.
#[tokio::test(start_paused = true)]
async fn a_member_that_refused_an_observer_is_back_when_it_answers_one() {
    let quorum = Quorum::begin();
    let mut events = quorum.locks.events();
    let guard = quorum.locks.mutex("k").lock().await.unwrap();
    for (fate, told) in [
        (CallFate::Refused, &["memory:b down"][..]),
        (CallFate::Fair, &["memory:b back"]),
        (CallFate::Lost, &["memory:b down"]),
        (CallFate::Refused, &[]),
        (CallFate::Fair, &["memory:b back"]),
    ] {
        quorum.way[1].on("inspect", fate);
        quorum.locks.inspect("k").await.unwrap();
        assert_eq!(of_members(&drain(&mut events).await), told);
    }
    guard.release().await.unwrap();
}

/// The first call finds it down, before there is a guard and anybody reads the store's reports.
#[tokio::test(start_paused = true)]
async fn a_member_that_was_down_from_the_beginning_is_reported() {
    let quorum = Quorum::begin();
    let mut events = quorum.locks.events();
    // A store with several nodes names one of them.
    quorum.way[2].set(CallFate::Failing(Fault::lasting("a node of c", "not allowed")));
    let guard = quorum.locks.mutex("k").lock().await.unwrap();
    sleep(SECOND).await;
    let read = drain(&mut events).await;
    assert_eq!(of_members(&read), ["memory:c down"]);
    let Some(Event::MemberDown { fault, .. }) = read.last() else { panic!("{read:?}") };
    assert!(fault.to_string().contains("not allowed"), "{fault}");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_a_quorum_is_reported_also_to_a_process_without_locks() {
    let quorum = Quorum::begin();
    let mut events = quorum.locks.events();
    quorum.way[..2].iter().for_each(|way| way.set(CallFate::Refused));
    let error = quorum.locks.mutex("k").lock().await.unwrap_err();
    let quorum_report = match &error {
        LockError::NoQuorum { quorum_report, .. } => quorum_report.to_string(),
        other => other.to_string(),
    };
    assert!(quorum_report.contains("not allowed"), "{quorum_report}");
    sleep(SECOND).await;
    let mut told = of_members(&drain(&mut events).await);
    told.sort();
    assert_eq!(told, ["memory:a down", "memory:b down"]);
}

/// Only for a waiter: the process without push never holds a lock.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_subscriptions_is_reported_once_and_its_recovery_too() {
    for (flavor, protocol) in [(Flavor::Redis62, "resp2"), (Flavor::Valkey91, "resp3")] {
        let rules = "on nopass ~* &* +@all -subscribe";
        let server = Server::setup(flavor).acl_user("deaf", rules).start();
        let url = format!("redis://deaf@127.0.0.1:{}?protocol={protocol}", server.port());
        let (holder, deaf) =
            (Locks::connect(&server.url()).await.unwrap(), Locks::connect(&url).await.unwrap());
        let mut events = deaf.events();
        let guard = holder.mutex("k").lock().await.unwrap();
        let waiting = deaf.mutex("k").lock().within(20 * SECOND).into_future();
        let others = [(); 3].map(|()| tokio::spawn(deaf.mutex("k").lock().within(SECOND).into_future()));
        let waiting = tokio::spawn(waiting);
        let push = |event: &Event| match event {
            Event::PushDown { fault, .. } => Some(Ok(fault.to_string())),
            Event::PushBack { store, .. } => Some(Err(store.clone())),
            _ => None,
        };
        let why = wait_for(&mut events, 5 * SECOND, push).await.unwrap();
        assert!(why.contains("deaf") && why.contains("+subscribe"), "{why}");
        for other in others {
            other.await.unwrap().unwrap_err();
        }
        let read = drain(&mut events).await;
        assert!(!kinds(&read).contains(&"push down"), "said again: {read:?}");
        server.text(&["ACL", "SETUSER", "deaf", "+subscribe"]);
        // A new connection tries at once.
        server.text(&["CLIENT", "KILL", "USER", "deaf"]);
        let store = wait_for(&mut events, 5 * SECOND, push).await.unwrap_err();
        assert!(store.contains(&server.port().to_string()), "{store}");
        guard.release().await.unwrap();
        drop(waiting.await.unwrap().unwrap());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_break_is_reported_to_its_author_and_to_the_holder() {
    let server = Server::start(Flavor::Redis82);
    let (holder, breaker) =
        (Locks::connect(&server.url()).await.unwrap(), Locks::connect(&server.url()).await.unwrap());
    let (mut held, mut broke) = (holder.events(), breaker.events());
    let guard = holder.mutex("k").label("stuck").lock().await.unwrap();
    breaker.break_lease("k", guard.fence()).await.unwrap();
    let holding = wait_for(&mut broke, SECOND, |event| match event {
        Event::Broke { holding, .. } => Some(holding.clone()),
        _ => None,
    });
    let holding = holding.await;
    assert_eq!((holding.fence, holding.owner.to_string().starts_with("stuck")), (Some(guard.fence()), true));
    let why = wait_for(&mut held, 20 * SECOND, |event| match event {
        Event::Lost { why, .. } => Some(why.clone()),
        _ => None,
    });
    let why = why.await;
    assert!(matches!(why, Loss::Broken { .. } | Loss::Gone { .. }), "{why:?}");
}
