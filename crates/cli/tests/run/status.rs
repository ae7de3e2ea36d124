//! `--status-fd`: events as lines of JSON.

use rustix::process::Signal;
use serde_json::{Value, json};
use servers::{Flavor, Server};

use crate::harness::{Done, SECRET, Site, has, names, until};
use crate::shell::{bash, in_bash, in_shell, sh};

#[track_caller]
fn tells(site: &Site, done: &Done, expected: &[&str]) -> Vec<Value> {
    let events = site.events();
    let mut names = names(&events);
    names.dedup();
    assert_eq!(names, expected, "{done:?} {events:?}");
    for pair in events.windows(2) {
        assert!(pair[0]["at"].as_u64().unwrap() <= pair[1]["at"].as_u64().unwrap(), "{events:?}");
    }
    events
}

#[test]
fn a_run_tells_what_happens_from_the_grant_to_the_release() {
    let site = Site::new();
    let words = "--ttl 2 --label 'web \"3\"' k -- sh -c 'sleep 2.5; echo $LEASEHOLD_FENCE; exit 3'";
    let done = site.finish(site.telling("run", words)).silent(3);
    let told = tells(&site, &done, &["acquired", "renewed", "ended", "released"]);
    has(&told[0], &json!({"key": "k", "label": "web \"3\"", "store": site.store(), "ttl_ms": 2000}));
    assert_eq!(told[0]["fence"].to_string(), done.out.trim());
    assert!(told[1]["remaining_ms"].as_u64().unwrap() <= 2000, "{told:?}");
    assert_eq!(told[told.len() - 2]["code"], 3);

    let done = site.finish(site.telling("run", "k -- sh -c 'kill -9 $$'")).died_of(Signal::KILL);
    assert_eq!(tells(&site, &done, &["acquired", "ended", "released"])[1]["signal"], 9);
}

#[test]
fn a_run_and_a_hold_that_report_events_receive_signals_as_without() {
    let (_server, site) = Site::on_server(Flavor::Redis82);
    let script = "exec 2> /dev/null; trap 'exit 7' TERM; echo $$ > running; while :; do sleep 0.02; done";
    let (run, _) = site.running(site.telling("run", &format!("k -- sh -c \"{script}\"")));
    run.signal(Signal::TERM);
    let done = run.finish().silent(7);
    tells(&site, &done, &["acquired", "ended", "released"]);

    let words = "exec 7> events; exec leasehold hold --status-fd 7 k > fence";
    let hold = site.start(in_shell(&site, "sh", &["-c", words]));
    site.wait_for("fence");
    hold.signal(Signal::TERM);
    let done = hold.finish().died_of(Signal::TERM);
    tells(&site, &done, &["acquired", "released"]);
}

#[test]
fn a_run_that_waits_names_the_holder_and_one_that_fails_the_reason() {
    let site = Site::new();
    let _holder = site.holder(&["--label", "the holder", "k"]);

    let told_to_end = site.start(site.telling("run", "k -- true"));
    until("it waits", || names(&site.events()) == ["waiting"]);
    told_to_end.signal(Signal::TERM);
    let done = told_to_end.finish().died_of(Signal::TERM);
    tells(&site, &done, &["waiting"]);

    let done = site.finish(site.telling("run", "-w 100ms -qE9 k -- true")).silent(9);
    let told = tells(&site, &done, &["waiting", "busy"]);
    assert!(told[0]["held_by"].as_str().unwrap().starts_with("the holder ("), "{told:?}");
    assert!(told[0]["remaining_ms"].as_u64().unwrap() <= 30_000, "{told:?}");
    assert_eq!(told[1]["code"], 9);

    let done = site.finish(site.telling("run", "-n k -- true"));
    tells(&site, &done, &["busy"]);
}

#[test]
fn a_loss_is_reported_and_then_the_exit_of_the_command() {
    let (server, site) = Site::on_server(Flavor::Valkey91);
    let words = "--ttl 3s k -- sh -c 'echo $$ > running; exec sleep 60'";
    let (lost, _) = site.running(site.telling("run", words));
    server.text(&["DEL", "k"]);
    lost.finish().says(70, &["lease lost"]);
    let mut told = site.events();
    told.retain(|event| event["event"] != "renewed");
    assert_eq!(names(&told), ["acquired", "lost", "ended"]);
    assert!(told[1]["reason"].as_str().unwrap().contains("deleted"), "{told:?}");

    site.finish(site.telling("run", "--max-hold 500ms k -- sleep 60")).says(70, &["--max-hold"]);
    let told = site.events();
    assert!(told.iter().any(|event| event["event"] == "lost"), "{told:?}");
}

#[test]
fn every_failure_is_an_event_with_the_exit_code() {
    let site = Site::new();
    let done = site.finish(site.telling("run", "k -- ./missing")).says(127, &["not run"]);
    let told = tells(&site, &done, &["acquired", "released", "failed"]);
    assert_eq!(told[2]["code"], 127);
    assert!(told[2]["reason"].as_str().unwrap().contains("not run"), "{told:?}");

    let nowhere = Site::on("redis://127.0.0.1:1");
    let done = nowhere.finish(nowhere.telling("run", "-w 1 k -- true")).says(69, &["no answer"]);
    assert_eq!(tells(&nowhere, &done, &["failed"])[0]["code"], 69);
}

#[test]
fn the_command_has_neither_the_descriptor_nor_the_events() {
    let site = Site::new();
    let words = "k -- sh -c 'ls /proc/$$/fd; readlink /proc/$$/fd/* /proc/$PPID/fd/* | grep events'";
    let done = site.finish(site.telling("run", words));
    let plain = sh(&site, &format!("exec leasehold run --store $LEASEHOLD_STORE {words}"));
    assert_eq!((done.status.code(), &done.out), (Some(1), &plain.out), "grep finds nothing: {done:?}");
}

#[test]
fn a_reader_that_is_gone_or_does_not_read_changes_nothing() {
    let site = Site::new();
    let runs = [("gone", "true"), ("silent", "sleep 5")].map(|(key, reader)| {
        let script = format!(
            "leasehold run --ttl 1500ms --status-fd 7 {key} -- sh -c 'sleep 3; exit 5' 7>&1 >&2 | {reader}; \
             exit ${{PIPESTATUS[0]}}"
        );
        site.start(in_bash(&site, &script))
    });
    runs.into_iter().for_each(|run| drop(run.finish().silent(5)));
}

#[test]
fn a_pipe_that_is_full_keeps_no_lease_from_being_renewed() {
    let site = Site::new();
    // The pipe is filled before we start.
    let script = "{ timeout 0.5 cat /dev/zero >&7; \
            leasehold run --ttl 1500ms --status-fd 7 k -- sh -c 'sleep 3; exit 5'; echo $? >code; } 7>&1 >&2 | \
         { until [ -s code ]; do sleep 0.05; done; }";
    bash(&site, script).silent(0);
    assert_eq!(site.read("code"), "5");
}

#[test]
fn a_descriptor_that_cannot_be_written_to_is_refused() {
    let site = Site::new();
    let not_open = "7 is not open for writing";
    for (open, says) in [("</dev/null", not_open), (">&-", not_open), ("<.", "7 is not")] {
        sh(&site, &format!("exec leasehold run --status-fd 7 k -- true 7{open}"))
            .says(64, &["--status-fd: ", says, "as in 7>FILE"]);
    }
    // It may be open for reading as well.
    sh(&site, "exec leasehold run --status-fd 7 k -- true 7<>events").silent(0);
    assert_eq!(names(&site.events()), ["acquired", "ended", "released"]);
}

#[test]
fn events_keep_the_secret() {
    let server = Server::setup(Flavor::Redis82).password(SECRET).start();
    for (password, code) in [(SECRET, 0), ("wrong-pw", 69)] {
        let site = Site::on(&server.url().replace("//", &format!("//:{password}@")));
        site.finish(site.telling("run", "-q k -- true")).exits_with(code);
        let told = site.read("events");
        assert!(!told.is_empty() && !told.contains(password), "{told}");
    }
}
