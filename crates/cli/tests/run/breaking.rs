//! `leasehold break`: an operator ends the lease of a holder that hangs.

use std::time::{Duration, Instant};

use serde_json::Value;
use servers::Flavor;

use crate::harness::{Running, Site, is_alive, until};

/// A holder that can be notified, and its fence.
fn holder(site: &Site) -> (Running, String) {
    let run = site.holder(&["--ttl", "60", "--label", "web 3", "k"]);
    // The connection subscribes soon after the first lease.
    let begun = Instant::now();
    until("a moment", || begun.elapsed() > Duration::from_millis(200));
    (run, site.read("fence"))
}

#[test]
fn a_run_whose_lease_is_broken_ends_its_command_at_once_and_the_next_waiter_runs() {
    for site in Site::on_each_store(Flavor::Valkey91) {
        let (run, fence) = holder(&site);
        let next = site.start(site.run_script(&["k"], "echo $LEASEHOLD_FENCE > next"));
        site.wait_for_waiters(1);
        let begun = Instant::now();
        let done = site.outcome(&["break", "k", "--fence", &fence]).silent(0);
        assert!(done.out.starts_with("k: broken") && done.out.contains("web 3 ("), "{done:?}");
        // Regression: the key was named once more before the reason.
        run.finish().says(70, &["k: lease lost, so the command was ended: somebody broke the lease: check"]);
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        assert!(!is_alive(&site.read("running")));
        next.finish().silent(0);
        assert!(site.read("next").parse::<u64>().unwrap() > fence.parse().unwrap());
    }
}

#[test]
fn a_wrong_fence_breaks_nothing_and_says_who_holds_the_lock() {
    for site in Site::on_each_store(Flavor::Redis70) {
        let (run, fence) = holder(&site);
        let granted_at = fence.parse::<u64>().unwrap() / 1000;
        let is_timed = |shown: &Value| {
            let holding = &shown["holders"][0];
            holding["granted_at"] == granted_at && holding["held_ms"].is_u64()
        };
        let wrong = (fence.parse::<u64>().unwrap() - 1).to_string();
        let words = ["k: no lease with fence ", &wrong, &format!("with fence {fence} by web 3 (")];
        site.outcome(&["break", "k", "--fence", &wrong]).says(75, &words);
        let shown = site.outcome(&["break", "--json", "k", "--fence", &wrong]).json();
        assert_eq!(
            (&shown["broken"], shown["holders"][0]["fence"].to_string()),
            (&false.into(), fence.clone())
        );
        assert!(is_timed(&shown), "{shown}");
        assert!(is_alive(&site.read("running")));
        let shown = site.outcome(&["break", "--json", "k", "--fence", &fence]).silent(0).json();
        assert_eq!((&shown["broken"], &shown["holders"][0]["label"]), (&true.into(), &"web 3".into()));
        assert!(is_timed(&shown), "{shown}");
        run.finish().says(70, &["somebody broke the lease"]);
        site.outcome(&["break", "k", "--fence", &fence]).says(1, &["k: nobody holds it", &fence]);
    }
}

#[test]
fn a_lock_of_another_programs_is_not_ours_to_break() {
    let (server, site) = Site::on_server(Flavor::Redis82);
    server.text(&["SET", "k", "theirs", "NX", "PX", "60000"]);
    let words = ["k: another program's lock (theirs) cannot be broken here", "delete the key there"];
    site.outcome(&["break", "k", "--fence", "1"]).says(65, &words);
    let shown = site.outcome(&["break", "--json", "k", "--fence", "1"]).exits_with(65).json();
    assert_eq!((&shown["broken"], &shown["holders"][0]["value"]), (&false.into(), &"theirs".into()));
    assert_eq!(server.text(&["GET", "k"]).as_text(), Some("theirs"));
}
