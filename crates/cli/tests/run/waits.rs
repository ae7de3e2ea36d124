//! Messages while `leasehold` waits for a lock or a store.

use std::fs;
use std::time::{Duration, Instant};

use servers::Flavor;

use crate::harness::{Running, Site, found, names, until};
use crate::pty::Pty;

#[test]
fn a_terminal_shows_one_line_that_is_rewritten_each_second() {
    for site in Site::on_each_store(Flavor::Valkey91) {
        let holder = site.holder(&["k"]);
        let mut quiet = Pty::script(&site, "$L run -q k -- echo code=0");
        site.wait_for_waiters(1);
        let mut pty = Pty::script(&site, "$L run k -- echo mine; echo code=$?");
        let waited = |pty: &Pty| {
            let screen = pty.screen();
            let line = screen.trim_end().lines().last().unwrap_or_default().to_owned();
            let (before, waited) = line.split_once("; place 2 of 2, waited ")?;
            assert_eq!(screen.trim_end().lines().count(), 1, "{screen}");
            assert!(
                before.starts_with("leasehold: waiting for k, held by ") && before.contains(" sh ("),
                "{line}"
            );
            // The time since the grant, as in `show`.
            before.rsplit_once(") for ")?;
            Some(waited.to_owned())
        };
        let first = found("it waits", || waited(&pty));
        until("a second later", || waited(&pty).is_some_and(|waited| waited != first));
        site.go();
        holder.finish().silent(0);
        pty.wait_for("code=0");
        // No trace of the line is left.
        assert_eq!(pty.screen().trim_end(), "mine\ncode=0");
        quiet.wait_for("code=0");
        assert_eq!(quiet.all(), "code=0\r\n");
        let _ = fs::remove_file(site.path("go"));
    }
}

/// Regression: each second, a run that waited in the background erased the line on which its user typed.
#[test]
fn a_wait_in_the_background_leaves_the_line_of_the_shell_alone() {
    let site = Site::new();
    let holder = holds(&site, "ada@web-3");
    until("it is held", || site.path("has-ada@web-3").exists());
    let mut pty = Pty::shell(&site);
    pty.enters("$L run --within 3s k -- true &");
    pty.wait_for("not free within 3s");
    let all = pty.all();
    assert!(all.contains("; place 1 in the queue, waited ") && !all.contains("\x1b[2K"), "{all:?}");
    drop(holder);
}

#[test]
fn without_a_terminal_a_wait_has_a_line_unless_it_is_to_be_quiet() {
    let site = Site::new();
    let holder = site.holder(&["k"]);
    let quiet = site.start(site.run(&["-q", "k", "--", "true"]));
    site.wait_for_waiters(1);
    let waits = site.start(site.run(&["k", "--", "true"]));
    until("it is said", || waits.err().ends_with('\n'));
    site.go();
    holder.finish().silent(0);
    let done = waits.finish();
    assert!(done.err.starts_with("leasehold: waiting for k, held by "), "{done:?}");
    // The lock was looked at again for the line: when it began to wait, it did not know of how many.
    assert!(done.err.contains("; place 2 of 2, waited ") && done.err.lines().count() == 1, "{done:?}");
    let done = quiet.finish().exits_with(0);
    assert_eq!(done.err, "", "{done:?}");
}

/// Holds `k` until a file with this name exists.
fn holds(site: &Site, label: &str) -> Running {
    let script = format!("touch has-{label}; until [ -e go-{label} ]; do sleep 0.02; done");
    site.start(site.run_script(&["--label", label, "k"], &script))
}

#[test]
fn programs_are_told_each_holder_while_they_wait() {
    for site in Site::on_each_store(Flavor::Redis82) {
        let first = holds(&site, "first");
        until("it holds", || site.path("has-first").exists());
        let second = holds(&site, "second");
        site.wait_for_waiters(1);
        let third = site.start(site.telling("run", "k -- true"));
        site.wait_for_waiters(2);
        fs::write(site.path("go-first"), "").unwrap();
        first.finish().silent(0);
        let of_second = || site.read("events").matches("\"held_by\":\"second (").count();
        until("the other holder is told", || of_second() == 1);
        fs::write(site.path("go-second"), "").unwrap();
        second.finish().silent(0);
        let pid = third.id();
        third.finish().silent(0);
        let events = site.events();
        let expected = ["waiting", "waiting", "acquired", "ended", "released"];
        assert_eq!(names(&events), expected, "{events:?}");
        for event in &events {
            assert_eq!((&event["key"], &event["v"], &event["pid"]), (&"k".into(), &1.into(), &pid.into()));
            assert_eq!(event["holder"], events[0]["holder"], "{events:?}");
            assert_eq!(event["holder"].as_str().unwrap().len(), 8);
        }
        assert!(events[1]["held_ms"].as_u64().is_some(), "{events:?}");
        let [begun, later] = [0, 1].map(|nth| events[nth]["at"].as_u64().unwrap());
        assert!(events[2]["waited_ms"].as_u64().unwrap() >= later - begun, "{events:?}");
        assert!(events[1]["fence"].is_null() && events[4]["fence"].as_u64().is_some(), "{events:?}");
    }
}

#[test]
fn a_wait_without_a_limit_lasts_through_an_outage_and_says_so() {
    let (server, site) = Site::on_server(Flavor::Valkey91);
    let holder = site.holder(&["--ttl", "60", "k"]);
    let waits = site.start(site.run(&["-v", "k", "--", "echo", "mine"]));
    let once = site.start(site.task("once", &["-v", "k", "--", "echo", "mine"]));
    let bounded = site.start(site.run(&["-v", "--outage-limit", "6s", "k", "--", "echo", "mine"]));
    for run in [&waits, &once, &bounded] {
        until("it waits", || run.err().contains("waiting for k, held by "));
    }
    server.stop();
    let stopped = Instant::now();
    until("it is said", || {
        [&waits, &once].iter().all(|run| {
            run.err().contains("leasehold: cannot reach ") && run.err().contains("as long as it takes")
        })
    });
    bounded.finish().exits_with(69).err_has(&["trying for 6s in all"]);
    until("longer than a store is waited for otherwise", || stopped.elapsed() > Duration::from_secs(13));
    server.cont();
    until("it is back", || waits.err().contains("answers again"));
    site.go();
    holder.finish().silent(0);
    for run in [waits, once] {
        run.finish().exits_with(0).out_is("mine\n");
    }
}

/// Regression: only `cannot reach` was said of a server that answers and whose replicas do not
/// confirm, and to see that it runs.
#[test]
fn a_store_that_does_not_serve_is_reported_with_the_reason() {
    let (_server, site) = Site::on_server(Flavor::Valkey91);
    let site = Site::on(&format!("{}?replicas=1", site.store()));
    let done = site.finish(site.run(&["--outage-limit", "3s", "k", "--", "true"])).exits_with(69);
    let first = done.err.lines().next().unwrap();
    assert!(first.contains("(0 of 1 replicas confirmed it"), "{done:?}");
    assert!(first.ends_with(": trying for 3s in all"), "{done:?}");
    let last = done.err.lines().last().unwrap();
    assert!(last.contains("k: not served within ") && last.contains("see that they run"), "{done:?}");
    assert!(!last.contains("see that it runs"), "{done:?}");
}

#[test]
fn the_time_to_wait_begins_before_the_store_is_connected() {
    let (server, proxy, site) = Site::on_proxy(Flavor::Redis82);
    let site = Site::on(&format!("{}?call-limit=9s", site.store()));
    server.text(&["SET", "k", "theirs"]);
    proxy.slow_down(Duration::from_millis(100));
    let took = |patience: &[&str]| {
        let started = Instant::now();
        let options = ["-q", "--outage-limit", "20s"];
        let done = site.finish(site.run(&[&options, patience, &["k", "--", "true"]].concat()));
        // The last answer may be too late.
        assert!(matches!(done.status.code(), Some(69 | 75)), "{done:?}");
        started.elapsed()
    };
    let (once, within) = (took(&["-n"]), took(&["-w", "2"]));
    assert!(within < Duration::from_secs(2) + once / 2, "{within:?}, and {once:?} without a wait");
    // A store that is up gets a second to answer, however short the wait for the lock.
    proxy.slow_down(Duration::from_millis(10));
    site.finish(site.run(&["-w", "50ms", "free", "--", "true"])).silent(0);
}

#[test]
fn a_look_or_a_single_try_gives_up_after_two_seconds_and_reports_after_one_that_it_waits() {
    let (_server, proxy, site) = Site::on_proxy(Flavor::Redis70);
    proxy.black_hole();
    let took = |words: &[&str]| {
        let started = Instant::now();
        let done = site.finish(site.task(words[0], &words[1..])).exits_with(69);
        (started.elapsed(), done)
    };
    for words in [
        &["show", "k"][..],
        &["ls", "--all"],
        &["run", "-n", "k", "--", "true"],
        &["every", "1h", "k", "--", "true"],
    ] {
        let (lasted, done) = took(words);
        assert!(lasted > Duration::from_secs(1), "{words:?}: {lasted:?}");
        assert!(lasted < Duration::from_millis(4500), "{words:?}: {lasted:?}");
        let first = done.err.lines().next().unwrap();
        assert!(first.contains("cannot reach redis://127.0.0.1:"), "{done:?}");
        assert!(first.ends_with("trying for 2s in all"), "{done:?}");
    }
    for words in [&["show", "k"][..], &["run", "-n", "k", "--", "true"]] {
        let (lasted, done) = took(&[&words[..1], &["--outage-limit", "500ms"], &words[1..]].concat());
        assert!(lasted < Duration::from_millis(2500) && done.err.lines().count() == 1, "{lasted:?} {done:?}");
    }
    let (lasted, done) = took(&["run", "-w", "3", "k", "--", "true"]);
    assert!(lasted < Duration::from_millis(5500), "{lasted:?}");
    assert!(done.err.lines().next().unwrap().ends_with("trying for 3s in all"), "{done:?}");
    let (_, done) = took(&["show", "-q", "k"]);
    assert_eq!(done.err.lines().count(), 1, "{done:?}");
}
