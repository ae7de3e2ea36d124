//! The promises of `leasehold run`'s options.

use std::time::{Duration, Instant};

use servers::Flavor;

use crate::harness::{Site, is_alive, until};

#[test]
fn busy_ends_with_the_code_that_was_asked_for_also_when_the_time_is_up() {
    let site = Site::new();
    let _holder = site.holder(&["--label", "the holder", "k"]);
    for (options, code) in [
        (&["-n", "-E", "9"][..], 9),
        (&["-n", "--busy-exit-code=255"], 255),
        (&["-w", "1s", "-E9"], 9),
        (&["-w0", "-E0"], 0),
    ] {
        site.finish(site.run(&[options, &["k", "--", "true"]].concat()))
            .says(code, &["k: ", "held by the holder ("]);
    }
    // Only `busy` gets another code.
    site.finish(site.run(&["-E", "9", "other", "--", "sh", "-c", "exit 4"])).silent(4);
    site.finish(site.run(&["-E", "9", "other", "--", "./missing"])).says(127, &["not run"]);
}

#[test]
fn a_waiting_request_is_told_the_holder_once_if_it_asks_for_it() {
    let site = Site::new();
    let holder = site.holder(&["--label", "the holder", "k"]);
    let verbose = site.start(site.run(&["-v", "k", "--", "true"]));
    let plain = site.start(site.run(&["k", "--", "true"]));
    let quiet = site.start(site.run(&["-vq", "k", "--", "true"]));
    until("it is told", || verbose.err().contains("waiting for k, held by the holder ("));
    // After several requests.
    std::thread::sleep(Duration::from_millis(500));
    site.go();
    holder.finish().silent(0);
    let done = verbose.finish();
    assert_eq!(done.err.matches("waiting for k, held by").count(), 1, "{done:?}");
    plain.finish().silent(0);
    let done = quiet.finish();
    assert!(!done.err.contains("held by"), "{done:?}");
    let done = site.finish(site.run(&["-v", "free", "--", "true"]));
    assert!(!done.err.contains("held by"), "{done:?}");
}

#[test]
fn a_longest_hold_ends_the_command_with_70_and_says_that_it_was_that() {
    for site in Site::on_file_and(Flavor::Redis82) {
        for options in [&["--max-hold", "2"][..], &["--max-hold", "2", "--ttl", "1"]] {
            let script = "echo $$ > running; exec sleep 60";
            let started = Instant::now();
            site.finish(site.run_script(&[options, &["k"]].concat(), script))
                .says(70, &["k: held for as long as --max-hold 2s allows", "ended"]);
            let lasted = started.elapsed();
            assert!(lasted >= Duration::from_secs(2), "{lasted:?}");
            assert!(lasted < Duration::from_millis(3500), "{lasted:?}");
            assert!(!is_alive(&site.read("running")));
            site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
        }
    }
}
