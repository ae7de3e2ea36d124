//! Exclusion: one run at a time, among many and after a crash.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use servers::Flavor;

use crate::harness::{Site, kill};

/// Without the lock, this loses updates: two that read the same number both write its successor.
#[test]
fn eight_processes_add_fifty_times_each() {
    for site in Site::on_file_and(Flavor::Redis82) {
        fs::write(site.path("number"), "0\n").unwrap();
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let add = "read n < number; echo $((n + 1)) > number";
                        site.finish(site.run_script(&["number"], add)).silent(0);
                    }
                });
            }
        });
        assert_eq!(site.read("number"), "400");
    }
}

#[test]
fn a_holder_that_was_killed_keeps_others_out_no_longer_than_its_ttl() {
    for site in Site::on_file_and(Flavor::Redis70) {
        let ttl = Duration::from_secs(3);
        let holder = site.holder(&["--ttl", "3", "k"]);
        let command = site.read("running");
        holder.signal(Signal::KILL);
        let killed = Instant::now();
        site.finish(site.run(&["k", "--", "true"])).silent(0);
        let waited = killed.elapsed();
        // The bound shows a second lease, but tolerates a slow machine.
        assert!(waited < 2 * ttl - Duration::from_millis(200), "{waited:?}");
        kill(&command);
    }
}

#[test]
fn locks_of_other_programs_and_ours_keep_each_other_out() {
    let (server, site) = Site::on_server(Flavor::Redis62);
    server.text(&["SET", "k", "theirs", "NX", "PX", "1000"]);
    let set = Instant::now();
    site.finish(site.run(&["-n", "k", "--", "true"])).says(75, &["another program's lock (theirs)"]);
    site.finish(site.run(&["k", "--", "true"])).silent(0);
    assert!(set.elapsed() >= Duration::from_millis(950), "{:?}", set.elapsed());

    let holder = site.holder(&["k"]);
    assert_eq!(server.text(&["SET", "k", "theirs", "NX", "PX", "1000"]), servers::Reply::Bulk(None));
    drop(holder);
    assert_eq!(server.text(&["EXISTS", "k"]).as_integer(), Some(0));
}
