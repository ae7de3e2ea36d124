//! Guards on real servers that stop, vanish, lose data and are written to by other programs.

use std::time::{Duration, Instant};

use leasehold::{AnyStore, ConnectError, Fence, Guard, LockError, Locks, Loss, Owner, ReleaseError};
use servers::{Flavor, Proxy, Reply, Server};

const SECOND: Duration = Duration::from_secs(1);

async fn locks(url: &str) -> Locks {
    Locks::builder().ttl(10 * SECOND).connect(url).await.unwrap()
}

async fn take(locks: &Locks) -> Guard {
    locks.mutex("k").lock().within(5 * SECOND).await.unwrap()
}

/// A member that votes from the first request on.
pub(super) fn voting(server: &Server) -> AnyStore {
    AnyStore::from_url(&format!("{}?quarantine=no", server.url())).unwrap()
}

/// Regression: one member missed an adoption, and another came back from an older snapshot: a majority
/// for a second adopter, because quarantined members did not abstain from transfers.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_came_back_from_an_older_snapshot_helps_no_second_process_to_adopt_a_lock() {
    let [one, two, three] = [(); 3].map(|()| Server::start(Flavor::Valkey91));
    let proxy = Proxy::before(&three);
    let process = || {
        let members = [one.url(), two.url(), proxy.url()].map(|url| AnyStore::from_url(&url).unwrap());
        Locks::builder().ttl(5 * SECOND).outage_limit(3 * SECOND).quorum(members, 5 * SECOND).unwrap()
    };
    let token = process().mutex("k").lock().await.unwrap().transfer(5 * SECOND).await.unwrap();
    one.text(&["SAVE"]);
    proxy.black_hole();
    let adopted = process().adopt(&token).await.unwrap();
    one.kill_9();
    one.restart();
    assert_eq!(one.text(&["EXISTS", "k"]), Reply::Integer(1), "it has its older state");
    proxy.heal();
    let second = process().adopt(&token).await;
    assert!(second.is_err() || !adopted.is_held(), "{adopted:?} and {second:?}");
}

/// Every entry of a server that never expires, although it should.
fn entries_without_an_end(server: &Server) -> Vec<String> {
    server.keys("*").into_iter().filter(|key| server.text(&["PTTL", key]) == Reply::Integer(-1)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_for_three_seconds_costs_nobody_a_lease_of_ten() {
    let server = Server::start(Flavor::Valkey91);
    let (here, there) = (locks(&server.url()).await, locks(&server.url()).await);
    let mut guards = Vec::new();
    for n in 0..20 {
        guards.push(here.mutex(format!("k{n}")).lock().await.unwrap());
    }
    // The stop begins before the first renewal is due and ends after it.
    tokio::time::sleep(2 * SECOND).await;
    server.stop();
    tokio::time::sleep(3 * SECOND).await;
    server.cont();
    // Every lease would have ended by now, had it not been renewed.
    tokio::time::sleep(7 * SECOND).await;
    for (n, guard) in guards.iter().enumerate() {
        assert!(guard.is_held(), "guard {n} was lost");
        assert!(
            there.mutex(format!("k{n}")).try_lock().await.unwrap().is_none(),
            "guard {n} was granted twice"
        );
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
}

/// A break names no proposal of a fence, as a grant does, so a server cannot tell by it that it is a
/// member. A member that counted it with other keys' fences would have two last ones.
#[tokio::test]
async fn a_quorums_lock_that_is_broken_has_one_last_fence_at_each_member() {
    let members = [(); 3].map(|()| Server::start(Flavor::Valkey91));
    let locks = Locks::quorum(members.iter().map(voting), 60 * SECOND).unwrap();
    let guard = take(&locks).await;
    locks.break_lease("k", guard.fence()).await.unwrap();
    take(&locks).await.release().await.unwrap();
    for member in &members {
        assert_eq!(member.keys("leasehold:[cf]*"), ["leasehold:f{-}"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_black_holed_connection_loses_the_lock_at_the_leases_end_and_not_later() {
    let server = Server::start(Flavor::Redis70);
    let proxy = Proxy::before(&server);
    let locks = Locks::builder().ttl(3 * SECOND).connect(&proxy.url()).await.unwrap();
    let guard = take(&locks).await;
    proxy.black_hole();
    let end = guard.remaining();
    let begun = Instant::now();
    let ends_there = server.text(&["PTTL", "k"]).as_integer().unwrap();
    let ends_there = Duration::from_millis(ends_there.try_into().unwrap());
    assert!(ends_there > end, "the server outlasts the belief: {ends_there:?} and {end:?}");
    let loss = guard.lost().await;
    let passed = begun.elapsed();
    assert!(matches!(loss, Loss::Expired { .. }), "{loss:?}");
    assert!(passed < end + SECOND / 5, "told {:?} after the end", passed.saturating_sub(end));
    assert!(passed + SECOND / 10 > end, "told {:?} before the end", end.saturating_sub(passed));
    proxy.heal();
    let guard = take(&locks).await;
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_listening_is_said_after_the_outage_limit() {
    let server = Server::start(Flavor::Redis62);
    let url = server.url();
    let up = Locks::builder().outage_limit(2 * SECOND).connect(&url).await.unwrap();
    server.kill_9();
    let begun = Instant::now();
    let error = Locks::builder().outage_limit(2 * SECOND).connect(&url).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("refused"), "{error}");
    let error = up.mutex("k").lock().await.unwrap_err();
    assert!(matches!(error, LockError::Unreachable { .. }), "{error:?}");
    assert!(begun.elapsed() < 6 * SECOND, "{:?}", begun.elapsed());
    server.restart();
    take(&up).await.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn fences_rise_over_flushall_and_over_a_restart_without_state() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        let locks = locks(&server.url()).await;
        let mut last: Option<Fence> = None;
        for round in 0..6 {
            let guard = take(&locks).await;
            assert!(
                last.is_none_or(|last| guard.fence() > last),
                "{flavor}: {} after {last:?}",
                guard.fence()
            );
            last = Some(guard.fence());
            assert_eq!(entries_without_an_end(&server), [""; 0], "{flavor}");
            match round % 3 {
                0 => drop(server.text(&["FLUSHALL"])),
                1 => {
                    server.kill_9();
                    server.restart();
                }
                _ => {
                    guard.release().await.unwrap();
                    continue;
                }
            }
            let error = guard.release().await.unwrap_err();
            assert!(matches!(error, ReleaseError::Expired { .. }), "{flavor}: {error:?}");
        }
        assert_eq!(entries_without_an_end(&server), [""; 0], "{flavor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_key_was_deleted_learns_so_at_the_next_renewal() {
    let server = Server::start(Flavor::Redis82);
    let locks = Locks::builder().ttl(2 * SECOND).connect(&server.url()).await.unwrap();
    let guard = take(&locks).await;
    server.text(&["DEL", "k"]);
    let begun = Instant::now();
    let loss = guard.lost().await;
    assert!(matches!(loss, Loss::Gone { .. }), "{loss:?}");
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
}

/// Mixed fleets exclude each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_lock_keeps_us_out_for_its_ttl_and_ours_keeps_it_out() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        let locks = locks(&server.url()).await;
        assert_eq!(server.text(&["SET", "k", "x", "NX", "PX", "1500"]), Reply::Simple("OK".into()));
        let set = Instant::now();
        let error = locks.mutex("k").lock().within(Duration::ZERO).await.unwrap_err();
        let LockError::TimedOut { held_by: Some(held_by), .. } = error else { panic!("{flavor}: {error:?}") };
        assert!(matches!(&held_by.owner, Owner::Foreign { value } if **value == *b"x"), "{held_by:?}");
        let guard = take(&locks).await;
        let waited = set.elapsed();
        assert!(waited > SECOND && waited < 2 * SECOND, "{flavor}: after {waited:?}");
        assert_eq!(server.text(&["SET", "k", "x", "NX", "PX", "1500"]), Reply::Bulk(None), "{flavor}");
        guard.release().await.unwrap();
        assert_eq!(server.text(&["SET", "k", "x", "NX", "PX", "1500"]), Reply::Simple("OK".into()));
    }
}

/// redisLocker: `waitLock` swallowed every error.
#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_is_not_a_lock_is_an_error_and_stays_intact() {
    let server = Server::start(Flavor::Redis70);
    let locks = locks(&server.url()).await;
    server.text(&["RPUSH", "k", "a", "b"]);
    let error = locks.mutex("k").try_lock().await.unwrap_err();
    assert!(matches!(error, LockError::NotALock { .. }), "{error:?}");
    assert_eq!(server.text(&["LLEN", "k"]), Reply::Integer(2));
    assert_eq!(server.text(&["PTTL", "k"]), Reply::Integer(-1));
}

/// node-redlock: EVALSHA, and EVAL if the script is missing, which cost it its locks.
#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_the_server_forgot_are_sent_again_unnoticed() {
    let server = Server::start(Flavor::Redis62);
    let locks = locks(&server.url()).await;
    for _ in 0..5 {
        let guard = take(&locks).await;
        server.text(&["SCRIPT", "FLUSH"]);
        guard.renew(10 * SECOND).await.unwrap();
        server.text(&["SCRIPT", "FLUSH"]);
        guard.release().await.unwrap();
        server.text(&["SCRIPT", "FLUSH"]);
    }
}

/// A user without rights to the key kept publishing that its lease was broken at a server that lost it.
/// The quorum believed that: another server's failure would have ended the lease.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_takes_a_lease_again_whatever_strangers_say_of_a_break() {
    let rules = "on >secret ~other:* &leasehold:* -@all +publish";
    let flavors = [Flavor::Redis70, Flavor::Valkey91, Flavor::Redis82];
    let servers = flavors.map(|flavor| Server::setup(flavor).acl_user("hostile", rules).start());
    let locks = Locks::builder().ttl(3 * SECOND).quorum(servers.iter().map(voting), 10 * SECOND).unwrap();
    let guard = take(&locks).await;
    let Reply::Bulk(Some(value)) = servers[0].text(&["GET", "k"]) else { panic!("not at the first") };
    let digits = String::from_utf8(value).unwrap()[4..36].to_owned();

    let mut hostile = servers[0].connect().unwrap();
    hostile.text(&["AUTH", "hostile", "secret"]).unwrap();
    assert!(matches!(hostile.text(&["GET", "k"]).unwrap(), Reply::Error(_)));
    let (says, began) = (format!("b {digits}"), Instant::now());
    let mut wait_for = async |what: &str, done: &mut dyn FnMut(&Reply) -> bool| {
        while !done(&hostile.text(&["PUBLISH", "leasehold:broken", &says]).unwrap()) {
            assert!(began.elapsed() < 30 * SECOND, "{what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    wait_for("nobody hears of breaks", &mut |heard| *heard == Reply::Integer(1)).await;
    servers[0].text(&["DEL", "k"]);
    let is_back = || matches!(servers[0].text(&["GET", "k"]), Reply::Bulk(Some(_)));
    wait_for("it is not taken again", &mut |_| is_back()).await;
    assert!(guard.is_held());

    // If a majority publishes it, the holder asks, and believes the answer.
    let mut others = servers.each_ref().map(|server| server.connect().unwrap());
    for _ in 0..100 {
        for other in &mut others {
            other.text(&["PUBLISH", "leasehold:broken", &says]).unwrap();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(guard.is_held());
    guard.release().await.unwrap();
}

/// Regression: a guard that outlived its runtime was lost, but its lock stayed until it was dropped.
#[test]
fn the_lock_of_a_guard_that_outlives_its_runtime_is_released_at_the_end_of_the_runtime() {
    let server = Server::start(Flavor::Valkey91);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let guard = runtime.block_on(async { take(&locks(&server.url()).await).await });
    drop(runtime);
    assert!(!guard.is_held());
    assert_eq!(server.text(&["EXISTS", "k"]), Reply::Integer(0));
}

/// Regression: a request that was withdrawn while the server refused was not withdrawn again. Its place
/// cost those behind it a claim window once the server was repaired, and many of them its whole time in
/// the queue.
#[tokio::test]
async fn a_request_that_was_withdrawn_while_the_server_refused_leaves_the_queue_once_it_is_repaired() {
    let server = Server::setup(Flavor::Valkey91).acl_user("app", "on >secret ~* &* +@all").start();
    let holds = take(&locks(&server.url()).await).await;
    let refused = locks(&server.url().replace("://", "://app:secret@")).await;
    let waiting = tokio::spawn(refused.mutex("k").lock().into_future());
    let observer = locks(&server.url()).await;
    let waiters = async |count: usize| {
        let began = Instant::now();
        while observer.inspect("k").await.unwrap().waiters.len() != count {
            assert!(began.elapsed() < 5 * SECOND, "not {count} waiters within 5 s");
            tokio::time::sleep(SECOND / 100).await;
        }
    };
    waiters(1).await;
    server.text(&["ACL", "SETUSER", "app", "-eval", "-evalsha"]);
    waiting.abort();
    assert!(refused.close(5 * SECOND).await.is_ok(), "nobody waits for a server that refuses");
    server.text(&["ACL", "SETUSER", "app", "+eval", "+evalsha"]);
    waiters(0).await;
    holds.release().await.unwrap();
}
