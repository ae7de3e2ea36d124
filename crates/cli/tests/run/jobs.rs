//! `leasehold once` and `leasehold every`: a job is done once, or once in a period, by independent
//! processes.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::{Value, json};
use servers::{Flavor, Reply, Server};

use crate::harness::{Running, Site, has, is_alive, names, until};

const JOBS: [&str; 2] = ["once migrate", "every 1h report"];

/// A job that takes long.
const SLOW: &str = "echo $$ > running; exec sleep 60";

fn lines(site: &Site, name: &str) -> usize {
    site.read(name).lines().count()
}

/// The events of a job, without their times.
fn told(site: &Site, task: &str, words: &str) -> Vec<Value> {
    site.finish(site.telling(task, words));
    site.events()
}

#[test]
fn one_of_ten_processes_that_start_at_once_runs_the_job_three_times_in_a_row() {
    let server = Server::setup(Flavor::Redis82).append_only().arg("appendfsync", "always").start();
    for site in [Site::new(), Site::on(&server.url())] {
        for round in 0..3 {
            let script = "echo $$ >> ran; sleep 0.2";
            let words = ["1h", "report", "--", "sh", "-c", script];
            let all: Vec<Running> = (0..10).map(|_| site.start(site.task("every", &words))).collect();
            for one in all {
                one.finish().silent(0);
            }
            assert_eq!(lines(&site, "ran"), 1, "{} in round {round}", site.store());
            // A finished job stays finished, also across a restart.
            if site.store() == server.url() {
                server.kill_9();
                server.restart();
            }
        }
    }
}

/// Regression: the record of a job that no replica confirmed used up the time for the release, so
/// that was said not to be confirmed, although the server answered it.
#[test]
fn a_record_that_no_replica_confirms_leaves_time_for_the_release() {
    let pair = || Server::setup(Flavor::Valkey91).arg("repl-diskless-sync-delay", "0");
    let master = pair().start();
    let replica = pair().arg("replicaof", &format!("127.0.0.1 {}", master.port())).start();
    let site = Site::on(&format!("{}?replicas=1", master.url()));
    let script = "echo $$ > running; until [ -e go ]; do sleep 0.02; done";
    // It waits until the replica is in touch.
    let run = site.start(site.task("once", &["migrate", "--", "sh", "-c", script]));
    site.wait_for("running");
    replica.stop();
    site.go();
    let done =
        run.finish().exits_with(69).err_has(&["recorded that the job is done: trying", "may be run again"]);
    assert!(!done.err.contains("the release") && !done.err.contains("others may have to wait"), "{done:?}");
    assert_eq!(master.text(&["EXISTS", "migrate"]), Reply::Integer(0));
    replica.cont();
}

#[test]
fn one_of_ten_processes_migrates_and_all_exit_with_0_when_it_is_done() {
    for site in Site::on_file_and(Flavor::Valkey91) {
        let script = "sleep 0.3; echo $$ >> ran";
        let words = ["migrate", "--", "sh", "-c", script];
        let all: Vec<Running> = (0..10).map(|_| site.start(site.task("once", &words))).collect();
        for one in all {
            one.finish().silent(0);
            assert_eq!(lines(&site, "ran"), 1, "whoever has ended knows that it is done");
        }
    }
}

#[test]
fn a_failed_job_is_left_to_the_next_process_and_a_done_one_runs_no_more() {
    let server = Server::setup(Flavor::Valkey91).append_only().arg("appendfsync", "always").start();
    for site in [Site::new(), Site::on(&server.url())] {
        for (task, words) in [("once", &["migrate", "--"][..]), ("every", &["1h", "report", "--"])] {
            let run = |script: &str| {
                let all: Vec<_> = words.iter().copied().chain(["sh", "-c", script]).collect();
                site.finish(site.task(task, &all))
            };
            run("exit 1").silent(1);
            run("exit 75").silent(75);
            run("kill -9 $$").died_of(Signal::KILL);
            let done = run("echo $LEASEHOLD_KEY $LEASEHOLD_FENCE").silent(0);
            let (key, fence) = done.out.trim().split_once(' ').unwrap();
            assert!(words.contains(&key) && fence.parse::<u64>().unwrap() > 0, "{done:?}");
            run("echo again").prints(0, "");
            // The lock of that name is free.
            site.finish(site.run(&["-n", key, "--", "true"])).silent(0);
        }
        if site.store() == server.url() {
            server.kill_9();
            server.restart();
        }
        for job in JOBS {
            site.line(&format!("{job} -- echo again")).prints(0, "");
        }
    }
}

#[test]
fn a_run_that_is_killed_leaves_the_job_to_the_next_and_nothing_running() {
    for site in Site::on_file_and(Flavor::Redis70) {
        for (task, words) in
            [("once", &["--ttl", "2", "migrate"][..]), ("every", &["--ttl", "2", "1h", "report"])]
        {
            let job_of = |script| site.task(task, &[words, &["--", "sh", "-c", script]].concat());
            let (killed, number) = site.running(job_of(SLOW));
            killed.signal(Signal::KILL);
            until("its command is gone", || !is_alive(&number));
            // Nobody waits for longer than the TTL: `once` waits for its end, and `every` is
            // started again.
            until("it is done", || {
                let done = site.finish(job_of("echo done")).silent(0);
                assert!(task == "every" || done.out == "done\n", "{done:?}");
                done.out == "done\n"
            });
            site.finish(job_of("echo again")).out_is("");
        }
    }
}

#[test]
fn killing_all_processes_that_have_the_file_open_loses_no_mark() {
    let site = Site::new();
    for job in JOBS {
        site.line(&format!("{job} -- true")).silent(0);
    }
    let holder = site.holder(&["another"]);
    holder.signal(Signal::KILL);
    holder.finish().died_of(Signal::KILL);
    for job in JOBS {
        site.line(&format!("{job} -- echo again")).prints(0, "");
    }
}

#[test]
fn it_is_due_again_when_the_period_is_over() {
    let site = Site::new();
    let run = || site.line("every 2s tick -- echo tick").out;
    let started = Instant::now();
    assert_eq!(run(), "tick\n");
    // The job is requested long before it is due.
    assert!(started.elapsed() > Duration::from_secs(2) || run().is_empty());
    until("it is due again", || run() == "tick\n");
    assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
}

#[test]
fn programs_are_told_whether_it_ran_was_done_or_is_not_due() {
    let site = Site::new();
    let now = || u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap();
    let before = now();
    let ran = told(&site, "once", "--label web-3 migrate -- true");
    assert_eq!(names(&ran), ["acquired", "ended", "done", "released"]);
    let begun_at = ran[2]["begun_at"].as_u64().unwrap();
    assert!(before <= begun_at && begun_at <= now(), "{ran:?}");
    assert!(ran[2]["due_at"].is_null(), "{ran:?}");

    let skipped = told(&site, "once", "--skip-exit-code 9 migrate -- true");
    assert_eq!(names(&skipped), ["already_done"]);
    has(&skipped[0], &json!({"key": "migrate", "by": "web-3", "begun_at": begun_at, "code": 9}));
    assert_eq!(skipped[0]["fence"], ran[0]["fence"]);

    let failed = told(&site, "every", "1h report -- false");
    assert_eq!(names(&failed), ["acquired", "ended", "released"]);
    let ran = told(&site, "every", "1h report -- true");
    assert_eq!(names(&ran), ["acquired", "ended", "done", "released"]);
    let due_at = ran[2]["begun_at"].as_u64().unwrap() + 3_600_000;
    assert_eq!(ran[2]["due_at"], due_at);
    let skipped = told(&site, "every", "1h report -- true");
    assert_eq!(names(&skipped), ["not_due"]);
    has(&skipped[0], &json!({"due_at": due_at, "code": 0}));

    let (holder, _) =
        site.running(site.task("every", &["--label", "here", "1h", "slow", "--", "sh", "-c", SLOW]));
    let skipped = told(&site, "every", "1h slow -- true");
    assert_eq!(names(&skipped), ["underway"]);
    assert!(skipped[0]["held_by"].as_str().unwrap().starts_with("here ("), "{skipped:?}");
    assert!(skipped[0]["begun_at"].is_null(), "{skipped:?}");
    drop(holder);
}

#[test]
fn a_person_sees_the_holder_and_a_script_the_exit_code() {
    let site = Site::new();
    site.line("once --label web-3 migrate -- true").silent(0);
    site.line("every --label web-3 1h report -- true").silent(0);
    let last = |line: &str, code| {
        let done = site.line(line).exits_with(code).out_is("");
        done.err.lines().last().unwrap().to_owned()
    };
    let said = last("once -v migrate -- echo no", 0);
    assert!(said.starts_with("leasehold: migrate: already done, begun 20"), "{said}");
    assert!(said.ends_with("Z by web-3: not run"), "{said}");
    let said = last("every -v --skip-exit-code 3 1h report -- echo no", 3);
    assert!(said.starts_with("leasehold: report: not due until 20") && said.contains("Z, in 59m"), "{said}");
    assert!(said.ends_with("Z by web-3: not run"), "{said}");
    site.line("every -vq --skip-exit-code 3 1h report -- true").exits_with(3);

    let (holder, _) = site.running(site.task("once", &["--label", "here", "slow", "--", "sh", "-c", SLOW]));
    site.line("once -n slow -- true").says(75, &["slow: held by here ("]);
    site.line("once -w 1s -qE 9 slow -- true").silent(9);
    let said = last("every -v 1h slow -- true", 0);
    assert!(said.starts_with("leasehold: slow: just being done, by here ("), "{said}");
    drop(holder);
}

#[test]
fn a_lease_that_is_lost_ends_the_command_and_leaves_it_to_the_next() {
    let (server, site) = Site::on_server(Flavor::Valkey91);
    let (lost, number) = site.running(site.task("once", &["--ttl", "2s", "migrate", "--", "sh", "-c", SLOW]));
    server.text(&["DEL", "migrate"]);
    lost.finish().says(70, &["migrate: lease lost"]);
    assert!(!is_alive(&number));
    site.line("every --max-hold 300ms 1h report -- sleep 60").says(70, &["report: ", "--max-hold 300ms"]);
    for job in JOBS {
        site.line(&format!("{job} -- echo done")).exits_with(0).out_is("done\n");
    }
}

/// The command succeeded, but it had lost its lock before its end.
#[test]
fn a_job_that_ends_after_its_lock_was_lost_is_not_marked_as_done() {
    let (server, site) = Site::on_server(Flavor::Redis82);
    let script = "echo $$ > running; until [ -e go ]; do sleep 0.01; done";
    let (late, _) = site.running(site.task("once", &["--ttl", "20", "migrate", "--", "sh", "-c", script]));
    // The holder is not notified: it would find out at its next renewal.
    server.text(&["SET", "migrate", "another"]);
    site.go();
    late.finish().says(70, &["migrate: ", "lost before that was recorded", "run again"]);
    server.text(&["DEL", "migrate"]);
    site.line("once migrate -- echo done").out_is("done\n");
}

/// Its user lost a permission while the command ran.
#[test]
fn a_job_whose_end_the_store_refuses_to_record_is_69() {
    let (server, site) = Site::on_server(Flavor::Redis70);
    let script = "echo $$ > running; until [ -e go ]; do sleep 0.01; done";
    let (done, _) = site.running(site.task("once", &["migrate", "--", "sh", "-c", script]));
    server.text(&["ACL", "SETUSER", "default", "-set"]);
    site.go();
    done.finish().says(69, &["migrate: done, but that could not be recorded", "run again"]);
    server.text(&["ACL", "SETUSER", "default", "+set"]);
    site.finish(site.run(&["-n", "migrate", "--", "true"])).silent(0);
}

#[test]
fn a_signal_while_it_waits_ends_it_and_one_while_it_works_ends_the_command() {
    let site = Site::new();
    let (holder, _) = site.running(site.task("once", &["migrate", "--", "sh", "-c", SLOW]));
    let waiter = site.start(site.task("once", &["-v", "migrate", "--", "true"]));
    until("it waits", || waiter.err().contains("waiting for migrate, held by "));
    waiter.signal(Signal::TERM);
    waiter.finish().died_of(Signal::TERM);
    holder.signal(Signal::TERM);
    holder.finish().died_of(Signal::TERM);
    site.line("once -n migrate -- echo next").out_is("next\n");
}
