//! Batched requests: each caller gets its own answer, and what a batch cannot serve is sent alone.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::{
    AdminStore, Attempt, BreakAnswer, Fault, Fence, GrantAnswer, HoldAnswer, MemberStore as _, Owner, Store,
    Ttl, WaitMode,
};
use leasehold_redis::slot::{FenceKeys, slot_of};
use leasehold_redis::{ClusterStore, RedisStore};
use servers::{Cluster, Flavor, Proxy, Reply, Server};

use crate::login::MINIMAL;
use crate::queue::{WAIT, held_and_awaited, let_go, lock, scripts, subscribe, until, until_queued};
use crate::world::{
    as_user, at_member, attempt, behind_a_proxy, breaking, cluster_store, every_server, grant, granted, key,
    lasting, passing, runtime, started, started_with, store, value,
};

const PATIENCE: Duration = Duration::from_secs(10);

fn last_fence(server: &Server, name: &str) -> Option<String> {
    value(server, &fence_key(name))
}

/// The key that remembers it.
fn fence_key(name: &str) -> String {
    String::from_utf8(FenceKeys { at_member: false, by_slot: false }.name(&key(name))).unwrap()
}

/// The answers to requests about these attempts that are all made at the same time.
async fn together<S: Clone, T: Send + 'static, Asked: Future<Output = T> + Send + 'static>(
    store: &S,
    attempts: &[Attempt],
    request: impl Fn(S, Attempt) -> Asked,
) -> Vec<T> {
    let requests = attempts.iter().map(|attempt| request(store.clone(), attempt.clone()));
    let tasks: Vec<_> = requests.map(tokio::spawn).collect();
    join_all(tasks).await.into_iter().map(Result::unwrap).collect()
}

async fn grants(store: &RedisStore, attempts: &[Attempt]) -> Vec<Result<GrantAnswer, Fault>> {
    together(store, attempts, |store, attempt| async move { grant(&store, &attempt).await }).await
}

async fn releases(store: &RedisStore, attempts: &[Attempt]) -> Vec<Result<HoldAnswer, Fault>> {
    together(store, attempts, |store, attempt| async move { store.release(&attempt).await }).await
}

/// Polls each request once: three are in flight then, and the others wait.
async fn ask_in_turn<Asking: Future>(asking: &mut [Pin<Box<Asking>>]) {
    for request in asking {
        let polled = poll_fn(|context| Poll::Ready(request.as_mut().poll(context).is_pending())).await;
        assert!(polled);
        // Lets the sending task run.
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn requests_that_are_made_at_the_same_time_share_scripts_and_each_has_its_own_answer() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        for protocol in ["resp2", "resp3"] {
            let store = store(&format!("{}?protocol={protocol}", server.url()));
            store.open().await.unwrap();
            // Keys with the same beginning have one fence key, and those of each beginning have other
            // fences: an hour from now, and later.
            let names: Vec<_> = (0..200).map(|nth| format!("{}:k{nth}", nth % 3)).collect();
            let now = runtime().since_epoch();
            for (name, hour) in names.iter().zip(1..=3) {
                let last = (now + Duration::from_secs(3600 * hour)).as_micros();
                server.text(&["SET", &fence_key(name), &last.to_string()]);
            }
            let ours: Vec<_> = names.iter().map(|name| attempt(&[name])).collect();
            let before = scripts(&server);
            let answers = grants(&store, &ours).await;
            for ((name, attempt), answer) in names.iter().zip(&ours).zip(answers) {
                let fence = granted(answer);
                let of_ours = format!("lh1-{}.{fence} web-3", attempt.holder.digits());
                assert_eq!(value(&server, name), Some(of_ours));
                let last: u64 = last_fence(&server, name).unwrap().parse().unwrap();
                assert!(fence.get() <= last);
            }
            assert!(releases(&store, &ours).await.iter().all(|answer| *answer == Ok(HoldAnswer::Done)));
            assert!(names.iter().all(|name| value(&server, name).is_none()));
            let scripts = scripts(&server) - before;
            // 400 requests, of which the first are sent alone.
            assert!(scripts <= 16, "{flavor}, {protocol}: {scripts}");
        }
    }
}

#[tokio::test]
async fn one_after_the_other_each_request_is_one_script() {
    for (flavor, server, store) in every_server() {
        store.open().await.unwrap();
        let before = scripts(&server);
        for _ in 0..3 {
            let ours = attempt(&["k"]);
            granted(store.grant(&ours, WAIT).await);
            assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
            assert_eq!(value(&server, "k"), None);
            granted(grant(&store, &ours).await);
            store.give_up(&ours).await.unwrap();
            assert_eq!(value(&server, "k"), None);
        }
        assert_eq!(scripts(&server) - before, 12, "{flavor}");
    }
}

/// A request that a batch cannot serve costs one more script, once: the key's next is in no batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_somebody_waits_for_is_handed_on_and_the_next_requests_skip_the_batches() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        let [here, there] = [(); 2].map(|()| store(&server.url()));
        // Nothing but a batch calls this.
        let batches = || server.calls("mget");
        for in_vain in [1, 0] {
            let ([first, second], waiting) = held_and_awaited(&server, &here, &there).await;
            let before = batches();
            assert_eq!(here.release(&first).await, Ok(HoldAnswer::Done));
            waiting.await.unwrap();
            assert_eq!(batches() - before, in_vain, "{flavor}");
            let before = batches();
            let_go(&there, &second).await;
            assert_eq!(batches() - before, 0, "{flavor}: a waiter releases alone");
            assert_eq!(value(&server, "k"), None);
        }
    }
}

/// And a few for all of them, until the process has noticed that the key is contended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_that_comes_at_once_for_one_lock_costs_two_commands_each() {
    const CROWD: u64 = 100;
    for (flavor, server, store) in every_server() {
        // The server has seen the scripts, and the store has subscribed.
        subscribe(&store).await;
        let holder = attempt(&["k"]);
        granted(grant(&store, &holder).await);
        let before = scripts(&server);
        let turn = || {
            let (store, waiter) = (store.clone(), attempt(&["k"]));
            async move {
                lock(&store, &waiter).await;
                let_go(&store, &waiter).await;
            }
        };
        let crowd: Vec<_> = (0..CROWD).map(|_| tokio::spawn(turn())).collect();
        until("all wait", PATIENCE, || store.waiting() == CROWD as usize).await;
        let_go(&store, &holder).await;
        for waiter in crowd {
            waiter.await.unwrap();
        }
        let more = scripts(&server) - before - 2 * CROWD;
        assert!(more <= 10, "{flavor}: {more} scripts more than two each");
    }
}

#[tokio::test]
async fn a_lease_that_others_wait_for_is_renewed_with_one_command() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        let [here, there] = [(); 2].map(|()| store(&server.url()));
        let mut took = 0;
        // The first time, the server does not know the script.
        for _ in 0..2 {
            let ([first, second], waiting) = held_and_awaited(&server, &here, &there).await;
            let third = attempt(&["k"]);
            let last = {
                let (here, third) = (here.clone(), third.clone());
                tokio::spawn(async move {
                    lock(&here, &third).await;
                    let_go(&here, &third).await;
                })
            };
            until_queued(&server, &[&second, &third]).await;
            let_go(&here, &first).await;
            waiting.await.unwrap();
            let before = scripts(&server);
            assert_eq!(there.renew(std::slice::from_ref(&second)).await, [Ok(HoldAnswer::Done)], "{flavor}");
            took = scripts(&server) - before;
            let_go(&there, &second).await;
            last.await.unwrap();
        }
        assert_eq!(took, 1, "{flavor}");
    }
}

/// `MGET` reads a wrong type as nothing.
#[tokio::test]
async fn an_obstacle_to_one_request_in_a_batch_does_not_stop_the_others() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        server.text(&["RPUSH", "list", "x"]);
        server.text(&["SET", "strangers", "x"]);
        server.text(&["RPUSH", &fence_key("odd fence:"), "x"]);
        server.text(&["SET", &fence_key("no fence:"), "x"]);
        server.text(&["SET", &fence_key("spent:"), "9007199254740991"]);
        server.text(&["SET", &fence_key("ahead:"), "9007199254740000"]);
        let rival = attempt(&["held"]);
        granted(grant(&store(&server.url()), &rival).await);
        let store = store(&server.url());
        store.open().await.unwrap();
        let [odd, none, spent, ahead] = ["odd fence:", "no fence:", "spent:", "ahead:"];
        let names = ["free", "alone", "list", "strangers", odd, none, spent, ahead, "held", "last"];
        let ours = names.map(|name| attempt(&[name]));
        let answers = grants(&store, &ours).await;
        for (name, answer) in names.iter().zip(answers) {
            let is_right = match *name {
                "free" | "alone" | "last" => matches!(answer, Ok(GrantAnswer::Granted { .. })),
                "ahead:" => {
                    answer == Ok(GrantAnswer::Granted { fence: Fence::new(9_007_199_254_740_001).unwrap() })
                }
                "list" => answer == Ok(GrantAnswer::NotALock { key: key("list") }),
                "spent:" => answer == Ok(GrantAnswer::FencesSpent { key: key("spent:") }),
                "held" | "strangers" => matches!(answer, Ok(GrantAnswer::Busy { .. })),
                _ => answer
                    .as_ref()
                    .is_err_and(|fault| fault.to_string().contains("holds something that is not a fence")),
            };
            assert!(is_right, "{flavor}, {name}: {answer:?}");
        }
        assert_eq!(server.text(&["LLEN", &fence_key("odd fence:")]), Reply::Integer(1));
    }
}

/// A script has one TTL for all its requests.
#[tokio::test]
async fn leases_of_different_ttls_that_are_requested_together_each_last_for_their_own() {
    for (flavor, server, store) in every_server() {
        store.open().await.unwrap();
        let ttls = [20, 60, 20, 40, 60, 40].map(Duration::from_secs);
        let of = |(nth, ttl): (usize, Duration)| {
            let ours = attempt(&[&nth.to_string()]);
            Attempt::new(ours.claim, ours.holder, ours.label, Ttl::new(ttl).unwrap())
        };
        let ours: Vec<_> = ttls.into_iter().enumerate().map(of).collect();
        for answer in grants(&store, &ours).await {
            granted(answer);
        }
        let each_lasts = |after: &str| {
            for (nth, ttl) in ttls.iter().enumerate() {
                let left = server.text(&["PTTL", &nth.to_string()]);
                let Reply::Integer(left) = left else { panic!("{flavor}: {left:?}") };
                let left = Duration::from_millis(left.unsigned_abs());
                assert!(left <= *ttl && left + PATIENCE > *ttl, "{flavor}, {after}, {ttl:?}: {left:?}");
            }
        };
        each_lasts("after the grants");
        for nth in 0..ttls.len() {
            server.text(&["PEXPIRE", &nth.to_string(), "5000"]);
        }
        let renewed = store.renew(&ours).await;
        assert!(renewed.iter().all(|answer| *answer == Ok(HoldAnswer::Done)), "{flavor}: {renewed:?}");
        each_lasts("after the renewals");
    }
}

#[tokio::test]
async fn a_release_in_a_batch_deletes_only_what_is_the_callers() {
    for (flavor, server, store) in every_server() {
        store.open().await.unwrap();
        let names = ["a", "taken", "b", "c", "d", "list", "gone"];
        let ours = names.map(|name| attempt(&[name]));
        let fences = grants(&store, &ours).await.into_iter().map(granted).collect::<Vec<_>>();
        let next = attempt(&["taken"]);
        let other = crate::world::store(&server.url());
        let broken = other.break_lease(&key("taken"), &breaking(fences[1])).await;
        assert!(matches!(broken, Ok(BreakAnswer::Broken { .. })), "{broken:?}");
        let fence = granted(grant(&other, &next).await);
        server.text(&["DEL", "list", "gone"]);
        server.text(&["RPUSH", "list", "x"]);
        for (name, answer) in names.iter().zip(releases(&store, &ours).await) {
            let held_by = match &answer {
                Ok(HoldAnswer::NotHeld { key: named, held_by }) if *named == key(name) => held_by.as_ref(),
                _ => None,
            };
            let is_right = match *name {
                "taken" => held_by.is_some_and(|by| {
                    by.fence == Some(fence)
                        && by.owner == Owner::Holder { holder: next.holder, label: next.label.clone() }
                }),
                "list" => held_by.is_some_and(|by| by.owner == Owner::NotALock),
                "gone" => answer == Ok(HoldAnswer::NotHeld { key: key("gone"), held_by: None }),
                _ => answer == Ok(HoldAnswer::Done),
            };
            assert!(is_right, "{flavor}, {name}: {answer:?}");
        }
        assert!(value(&server, "taken").unwrap().contains(&next.holder.digits()));
        assert_eq!(server.text(&["LLEN", "list"]), Reply::Integer(1));
        assert!(["a", "b", "c", "d"].iter().all(|name| value(&server, name).is_none()));
    }
}

/// A server may log each command that it denies.
#[tokio::test]
async fn a_user_without_mget_is_served_one_by_one_and_tries_a_batch_once() {
    for flavor in [Flavor::Redis62, Flavor::Redis70, Flavor::Valkey91] {
        let server = Server::setup(flavor).acl_user("lock", &format!("{MINIMAL} -mget")).start();
        let store = store(&as_user(&server, "lock"));
        store.open().await.unwrap();
        let before = scripts(&server);
        for _ in 0..3 {
            let ours = attempt(&["app:k"]);
            granted(grant(&store, &ours).await);
            assert_eq!(store.renew(std::slice::from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
            assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
            assert_eq!(value(&server, "app:k"), None);
        }
        // The first batch of grants is served, and the first batch of renewals refused. Scripts
        // that the server does not know are sent twice.
        assert_eq!(scripts(&server) - before, 9 + 2 + 3, "{flavor}");
    }
}

/// Regression: from the first refused key on, all requests on the connection were sent one by one.
#[tokio::test]
async fn a_key_that_a_user_may_not_lock_leaves_the_batches_of_its_other_keys() {
    for flavor in Flavor::ALL {
        let server = Server::setup(flavor).acl_user("lock", MINIMAL).start();
        let store = store(&as_user(&server, "lock"));
        lasting(grant(&store, &attempt(&["elsewhere"])).await, &["~leasehold:"]);
        let ours = attempt(&["app:k"]);
        granted(grant(&store, &ours).await);
        assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
        // Nothing but a batch calls this.
        assert_eq!(server.calls("mget"), 1, "{flavor}");
    }
}

/// The server executed the requests, but the answer was lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_grant_of_a_batch_whose_answer_is_lost_is_undone() {
    for flavor in Flavor::ALL {
        let (server, proxy) = behind_a_proxy(flavor);
        let store = store(&format!("{}?call-limit=300ms", proxy.url()));
        store.open().await.unwrap();
        let ours: Vec<_> = (0..20).map(|nth| attempt(&[&format!("k{nth}")])).collect();
        proxy.mute();
        for answer in grants(&store, &ours).await {
            passing(answer, &[]);
        }
        assert!((0..20).any(|nth| value(&server, &format!("k{nth}")).is_some()), "{flavor}: nothing came");
        proxy.heal();
        for attempt in &ours {
            crate::queue::give_up(&store, attempt).await;
        }
        assert!((0..20).all(|nth| value(&server, &format!("k{nth}")).is_none()), "{flavor}");
    }
}

/// Requests that were sent on it may still be in a buffer, and be served after the releases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_on_a_broken_connection_is_given_up_once_it_can_no_longer_be_served() {
    let (_server, proxy) = behind_a_proxy(Flavor::Valkey91);
    let store = store(&proxy.url());
    store.open().await.unwrap();
    let ours: Vec<_> = (0..20).map(|nth| attempt(&[&format!("k{nth}")])).collect();
    proxy.mute();
    let began = std::time::Instant::now();
    let breaking = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        proxy.cut();
        proxy.heal();
    };
    let (answers, ()) = tokio::join!(grants(&store, &ours), breaking);
    let lost: Vec<_> =
        ours.iter().zip(answers).filter(|(_, answer)| answer.is_err()).map(|(ours, _)| ours).collect();
    assert!(!lost.is_empty() && began.elapsed() < Duration::from_millis(400));
    crate::queue::give_up(&store, lost[0]).await;
    assert!(began.elapsed() >= Duration::from_millis(500), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_request_that_is_dropped_while_it_waits_for_others_is_never_sent() {
    let (server, store) = started(Flavor::Valkey91);
    store.open().await.unwrap();
    server.stop();
    let names = ["a:", "b:", "c:", "dropped:", "d:"];
    let attempts = names.map(|name| attempt(&[name]));
    let mut asking: Vec<_> = attempts.iter().map(|attempt| Box::pin(grant(&store, attempt))).collect();
    ask_in_turn(&mut asking).await;
    drop(asking.remove(3));
    server.cont();
    for request in asking {
        granted(request.await);
    }
    assert!(["a:", "b:", "c:", "d:"].iter().all(|name| last_fence(&server, name).is_some()));
    assert_eq!(last_fence(&server, "dropped:"), None);
}

/// Regression: it had only the rest of its limit, so it timed out on a slow network, and closed a
/// connection that was in order.
#[tokio::test]
async fn a_request_that_waited_for_others_has_its_whole_limit_for_its_answer() {
    let (_server, slow) = behind_a_proxy(Flavor::Valkey91);
    let mute = Proxy::to_port(slow.port());
    let store = store(&format!("{}?call-limit=1s", mute.url()));
    granted(grant(&store, &attempt(&["before"])).await);
    mute.mute();
    let began = std::time::Instant::now();
    let attempts = ["a", "b", "c", "d"].map(|name| attempt(&[name]));
    let mut asking: Vec<_> = attempts.iter().map(|attempt| Box::pin(grant(&store, attempt))).collect();
    ask_in_turn(&mut asking).await;
    let stall = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        slow.slow_down(Duration::from_millis(250));
        mute.heal();
    };
    let (answers, ()) = tokio::join!(join_all(asking), stall);
    for answer in answers {
        granted(answer);
    }
    assert!(began.elapsed() > Duration::from_secs(1), "nobody waited for long");
}

/// As in a `select!` whose other branch is busy.
#[tokio::test]
async fn a_caller_that_is_not_polled_holds_up_nobody() {
    let (_server, store) = started(Flavor::Valkey91);
    store.open().await.unwrap();
    let [first, second, third] = ["a", "b", "c"].map(|name| attempt(&[name]));
    let mut idle = pin!(grant(&store, &first));
    assert!(poll_fn(|context| Poll::Ready(idle.as_mut().poll(context).is_pending())).await);
    let began = std::time::Instant::now();
    granted(grant(&store, &second).await);
    granted(grant(&store, &third).await);
    assert!(began.elapsed() < Duration::from_millis(400), "{:?}", began.elapsed());
    granted(idle.await);
}

/// A quorum makes the batches of its members, and decides which keys are in them.
#[tokio::test]
async fn what_a_quorum_asks_a_member_alone_is_one_script() {
    for flavor in Flavor::ALL {
        let (server, store) = started_with(flavor, "quarantine=no");
        store.open().await.unwrap();
        let [ours, rival] = [(); 2].map(|()| at_member(&attempt(&["k"])));
        // From now on, the server knows the scripts.
        granted(grant(&store, &ours).await);
        store.give_up(&ours).await.unwrap();
        let before = scripts(&server);
        granted(grant(&store, &ours).await);
        assert!(matches!(grant(&store, &rival).await, Ok(GrantAnswer::Busy { .. })));
        store.give_up(&rival).await.unwrap();
        assert!(value(&server, "k").unwrap().contains(&ours.holder.digits()));
        store.give_up(&ours).await.unwrap();
        assert_eq!((scripts(&server) - before, value(&server, "k")), (4, None), "{flavor}");
        // No refusal keeps a key out of a batch, nor does a release of what is not held.
        let served = store.serve_batch(&[], &[&rival]).await.unwrap();
        assert_eq!(served.released, [false], "{flavor}");
        let served = store.serve_batch(&[&rival], &[]).await.unwrap();
        assert!(served.granted[0].is_some(), "{flavor}");
        let served = store.serve_batch(&[], &[&rival]).await.unwrap();
        assert_eq!((&served.released[..], value(&server, "k")), (&[true][..], None), "{flavor}");
    }
}

/// The key may be at one node and its queue at the other; the value means the same at both.
#[tokio::test]
async fn a_batch_in_a_cluster_is_split_by_slot_and_follows_a_moving_slot() {
    for flavor in [Flavor::Redis70, Flavor::Valkey91] {
        let cluster = Cluster::start(flavor, 3, 0);
        let store = cluster_store(&cluster.url());
        let names: Vec<_> = (0..60).map(|nth| format!("{{{}}}:{nth}", nth % 10)).collect();
        let many: Vec<_> = names.iter().map(|name| attempt(&[name])).collect();
        let request =
            |store: ClusterStore, attempt| async move { store.grant(&attempt, WaitMode::Try).await };
        let answers = together(&store, &many, request).await;
        let fences: Vec<_> = answers.into_iter().map(granted).collect();
        assert_eq!(fences.len(), 60);
        for attempt in &many {
            assert_eq!(store.release(attempt).await, Ok(HoldAnswer::Done));
        }

        let (slot, ours) = (slot_of(b"k"), [(); 4].map(|()| attempt(&["k"])));
        let (from, to) = (cluster.owner(slot), cluster.other(slot));
        let left = || cluster.nodes().iter().map(|node| node.keys("k").len()).sum::<usize>();
        granted(store.grant(&ours[0], WaitMode::Try).await);
        assert_eq!(store.release(&ours[0]).await, Ok(HoldAnswer::Done));
        assert_eq!(left(), 0);
        // The slot is moving; the key is still here.
        granted(store.grant(&ours[1], WaitMode::Try).await);
        cluster.begin(slot, from, to);
        assert_eq!(store.release(&ours[1]).await, Ok(HoldAnswer::Done));
        assert_eq!(left(), 0);
        while cluster.carry(slot, from, to) > 0 {}
        cluster.end(slot, from, to);
        // The key has moved, and this store does not know it.
        granted(store.grant(&ours[2], WaitMode::Try).await);
        cluster.hand_over(slot, from);
        assert_eq!(store.release(&ours[2]).await, Ok(HoldAnswer::Done));
        assert_eq!(left(), 0);
        granted(store.grant(&ours[3], WaitMode::Try).await);
        store.give_up(&ours[3]).await.unwrap();
        assert_eq!(left(), 0);
    }
}

#[tokio::test]
async fn many_leases_are_renewed_by_one_script() {
    let (server, store) = started(Flavor::Valkey91);
    let held: Vec<_> = (0..50).map(|n| attempt(&[&format!("k{n}")])).collect();
    for ours in &held {
        granted(grant(&store, ours).await);
    }
    let all_done = |answers: Vec<_>| answers.iter().all(|answer| *answer == Ok(HoldAnswer::Done));
    // The first time, the server gets the script.
    assert!(all_done(store.renew(&held).await));
    let before = server.calls("evalsha");
    assert!(all_done(store.renew(&held).await));
    assert_eq!(server.calls("evalsha") - before, 1);
}
