//! Locks on the keys of other libraries (`--naming`).

use servers::{Flavor, Reply};

use crate::harness::{Site, until};

#[test]
fn the_key_is_the_librarys_wherever_it_is_said_and_each_task_finds_it_by_name() {
    let (server, site) = Site::on_server(Flavor::Redis70);
    let naming = ["--naming", "shedlock:prod"];
    let script = "printf %s \"$LEASEHOLD_KEY\" > key; until [ -e go ]; do sleep 0.02; done";
    let holder = site.start(site.run_script(&[&naming[..], &["nightly"]].concat(), script));
    assert_eq!(site.wait_for("key"), "job-lock:prod:nightly");
    let theirs = ["SET", "job-lock:prod:nightly", "ADDED:…", "NX", "PX", "1000"];
    assert_eq!(server.text(&theirs), Reply::Bulk(None), "ShedLock got in");

    let task = |words: &[&str]| site.finish(site.task(words[0], &[&naming, &words[1..]].concat()));
    task(&["run", "-n", "nightly", "--", "true"]).says(75, &["job-lock:prod:nightly: held by"]);
    for words in [["show", "nightly"], ["ls", "night"], ["ls", "--all"]] {
        task(&words).out_has(&["job-lock:prod:nightly"]);
    }
    task(&["ls", "-q", "day"]).silent(0);
    task(&["break", "nightly", "--fence", "1"]).says(75, &["job-lock:prod:nightly"]);
    site.go();
    holder.finish().silent(0);
}

#[test]
fn a_run_wakes_a_waiter_of_python_redis_lock() {
    let (server, site) = Site::on_server(Flavor::Valkey91);
    for task in ["run", "once"] {
        site.finish(site.task(task, &["--naming", "python-redis-lock", "k", "--", "true"])).silent(0);
        let one = Reply::Array(Some(vec![Reply::Bulk(Some(b"1".to_vec()))]));
        assert_eq!(server.text(&["LRANGE", "lock-signal:k", "0", "-1"]), one, "{task}");
        until("the signal is over", || server.text(&["EXISTS", "lock-signal:k"]) == Reply::Integer(0));
    }
    site.finish(site.run(&["lock:k", "--", "true"])).silent(0);
    assert_eq!(server.text(&["EXISTS", "lock-signal:k"]), Reply::Integer(0), "nobody asked for it");
}

#[test]
fn a_naming_that_there_is_not_and_two_names_for_one_lock_are_64() {
    let site = Site::new();
    let run = |words: &[&str]| site.finish(site.run(&[words, &["--", "true"]].concat()));
    run(&["--naming", "redlok", "k"]).says(64, &["--naming: redlok: ", "redlock.net"]);
    run(&["--naming", "exclusive-lock", "a b", "a.b"]).says(64, &["exclusive-lock:a-b: leave one out"]);
    run(&["--naming", "exclusive-lock", "a b", "a b"]).silent(0);
    run(&["--naming", "pottery", ""]).says(64, &["the key is empty"]);
}
