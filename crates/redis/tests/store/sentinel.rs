//! A master under sentinels, which changes.

use std::ffi::OsStr;
use std::process::Command;
use std::slice::from_ref;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use leasehold_core::{Attempt, GrantAnswer, HoldAnswer, InspectStore as _, Store};
use leasehold_redis::RedisStore;
use servers::{Flavor, Proxy, Server, Watched};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::queue::{
    channels_like, hand_over, lock, until, until_answered, until_queued, wait_in_line, waits,
};
use crate::world::{attempt, grant, granted, key, lasting, passing, store, value};

/// Half a second until the sentinels miss the master, two for the failover, and some for us.
const FOLLOWED_WITHIN: Duration = Duration::from_secs(5);

/// The part of it after a sentinel has named the new master. Before, the sentinels may have to vote
/// twice, if no candidate gets a majority.
const FOLLOWED_ONCE_NAMED: Duration = Duration::from_secs(1);

/// Asks until it is answered, and returns how long that took.
async fn renewed(store: &RedisStore, attempt: &Attempt) -> (HoldAnswer, Duration) {
    let began = Instant::now();
    let renew = || async { store.renew(from_ref(attempt)).await.remove(0) };
    (until_answered(2 * FOLLOWED_WITHIN, renew).await, began.elapsed())
}

/// The number of our subscribers there. Sentinels have their own channel.
fn listeners(server: &Server) -> usize {
    channels_like(server, "leasehold:*").len()
}

/// The sentinels cut all connections of a server that they turn into a replica.
fn is_replica(server: &Server) -> bool {
    let info = server.connect().and_then(|mut connection| connection.text(&["INFO", "replication"]));
    info.is_ok_and(|info| info.as_text().is_some_and(|info| info.contains("role:slave")))
}

/// Returns true if somebody receives this sentinel's reports.
fn is_listened_to(sentinel: &Server) -> bool {
    sentinel.text(&["CLIENT", "LIST"]).as_text().is_some_and(|list| list.contains(" sub=1 "))
}

/// The sentinel whose reports are received, and the others. It may be any one that named the master.
async fn listened_to(watched: &Watched) -> (&Server, Vec<&Server>) {
    let is_one = || watched.sentinels.iter().any(is_listened_to);
    until("it listens", Duration::from_secs(5), is_one).await;
    let (listened, others): (Vec<_>, _) = watched.sentinels.iter().partition(|it| is_listened_to(it));
    (listened[0], others)
}

/// Makes a sentinel name another server, at this port. It reports no failover.
fn make_name(sentinel: &Server, port: u16) {
    sentinel.text(&["SENTINEL", "REMOVE", "locks"]);
    let monitored = ["SENTINEL", "MONITOR", "locks", "127.0.0.1", &port.to_string(), "9"];
    assert_eq!(sentinel.text(&monitored).as_text(), Some("OK"));
}

async fn is_found_and_followed(flavor: Flavor) {
    let watched = Arc::new(Watched::start(flavor));
    for query in ["?protocol=resp2", ""] {
        watched.until_ready();
        let master = watched.master_by(0);
        let store = store(&format!("{}{query}", watched.url()));
        store.open().await.unwrap();
        let ours = attempt(&["k"]);
        granted(grant(&store, &ours).await);
        assert!(value(&watched.servers[master], "k").is_some());
        let has_it = || value(&watched.servers[1 - master], "k").is_some();
        until("the replica has it", FOLLOWED_WITHIN, has_it).await;
        watched.servers[master].kill_9();
        let naming = watched.clone();
        let named = spawn_blocking(move || {
            while (0..naming.sentinels.len()).all(|sentinel| naming.master_by(sentinel) == master) {
                thread::sleep(Duration::from_millis(10));
            }
            Instant::now()
        });
        let (answer, took) = renewed(&store, &ours).await;
        let followed = Instant::now();
        assert_eq!(answer, HoldAnswer::Done, "{flavor}");
        let once_named = followed.saturating_duration_since(named.await.unwrap());
        assert!(once_named < FOLLOWED_ONCE_NAMED, "{once_named:?} of {took:?}");
        store.release(&ours).await.unwrap();
        // It comes back as a master, and the sentinels turn it into a replica.
        watched.servers[master].restart();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_is_found_and_followed_when_it_is_killed_on_6_2() {
    is_found_and_followed(Flavor::Redis62).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_master_is_found_and_followed_when_it_is_killed_on_9_1() {
    is_found_and_followed(Flavor::Valkey91).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_unknown_to_the_new_master_is_reported_as_lost_at_the_next_renewal() {
    let watched = Watched::start(Flavor::Redis82);
    let store = store(&watched.url());
    store.open().await.unwrap();
    // The replica receives nothing more, and data in flight is lost with its connection.
    watched.servers[1].stop();
    watched.servers[0].text(&["CLIENT", "KILL", "TYPE", "replica"]);
    let ours = attempt(&["k"]);
    let fence = granted(grant(&store, &ours).await);
    watched.servers[0].kill_9();
    watched.servers[1].cont();
    let (answer, _) = renewed(&store, &ours).await;
    assert_eq!(answer, HoldAnswer::NotHeld { key: key("k"), held_by: None });
    let next = attempt(&["k"]);
    assert!(granted(grant(&store, &next).await) > fence);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_hangs_is_left_and_found_as_a_replica_when_it_comes_back() {
    let watched = Watched::start(Flavor::Redis70);
    let store = store(&watched.url());
    let ours = attempt(&["k"]);
    granted(grant(&store, &ours).await);
    until("the replica has it", FOLLOWED_WITHIN, || value(&watched.servers[1], "k").is_some()).await;
    watched.servers[0].stop();
    let (answer, took) = renewed(&store, &ours).await;
    assert_eq!(answer, HoldAnswer::Done);
    assert!(took < FOLLOWED_WITHIN, "{took:?}");
    watched.servers[0].cont();
    until("it is a replica", Duration::from_secs(20), || is_replica(&watched.servers[0])).await;
    let began = Instant::now();
    store.inspect(&key("k")).await.unwrap();
    granted(grant(&store, &attempt(&["another"])).await);
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert!(value(&watched.servers[1], "another").is_some());
}

/// Mere waiters get neither a closed connection nor a refused write: the sentinels and `ROLE` tell
/// them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_waiter_is_notified_by_the_new_master() {
    for query in ["?protocol=resp2", ""] {
        let watched = Watched::start(Flavor::Valkey91);
        let [here, there] = [(); 2].map(|()| store(&format!("{}{query}", watched.url())));
        let [holder, first] = [(); 2].map(|()| attempt(&["k"]));
        lock(&here, &holder).await;
        let [waiter] = wait_in_line(&watched.servers[0], [(&there, &first)]).await;
        watched.fail_over();
        let agree = || (0..3).all(|sentinel| watched.master_by(sentinel) == 1);
        // They decide when; what is tested comes after it.
        until("the sentinels agree", Duration::from_secs(30), agree).await;
        until_queued(&watched.servers[1], &[&first]).await;
        until("it hears there", FOLLOWED_WITHIN, || listeners(&watched.servers[1]) >= 1).await;
        let took = hand_over(&here, &holder, waiter).await;
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
}

/// Regression: in RESP2, only the connection with the subscription was asked, and not for its role.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_notices_a_master_that_was_demoted_without_notice() {
    for query in ["", "?protocol=resp2"] {
        let watched = Watched::start(Flavor::Redis70);
        let [here, there] = [(); 2].map(|()| store(&format!("{}{query}", watched.url())));
        let [holder, first] = [(); 2].map(|()| attempt(&["k"]));
        lock(&here, &holder).await;
        // It asks once, so its own requests find nothing out.
        waits(&there, &first).await;
        until("it hears", FOLLOWED_WITHIN, || listeners(&watched.servers[0]) >= 1).await;
        // Nobody is notified: the sentinels are stopped, and no connection is closed.
        watched.sentinels.iter().for_each(Server::stop);
        watched.servers[1].text(&["REPLICAOF", "NO", "ONE"]);
        watched.servers[0].text(&["REPLICAOF", "127.0.0.1", &watched.servers[1].port().to_string()]);
        let is_left = || listeners(&watched.servers[0]) == 0;
        until("the demoted one is left", Duration::from_secs(2), is_left).await;
        watched.sentinels.iter().for_each(Server::cont);
    }
}

#[tokio::test]
async fn a_sentinel_that_hangs_or_is_gone_is_passed_over() {
    let watched = Watched::start(Flavor::Redis62);
    watched.sentinels[0].stop();
    watched.sentinels[1].kill_9();
    let store = store(&watched.url());
    let began = Instant::now();
    store.open().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    watched.sentinels[0].cont();
}

/// Regression: each of five had 180 ms for all round trips.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_sentinels_far_away_name_the_master() {
    let watched = Watched::start(Flavor::Valkey91);
    let far: Vec<_> = (0..5).map(|nth| Proxy::before(&watched.sentinels[nth % 3])).collect();
    far.iter().for_each(|proxy| proxy.slow_down(Duration::from_millis(100)));
    let hosts: Vec<_> = far.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
    let store = store(&format!("redis+sentinel://{}/locks", hosts.join(",")));
    store.open().await.unwrap();
}

/// A port that nobody answers at 127.0.0.1, because its backlog is full, for as long as the result is
/// kept.
async fn silent_port() -> (u16, Vec<TcpStream>, TcpListener) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let addr = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(connected) = timeout(Duration::from_secs(1), TcpStream::connect(addr)).await {
        waiting.push(connected.unwrap());
    }
    (addr.port(), waiting, listener)
}

/// Regression: the first address used up the sentinel's time. The name is that of a mount namespace,
/// in which this test runs again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_address_of_a_sentinel_is_tried_in_time_if_the_first_is_silent() {
    const URL: &str = "LEASEHOLD_TEST_SENTINEL";
    if let Ok(url) = std::env::var(URL) {
        // On a busy machine, a sentinel may be too slow.
        let store = store(&url);
        return until_answered(Duration::from_secs(10), || store.open()).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let hosts = directory.path().join("hosts");
    std::fs::write(&hosts, "127.0.0.1 sentinel.test\n127.0.0.2 sentinel.test\n").unwrap();
    let script = format!("mount --bind {} /etc/hosts && exec \"$0\" \"$@\"", hosts.display());
    let inside = |program: &OsStr| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).arg(program);
        command
    };
    if !inside("true".as_ref()).status().is_ok_and(|status| status.success()) {
        eprintln!("left out: no file can be mounted here");
        return;
    }
    let watched = Watched::start(Flavor::Valkey91);
    let (port, _waiting, _listener) = silent_port().await;
    let sentinel = watched.sentinels[0].port();
    let listener = TcpListener::bind(("127.0.0.2", port)).await.unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", sentinel)).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    let name = thread::current().name().unwrap().to_owned();
    let mut again = inside(std::env::current_exe().unwrap().as_os_str());
    let url = format!("redis+sentinel://sentinel.test:{port}/locks");
    let again = again.args(["--exact", &name]).env(URL, url).output().unwrap();
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stdout));
}

/// Regression: it was tried again until the outage limit, because the third might know another master.
#[tokio::test]
async fn a_password_that_the_master_of_most_sentinels_refuses_is_refused_at_once() {
    let watched = Watched::start(Flavor::Valkey91);
    let wrong = watched.url().replace("://", "://nobody:wrong@");
    watched.sentinels[1].kill_9();
    let master = watched.servers[0].port().to_string();
    lasting(store(&wrong).open().await, &["nobody", &format!("the master, 127.0.0.1:{master}")]);
    // One of three says nothing about the others.
    watched.sentinels[0].kill_9();
    passing(store(&wrong).open().await, &["nobody", "cannot connect"]);
}

#[tokio::test]
async fn errors_name_the_sentinels_and_what_each_said() {
    let watched = Watched::start(Flavor::Valkey91);
    let ports: Vec<_> = watched.sentinels.iter().map(|sentinel| sentinel.port().to_string()).collect();
    let unknown = store(&watched.url().replace("/locks", "/lokcs")).open().await;
    lasting(unknown, &["/lokcs: ", &ports[0], &ports[2], "knows no master lokcs; it knows locks"]);
    let server = watched.servers[0].port();
    let no_sentinel = store(&format!("redis+sentinel://127.0.0.1:{server}/locks")).open().await;
    lasting(no_sentinel, &[&server.to_string(), "is not a sentinel", "26379"]);
    // Regression: the remedy was to undo what renames TIME.
    let no_server = store(&format!("redis://127.0.0.1:{}", ports[0])).open().await;
    lasting(no_server, &["lacks a command", "for a sentinel, write redis+sentinel://"]);
    watched.sentinels[1].kill_9();
    // One of them might know the master.
    let unknown = store(&watched.url().replace("/locks", "/lokcs")).open().await;
    passing(unknown, &["knows no master lokcs", &format!("{}: cannot connect", ports[1])]);
    watched.sentinels[0].kill_9();
    watched.sentinels[2].stop();
    let silent = store(&watched.url()).open().await;
    let words = [format!("{}: cannot connect", ports[0]), format!("{}: no answer within 450ms", ports[2])];
    passing(silent, &words.each_ref().map(String::as_str));
    watched.sentinels[2].cont();
}

/// A sentinel may have missed a failover.
#[tokio::test]
async fn a_replica_is_not_taken_for_a_master_even_if_a_sentinel_says_so() {
    let watched = Watched::start(Flavor::Redis82);
    watched.sentinels.iter().for_each(Server::stop);
    watched.servers[0].text(&["REPLICAOF", "127.0.0.1", &watched.servers[1].port().to_string()]);
    watched.sentinels[0].cont();
    let answer = store(&watched.url()).open().await;
    passing(answer, &[&watched.servers[0].port().to_string(), "the server is a replica"]);
    watched.sentinels.iter().for_each(Server::cont);
}

/// Regression: what that server refused for good was the answer, and no other sentinel was asked.
#[tokio::test]
async fn a_sentinel_that_names_a_server_of_others_is_passed_over() {
    let watched = Watched::start(Flavor::Valkey91);
    let theirs = Server::setup(Flavor::Valkey91).password("theirs").start();
    make_name(&watched.sentinels[0], theirs.port());
    let ours = attempt(&["k"]);
    granted(grant(&store(&watched.url()), &ours).await);
    assert!(value(&watched.servers[0], "k").is_some());
    // Nobody else knows another one.
    watched.sentinels[1..].iter().for_each(Server::kill_9);
    passing(store(&watched.url()).open().await, &["asks for a password", "cannot connect"]);
}

/// No call is made meanwhile, so none could find out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_of_the_sentinels_leaves_a_hung_master_before_it_asks_there() {
    let watched = Watched::start(Flavor::Redis82);
    let store = store(&watched.url());
    store.open().await.unwrap();
    until("it listens", Duration::from_secs(5), || watched.sentinels.iter().any(is_listened_to)).await;
    watched.servers[0].stop();
    let replaced = || (0..3).all(|sentinel| watched.master_by(sentinel) == 1);
    until("it is replaced", Duration::from_secs(20), replaced).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let began = Instant::now();
    granted(grant(&store, &attempt(&["k"])).await);
    assert!(began.elapsed() < Duration::from_millis(400), "{:?}", began.elapsed());
}

/// Regression: a report that came between two subscriptions was missed for ever, and a sentinel that
/// hung was listened to for ever. So a lock was renewed at a server that was no master any more, while
/// the new master granted it to others.
async fn is_left_when_the_listened_to_sentinel_fails(fail: fn(&Server), within: Duration) {
    let watched = Watched::start(Flavor::Valkey91);
    let elsewhere = Server::start(Flavor::Valkey91);
    let store = store(&watched.url());
    let ours = attempt(&["k"]);
    granted(grant(&store, &ours).await);
    let (listened, others) = listened_to(&watched).await;
    fail(listened);
    others.into_iter().for_each(|sentinel| make_name(sentinel, elsewhere.port()));
    let began = Instant::now();
    while renewed(&store, &ours).await.0 == HoldAnswer::Done {
        assert!(began.elapsed() < within, "still renewed at the old master");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let next = attempt(&["k"]);
    granted(grant(&store, &next).await);
    assert!(value(&elsewhere, "k").is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_is_left_that_was_replaced_when_the_listened_to_sentinel_died() {
    is_left_when_the_listened_to_sentinel_fails(Server::kill_9, Duration::from_secs(3)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_is_left_that_was_replaced_while_the_listened_to_sentinel_hung() {
    is_left_when_the_listened_to_sentinel_fails(Server::stop, Duration::from_secs(9)).await;
}

/// It has missed the failover, and names the old master for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_is_left_that_the_sentinel_which_ended_the_subscription_still_names() {
    let ends_it = |sentinel: &Server| drop(sentinel.text(&["CLIENT", "KILL", "TYPE", "pubsub"]));
    is_left_when_the_listened_to_sentinel_fails(ends_it, Duration::from_secs(9)).await;
}

/// Regression: a sentinel that refused the subscription was not asked again either, so nobody noticed,
/// and a lock was renewed at the old master for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_is_left_although_the_sentinels_refuse_to_be_listened_to() {
    let rules = "on >watch resetkeys resetchannels -@all +sentinel|get-master-addr-by-name +subscribe";
    let sentinel = Server::setup(Flavor::Valkey91).acl_user("looker", rules);
    let watched = Watched::with(Server::setup(Flavor::Valkey91), sentinel);
    let elsewhere = Server::start(Flavor::Valkey91);
    let store = store(&format!("{}?sentinel-user=looker&sentinel-password=watch", watched.url()));
    let ours = attempt(&["k"]);
    granted(grant(&store, &ours).await);
    tokio::time::sleep(Duration::from_secs(1)).await;
    watched.sentinels.iter().for_each(|sentinel| make_name(sentinel, elsewhere.port()));
    let began = Instant::now();
    while renewed(&store, &ours).await.0 == HoldAnswer::Done {
        assert!(began.elapsed() < Duration::from_secs(9), "still renewed at the old master");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One sentinel of two is gone, and the other one is not asked again after the master: so only what
/// it says meanwhile leads to the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_replaced_while_it_leaves_a_new_connection_unanswered_is_not_waited_for() {
    let watched = Watched::start(Flavor::Valkey91);
    let [gone, sentinel, _] = &watched.sentinels[..] else { panic!("three sentinels") };
    gone.kill_9();
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let (greets, mut greetings) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = silent.accept().await {
            let greets = greets.clone();
            tokio::spawn(async move {
                let mut said = vec![0; 1000];
                let length = client.read(&mut said).await?;
                // The sentinel connects, too.
                if said[..length].windows(5).any(|word| word == b"HELLO") {
                    let _ = greets.send(());
                }
                client.read(&mut said).await
            });
        }
    });
    let elsewhere = Server::start(Flavor::Valkey91);
    let url = format!("redis+sentinel://127.0.0.1:{},127.0.0.1:{}/locks", gone.port(), sentinel.port());
    // On a busy machine, it may be replaced too late.
    for _ in 0..10 {
        make_name(sentinel, port);
        let store = store(&url);
        let opening = tokio::spawn(async move { store.open().await });
        greetings.recv().await.unwrap();
        make_name(sentinel, elsewhere.port());
        if opening.await.unwrap().is_ok() {
            return;
        }
    }
    panic!("the new master is never found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_is_kept_if_another_sentinel_names_a_replica() {
    let watched = Watched::start(Flavor::Valkey91);
    let store = store(&watched.url());
    store.open().await.unwrap();
    let (listened, others) = listened_to(&watched).await;
    // The sentinels' own connections use RESP2.
    let ours = || match watched.servers[0].text(&["CLIENT", "LIST"]).as_text() {
        Some(list) => {
            let ours = list.lines().filter(|line| line.contains(" resp=3 "));
            ours.filter_map(|line| line.split(' ').next().map(str::to_owned)).collect::<Vec<_>>()
        }
        None => panic!("no list of clients"),
    };
    others.into_iter().for_each(|sentinel| make_name(sentinel, watched.servers[1].port()));
    let before = ours();
    listened.kill_9();
    let is_asked = || watched.servers[1].calls("role") >= 2;
    until("the replica is asked whether it is a master", Duration::from_secs(5), is_asked).await;
    granted(grant(&store, &attempt(&["k"])).await);
    assert_eq!(ours(), before);
}

/// Regression: the first sentinel that named a master was believed. While one of three named another
/// server than the others did, two processes whose URLs list them in different orders were granted
/// the same lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_only_a_minority_names_grants_nothing() {
    let watched = Watched::start(Flavor::Valkey91);
    let elsewhere = Server::start(Flavor::Valkey91);
    make_name(&watched.sentinels[0], elsewhere.port());
    let ports = [2, 1, 0].map(|nth| format!("127.0.0.1:{}", watched.sentinels[nth].port()));
    let [here, there] =
        [watched.url(), format!("redis+sentinel://{}/locks", ports.join(","))].map(|url| store(&url));
    granted(grant(&here, &attempt(&["k"])).await);
    let answer = grant(&there, &attempt(&["k"])).await.unwrap();
    assert!(matches!(answer, GrantAnswer::Busy { .. }), "{answer:?}");
    // Not even if the right one does not answer.
    watched.servers[0].stop();
    let late = store(&watched.url());
    passing(late.open().await, &[]);
    watched.servers[0].cont();
    assert_eq!(elsewhere.calls("eval") + elsewhere.calls("evalsha"), 0);
}

/// Regression: each silent server took a second, which was all the time for a connection. So the third
/// was never tried, however often somebody asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_is_reached_without_a_majority_although_two_servers_before_it_are_silent() {
    let watched = Watched::start(Flavor::Valkey91);
    let silent = [silent_port().await, silent_port().await];
    for (sentinel, (port, ..)) in watched.sentinels.iter().zip(&silent) {
        make_name(sentinel, *port);
    }
    let store = store(&watched.url());
    until_answered(Duration::from_secs(10), || store.open()).await;
    granted(grant(&store, &attempt(&["k"])).await);
    assert!(value(&watched.servers[0], "k").is_some());
}

/// Regression: when the sentinel that was listened to named another server, the connection moved there,
/// whatever the others said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_to_the_master_of_most_sentinels_outlasts_what_one_of_them_says() {
    let watched = Watched::start(Flavor::Valkey91);
    let elsewhere = Server::start(Flavor::Valkey91);
    let store = store(&watched.url());
    store.open().await.unwrap();
    let (listened, others) = listened_to(&watched).await;
    make_name(listened, elsewhere.port());
    let is_another = || others.iter().any(|sentinel| is_listened_to(sentinel));
    until("it listens to another", Duration::from_secs(9), is_another).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(elsewhere.calls("role"), 0);
}
