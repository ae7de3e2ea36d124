//! Loss of the lease: the command is ended by the end of the lease at the latest.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use servers::{Flavor, Reply, Server};

use crate::harness::{Running, Site, is_alive, until};

/// Records its own process id, that of a child, and each SIGTERM, and does not end.
const STUBBORN: &str = "\
    exec 2> /dev/null; trap 'date > asked' TERM; \
    sh -c 'trap \"\" TERM; echo $$ > child; while :; do sleep 0.05; done' & \
    echo $$ > running; while :; do sleep 0.05; done";

#[test]
fn a_lock_that_was_taken_away_ends_a_stubborn_command_within_the_grace_and_is_left_to_its_taker() {
    let (server, site) = Site::on_server(Flavor::Valkey91);
    let (run, command) =
        site.running(site.run_script(&["--ttl", "1500ms", "--grace", "300ms", "k"], STUBBORN));
    let child = site.wait_for("child");
    server.text(&["SET", "k", "theirs", "PX", "60000"]);
    let taken = Instant::now();
    site.wait_for("asked");
    until("the command is gone", || !is_alive(&command) && !is_alive(&child));
    // A third of the ttl until the next renewal finds out, then the grace; and a second for a busy
    // machine.
    assert!(taken.elapsed() < Duration::from_millis(500 + 300 + 1000), "{:?}", taken.elapsed());
    run.finish().says(70, &["k: lease lost", "another program's lock (theirs)"]);
    assert_eq!(server.text(&["GET", "k"]).as_text(), Some("theirs"));
}

#[test]
fn a_command_is_asked_to_end_before_the_lease_does_and_dead_by_then_when_nothing_gets_through() {
    let (_server, proxy, site) = Site::on_proxy(Flavor::Redis82);
    let ttl = Duration::from_secs(3);
    let (run, command) = site.running(site.run_script(&["--ttl", "3", "--grace", "1", "k"], STUBBORN));
    let child = site.wait_for("child");
    proxy.black_hole();
    // The last successful renewal was sent before this.
    let last_end = Instant::now() + ttl;
    site.wait_for("asked");
    assert!(Instant::now() < last_end, "asked too late");
    until("the command is gone", || !is_alive(&command) && !is_alive(&child));
    // The delay that a busy machine may add.
    let slack = Duration::from_millis(200);
    assert!(Instant::now() < last_end + slack, "dead {:?} too late", last_end.elapsed());
    run.finish().says(70, &["k: lease lost, so the command was ended", "could not be renewed"]);
}

/// It said only that the lease could not be renewed, and not why.
#[test]
fn a_command_that_ends_because_the_store_refuses_renewals_is_reported_with_the_reason() {
    let (server, site) = Site::on_server(Flavor::Redis82);
    let run = site.holder(&["--ttl", "3", "k"]);
    server.text(&["ACL", "SETUSER", "default", "-pexpire"]);
    run.finish().says(70, &["k: lease lost", "could not be renewed in time: redis:", "may not run pexpire"]);
}

#[test]
fn an_outage_that_is_shorter_than_the_lease_ends_nothing() {
    let (server, site) = Site::on_server(Flavor::Redis62);
    let script = "echo $$ > running; until [ -e go ]; do sleep 0.02; done; exit 3";
    let (run, _) = site.running(site.run_script(&["--ttl", "3", "k"], script));
    let renewed = || server.text(&["PTTL", "k"]).as_integer() > Some(2900);
    until("the lease is old enough to be due for renewal", || {
        server.text(&["PTTL", "k"]).as_integer() < Some(2100)
    });
    server.stop();
    let stopped = Instant::now();
    until("an outage of half a second", || stopped.elapsed() > Duration::from_millis(500));
    server.cont();
    until("the lease is renewed", renewed);
    site.go();
    run.finish().silent(3);
}

/// Nothing renews while we are stopped, and the command may end before we continue.
#[test]
fn a_command_that_ended_behind_its_lease_is_70_although_it_did_well() {
    let site = Site::new();
    let run = site.holder(&["--ttl", "300ms", "k"]);
    let command = site.read("running");
    run.signal(Signal::STOP);
    site.finish(site.run_script(&["k"], "touch go")).silent(0);
    until("the command has ended", || !is_alive(&command));
    run.signal(Signal::CONT);
    run.finish().says(70, &["k: ", "check what it did"]);
}

#[test]
fn a_lock_that_was_deleted_or_broken_leaves_the_command_its_grace() {
    let (server, site) = Site::on_server(Flavor::Redis70);
    let script =
        "trap 'sleep 0.2; echo in order; exit 0' TERM; echo $LEASEHOLD_FENCE > fence; echo $$ > running
        while :; do sleep 0.02; done";
    let run = || site.running(site.run_script(&["--ttl", "3", "k"], script)).0;
    let deleted = run();
    server.text(&["DEL", "k"]);
    deleted.finish().exits_with(70).err_has(&["k: lease lost", "deleted"]).out_is("in order\n");
    let broken = run();
    site.line(&format!("break -q k --fence {}", site.read("fence"))).silent(0);
    broken.finish().exits_with(70).err_has(&["k: lease lost", "broke the lease"]).out_is("in order\n");
}

#[test]
fn a_server_that_is_gone_at_the_end_does_not_change_how_the_command_ended() {
    let (server, site) = Site::on_server(Flavor::Redis70);
    let script = "echo $$ > running; until [ -e go ]; do sleep 0.02; done; exit 3";
    let (run, _) = site.running(site.run_script(&["--ttl", "10", "k"], script));
    server.kill_9();
    site.go();
    let done = run.finish().exits_with(3);
    let [first, last] = *done.err.lines().collect::<Vec<_>>() else { panic!("{done:?}") };
    assert!(first.ends_with("has not confirmed the release: trying for 2s more"), "{done:?}");
    assert!(last.contains("did not confirm the release: others"), "{done:?}");
}

#[test]
fn a_signal_ends_the_wait_for_a_release() {
    let (server, site) = Site::on_server(Flavor::Redis62);
    let run = site.holder(&["k"]);
    server.stop();
    site.go();
    until("it waits", || run.err().contains("has not confirmed the release: trying for 2s more"));
    run.signal(Signal::TERM);
    let sent = Instant::now();
    run.finish().exits_with(0).err_has(&["did not confirm the release"]);
    assert!(sent.elapsed() < Duration::from_millis(1500), "{:?}", sent.elapsed());
}

#[test]
fn a_release_waits_three_seconds_for_a_stopped_server_at_any_ttl() {
    let (server, site) = Site::on_server(Flavor::Valkey91);
    let began = [("run", 3, 3), ("once", 0, 69), ("every", 4, 4)].map(|(task, script_ends, code)| {
        let script = format!("echo $$ > {task}; until [ -e go ]; do sleep 0.02; done; exit {script_ends}");
        let period: &[&str] = if task == "every" { &["1h"] } else { &[] };
        let words = [&["--ttl", "3m"], period, &[task, "--", "sh", "-c", &script]].concat();
        let run = site.start(site.task(task, &words));
        site.wait_for(task);
        (task, run, code)
    });
    server.stop();
    site.go();
    let ended = Instant::now();
    for (task, run, code) in began {
        let done = run.finish().exits_with(code).err_has(&["did not confirm the release"]);
        let lasted = ended.elapsed();
        assert!(lasted < Duration::from_secs(4), "{task}: {lasted:?}");
        let first = done.err.lines().next().unwrap();
        let what = if code == 69 { "that it recorded that the job is done" } else { "the release" };
        assert!(first.ends_with(&format!("has not confirmed {what}: trying for 2s more")), "{done:?}");
        assert_eq!(done.err.contains("may be run again"), code == 69, "{done:?}");
    }
}

/// A run whose lock was handed over while its user may not renew.
fn handed_over_without_renewals(server: &Server, site: &Site) -> Running {
    allow(server, "+pexpire");
    let holder = site.holder(&["k"]);
    let user = Site::on(&server.url().replace("//", "//web:pw@"));
    let words = ["run", "-v", "--ttl", "10", "k", "--", "sh", "-c", "echo begun; exit 3"];
    let mut run = site.leasehold(&words);
    run.env("LEASEHOLD_STORE", user.store());
    let run = site.start(run);
    // Before that, it would ask once more, and be granted the key for its own TTL.
    until("it can be notified", || {
        let Reply::Array(Some(waiters)) = server.text(&["HVALS", "leasehold:w{k}k"]) else { return false };
        waiters.iter().any(|record| record.as_text().is_some_and(|text| text.contains(" leasehold:")))
    });
    allow(server, "-pexpire");
    site.go();
    holder.finish().silent(0);
    let refused = Instant::now();
    until("its first renewals were refused", || refused.elapsed() > Duration::from_millis(300));
    run
}

fn allow(server: &Server, rule: &str) {
    server.text(&["ACL", "SETUSER", "web", "on", ">pw", "~*", "&*", "+@all", rule]);
}

/// Regression: a lock that is handed over lasts for two seconds until it is renewed. If its first renewal
/// failed, the command was started and told to end at once, because less than its grace period was left.
#[test]
fn a_command_is_not_told_to_end_because_the_first_renewal_after_a_hand_over_failed() {
    let (server, site) = Site::on_server(Flavor::Redis82);
    let run = handed_over_without_renewals(&server, &site);
    allow(&server, "+pexpire");
    run.finish().exits_with(3).out_is("begun\n");
}

/// Regression: no signals were read meanwhile, so the command began after the wish to end.
#[test]
fn a_signal_before_the_first_renewal_after_a_hand_over_ends_the_run_and_the_lock() {
    let (server, site) = Site::on_server(Flavor::Redis82);
    let run = handed_over_without_renewals(&server, &site);
    run.signal(Signal::TERM);
    run.finish().died_of(Signal::TERM).out_is("");
    assert_eq!(server.text(&["EXISTS", "k"]).as_integer(), Some(0));
}
