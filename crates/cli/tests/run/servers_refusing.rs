//! Stores that are unreachable or refuse: exit code 69, soon, with the reason.

use std::time::{Duration, Instant};

use servers::{Cluster, Flavor, Reply, Server};

use crate::harness::{SECRET, Site, until};

#[test]
fn a_wrong_password_or_a_user_without_permission_is_69_at_once() {
    let password = Server::setup(Flavor::Redis70).password("right").start();
    let rules = format!("on >{SECRET} ~* +ping +hello +client +time");
    let permission = Server::setup(Flavor::Valkey91).acl_user("app", &rules).start();
    for (server, user, options, word) in
        [(password, "", &[][..], "password"), (permission, "app", &["-q"], "app")]
    {
        let site = Site::on(&server.url().replace("//", &format!("//{user}:{SECRET}@")));
        let started = Instant::now();
        let done = site.finish(site.run(&[options, &["k", "--", "true"]].concat()));
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
        done.says(69, &[word]).keeps_the_secret();
    }
}

/// Regression: whoever only looked was refused after 2 s, and a job after 10 s, with the advice to see
/// that the quorum runs.
#[test]
fn a_quorum_whose_servers_all_refuse_for_good_is_69_at_once_with_the_remedy() {
    let servers = [(); 3].map(|()| Server::setup(Flavor::Redis70).password("right").start());
    let urls = servers.each_ref().map(|server| server.url().replace("//", &format!("//:{SECRET}@")));
    let site = Site::on(&urls.join(" "));
    for words in [
        &["ls", "--all"][..],
        &["show", "k"],
        &["metrics"],
        &["once", "k", "--", "true"],
        &["forget", "k"],
        &["break", "k", "--fence", "1"],
    ] {
        let started = Instant::now();
        let done = site.finish(site.by_environment(words));
        assert!(started.elapsed() < Duration::from_secs(2), "{:?} {done:?}", started.elapsed());
        assert!(!done.err.contains("see that it runs"), "{done:?}");
        done.says(69, &["3 refused", "check the URL against its ACL"]).keeps_the_secret();
    }
}

#[test]
fn a_closed_port_is_69_within_the_outage_limit_or_that_of_a_short_wait_for_a_lock() {
    let site = Site::on("redis://127.0.0.1:1");
    for (options, limit) in [(&[][..], 11), (&["-w", "2"], 4)] {
        let started = Instant::now();
        let done = site.finish(site.run(&[options, &["k", "--", "true"]].concat()));
        assert!(started.elapsed() < Duration::from_secs(limit), "{options:?} {:?}", started.elapsed());
        done.says_after_trying(69, &["no answer within", "redis://127.0.0.1:1", "see that it runs"]);
    }
}

/// A member that hangs may serve the request later, so it is withdrawn there first, for 3 s at most.
#[test]
fn a_wait_for_a_quorum_with_a_member_that_hangs_ends_three_seconds_late_at_most() {
    let [answers, hangs] = [Server::start(Flavor::Redis70), Server::start(Flavor::Redis70)];
    let members = [&answers.url(), &hangs.url(), "redis://127.0.0.1:1"];
    let members = members.map(|url| format!("{url}?quarantine=no")).join(",");
    let site = Site::on(&format!("quorum:{members}"));
    hangs.stop();
    let started = Instant::now();
    let done = site.finish(site.run(&["-w", "1", "k", "--", "true"]));
    let took = started.elapsed();
    hangs.cont();
    // Behind a warning for each member that is never quarantined.
    done.exits_with(69).err_has(&["1 of 3 stores granted"]);
    assert!((Duration::from_secs(1)..Duration::from_secs(5)).contains(&took), "{took:?}");
}

const BOTH: [Flavor; 2] = [Flavor::Redis70, Flavor::Valkey91];

/// A try and a waiter with these options are refused soon, with these words, and without the advice
/// to check whether the server runs.
#[track_caller]
fn is_refused_soon(server: &Server, options: &[&str], words: &[&str]) -> Site {
    let site = Site::on(&server.url());
    let run = |more: &[&str]| site.run(&[options, more, &["k", "--", "true"]].concat());
    for command in [run(&["-n"]), run(&[])] {
        let started = Instant::now();
        let done = site.finish(command);
        assert!(started.elapsed() < Duration::from_secs(5), "{:?} {done:?}", started.elapsed());
        let done = done.says(69, words);
        assert!(!done.err.contains("see that it runs"), "{done:?}");
    }
    site
}

#[test]
fn a_server_without_memory_is_69_at_once_and_named_as_such() {
    for flavor in BOTH {
        let server =
            Server::setup(flavor).arg("maxmemory", "3mb").arg("maxmemory-policy", "noeviction").start();
        let fill = "local s = string.rep('x', 100000)
            for n = 1, 1000 do if type(redis.pcall('SET', 'theirs:' .. n, s)) == 'table' and redis.pcall('SET', 'full', s).err then return n end end";
        server.text(&["EVAL", fill, "0"]);
        let site = is_refused_soon(&server, &[], &["out of memory", "maxmemory"]);
        server.text(&["CONFIG", "SET", "maxmemory", "0"]);
        site.finish(site.run(&["k", "--", "true"])).silent(0);
    }
}

/// Regression: after the 2 s in which it tried, a run waited 3 s for the withdrawal of its request, which no
/// node had served.
#[test]
fn a_slot_that_no_node_serves_is_69_within_the_outage_limit() {
    let cluster =
        Cluster::start_with(Flavor::Valkey91, 1, 0, |setup| setup.arg("cluster-require-full-coverage", "no"));
    let node = &cluster.nodes()[0];
    let Reply::Integer(slot) = node.text(&["CLUSTER", "KEYSLOT", "k"]) else { panic!("no slot") };
    node.text(&["CLUSTER", "DELSLOTS", &slot.to_string()]);
    let site = Site::on(&cluster.url());
    let started = Instant::now();
    let done = site.finish(site.run(&["-n", "k", "--", "true"]));
    let took = started.elapsed();
    done.says(69, &["no node of the cluster serves slot", "give it to a node"]);
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// The server's dump cannot be written, as on a disk that is full: there is a directory where the
/// file should be.
#[test]
fn a_server_that_cannot_save_is_69_at_once_and_says_what_to_do() {
    for flavor in BOTH {
        let server =
            Server::setup(flavor).arg("save", "3600 1").arg("stop-writes-on-bgsave-error", "yes").start();
        let dump = server.directory().join("dump.rdb");
        std::fs::create_dir(&dump).unwrap();
        std::fs::write(dump.join("x"), "x").unwrap();
        server.text(&["BGSAVE"]);
        until("the save fails", || {
            let info = server.text(&["INFO", "persistence"]);
            info.as_text().unwrap().contains("rdb_last_bgsave_status:err")
        });
        let site = is_refused_soon(&server, &[], &["save", "disk", "free space"]);
        std::fs::remove_dir_all(&dump).unwrap();
        server.text(&["SAVE"]);
        site.finish(site.run(&["k", "--", "true"])).silent(0);
    }
}

/// Regression: the advice was to see that the server runs.
#[test]
fn a_server_that_takes_no_writes_for_now_is_69_with_the_reason_and_the_remedy() {
    let master = Server::start(Flavor::Redis70);
    let replica =
        Server::setup(Flavor::Valkey91).arg("replicaof", &format!("127.0.0.1 {}", master.port())).start();
    let alone = Server::setup(Flavor::Redis70).arg("min-replicas-to-write", "1").start();
    for (server, words) in [
        (replica, ["is a replica, and takes no writes", "name its master"]),
        (alone, ["too few replicas", "min-replicas-to-write"]),
    ] {
        let site = Site::on(&server.url());
        let done = site.finish(site.run(&["--outage-limit", "4", "k", "--", "true"]));
        assert!(!done.err.contains("see that it runs"), "{done:?}");
        done.says_after_trying(69, &words);
    }
}

/// Regression: this took 13 s, and the error said that the server gave no answer.
#[test]
fn a_wrong_type_next_to_the_key_is_69_at_once_and_named() {
    for flavor in BOTH {
        let server = Server::start(flavor);
        // A free key is granted exclusively even if the keys of the queue and the shares contain
        // foreign data.
        for (side, options) in [
            ("leasehold:w{k}k", &[][..]),
            ("leasehold:c{-}", &[]),
            ("leasehold:l{k}k", &["--shared"]),
            ("leasehold:h{k}k", &["--shared"]),
            ("leasehold:i{k}k", &["--shared"]),
        ] {
            server.text(&["FLUSHALL"]);
            server.text(&["RPUSH", side, "x"]);
            is_refused_soon(&server, options, &[side, "delete it"]);
        }
    }
}

/// Regression: `ls --all` failed as a whole.
#[test]
fn one_key_with_strangers_next_to_it_does_not_hide_the_others() {
    for flavor in BOTH {
        let server = Server::start(flavor);
        let site = Site::on(&server.url());
        let _holds = site.holder(&["a", "b", "c"]);
        server.text(&["ZADD", "leasehold:l{b}b", "1", "strange"]);
        server.text(&["RPUSH", "leasehold:l{c}c", "strange"]);
        let done = site.outcome(&["ls", "--all"]).silent(0);
        let rows: Vec<_> = done.out.lines().collect();
        assert_eq!(rows.len(), 4, "{done:?}");
        assert!(rows[3].contains("leasehold:l{c}c has another type than ours"), "{done:?}");
        let done = site.outcome(&["ls", "--all", "--json"]);
        let damaged: Vec<_> =
            done.out.lines().map(|line| line.contains(r#""damaged":"leasehold:l{"#)).collect();
        assert_eq!(damaged, [false, true, true], "{done:?}");
        site.outcome(&["show", "b"])
            .silent(0)
            .out_has(&["damaged  leasehold:l{b}b has 1 member that is not ours"]);
        site.outcome(&["show", "c"]).says(69, &["leasehold:l{c}c has another type than ours", "delete it"]);
    }
}
