//! The promises of `leasehold run`'s options.

use std::time::{Duration, Instant};

use servers::{Flavor, Server};

use crate::harness::{Running, Site, is_alive, until};

fn holder(site: &Site) -> Running {
    let words = ["--label", "the holder", "k"];
    let run = site.start(site.run_script(&words, "echo $$ > running; until [ -e go ]; do sleep 0.02; done"));
    site.wait_for("running");
    run
}

#[test]
fn busy_ends_with_the_code_that_was_asked_for_also_when_the_time_is_up() {
    let site = Site::new();
    let _holder = holder(&site);
    for (options, code) in [
        (&["-n", "-E", "9"][..], 9),
        (&["-n", "--busy-exit-code=255"], 255),
        (&["-w", "50ms", "-E9"], 9),
        (&["-w0", "-E0"], 0),
    ] {
        let done = site.finish(site.run(&[options, &["k", "--", "true"]].concat()));
        done.says(code, &["k: ", "held by the holder ("]);
    }
    // Only `busy` gets another code.
    site.finish(site.run(&["-E", "9", "other", "--", "sh", "-c", "exit 4"])).is_silent(4);
    site.finish(site.run(&["-E", "9", "other", "--", "./missing"])).says(127, &["not run"]);
}

#[test]
fn cron_gets_no_output_if_the_last_run_is_still_going() {
    let site = Site::new();
    let _holder = holder(&site);
    let done = site.finish(site.run(&["-nqE0", "k", "--", "echo", "ran"]));
    done.is_silent(0);
    assert_eq!(done.out, "");
    site.finish(site.run(&["-nqE0", "other", "--", "sh", "-c", "exit 3"])).is_silent(3);
}

#[test]
fn a_waiting_request_is_told_the_holder_once_if_it_asks_for_it() {
    let site = Site::new();
    let holder = holder(&site);
    let verbose = site.start(site.run(&["-v", "k", "--", "true"]));
    let plain = site.start(site.run(&["k", "--", "true"]));
    let quiet = site.start(site.run(&["-vq", "k", "--", "true"]));
    until("it is told", || verbose.err().contains("waiting for k, held by the holder ("));
    // After several requests.
    std::thread::sleep(Duration::from_millis(500));
    std::fs::write(site.path("go"), "").unwrap();
    holder.finish().is_silent(0);
    let done = verbose.finish();
    assert_eq!(done.err.matches("waiting for k, held by").count(), 1, "{done:?}");
    plain.finish().is_silent(0);
    let done = quiet.finish();
    assert!(!done.err.contains("held by"), "{done:?}");
    let done = site.finish(site.run(&["-v", "free", "--", "true"]));
    assert!(!done.err.contains("held by"), "{done:?}");
}

#[test]
fn a_longest_hold_ends_the_command_with_70_and_says_that_it_was_that() {
    let server = Server::start(Flavor::Redis82);
    for site in [Site::new(), Site::on(&server.url())] {
        for options in [&["--max-hold", "2"][..], &["--max-hold", "2", "--ttl", "1"]] {
            let script = "echo $$ > running; exec sleep 60";
            let _ = std::fs::remove_file(site.path("running"));
            let started = Instant::now();
            let done = site.finish(site.run_script(&[options, &["k"]].concat(), script));
            done.says(70, &["k: held for as long as --max-hold 2s allows", "ended"]);
            let lasted = started.elapsed();
            assert!(lasted >= Duration::from_secs(2), "{lasted:?}");
            assert!(lasted < Duration::from_millis(3500), "{lasted:?}");
            assert!(!is_alive(&site.read("running")));
            site.finish(site.run(&["-n", "k", "--", "true"])).is_silent(0);
        }
    }
}

#[test]
fn work_that_is_done_before_the_longest_hold_knows_nothing_of_it() {
    let site = Site::new();
    site.finish(site.run(&["--max-hold", "20", "k", "--", "sh", "-c", "exit 3"])).is_silent(3);
}

#[test]
fn a_waiter_at_a_terminal_sees_the_holder_without_an_option() {
    let site = Site::new();
    let holder = holder(&site);
    let ours = env!("CARGO_BIN_EXE_leasehold");
    let at_terminal = |options: &str| {
        let line = format!("{ours} run --store {} {options} k -- true", site.store());
        site.start(site.process("script", &["-qec", &line, "/dev/null"]))
    };
    let plain = at_terminal("");
    let quiet = at_terminal("-q");
    until("it is told", || plain.out().contains("leasehold: waiting for k, held by the holder ("));
    std::fs::write(site.path("go"), "").unwrap();
    holder.finish().is_silent(0);
    assert_eq!(plain.finish().out.lines().count(), 1);
    assert_eq!(quiet.finish().out, "");
}
