//! `leasehold watch`: events at the locks of a store.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use servers::Flavor;

use crate::harness::{Running, Site, found, has, json_lines, until};
use crate::ls::a_lock_at_each_node;
use crate::shell::bash;

fn events(run: &Running) -> Vec<Value> {
    let out = run.out();
    // The last line may be incomplete.
    let whole = out.rsplit_once('\n').map_or("", |(whole, _)| whole);
    json_lines(whole)
}

/// Waits for an event of a key, and returns it with its position among the others.
#[track_caller]
fn wait_for(run: &Running, event: &str, label: &str) -> (usize, Value) {
    found(&format!("{event} {label}"), || {
        let all = events(run);
        let at = all.iter().position(|seen| seen["event"] == event && seen["label"] == label)?;
        Some((at, all[at].clone()))
    })
}

#[test]
fn watch_reports_holders_waiters_and_breaks_as_they_change() {
    for site in Site::on_each_store(Flavor::Valkey91) {
        let holder = site.holder(&["--label", "web-3", "app:deploy"]);
        let fence = site.read("fence");
        let number: u64 = fence.parse().unwrap();
        let _other = site.start(site.run_script(&["--label", "none", "other"], "exec sleep 60"));
        let watch = site.start(site.task("watch", &["--json", "app:"]));
        let (_, held) = wait_for(&watch, "held", "web-3");
        has(&held, &json!({"key": "app:deploy", "v": 1, "mode": "exclusive", "fence": number}));
        assert!(held["at"].as_u64() > held["granted_at"].as_u64(), "{held}");
        let caught_up = || events(&watch).iter().position(|event| event["event"] == "caught_up");
        let caught_up = found("all was found", caught_up);
        assert!(caught_up > wait_for(&watch, "held", "web-3").0, "{:?}", events(&watch));
        assert_eq!(events(&watch)[0]["event"], "watching");

        let script = "until [ -e go ]; do sleep 0.02; done";
        // Quiet, because on a busy machine it would say that the store is slow.
        let next = site.start(site.run_script(&["-q", "--label", "web-4", "app:deploy"], script));
        let (_, waiting) = wait_for(&watch, "waiting", "web-4");
        assert_eq!(waiting["place"], 1, "{waiting}");
        let gives_up = site.start(site.run_script(&["-w", "60", "--label", "late", "app:deploy"], "true"));
        wait_for(&watch, "waiting", "late");
        gives_up.signal(rustix::process::Signal::TERM);
        assert_eq!(wait_for(&watch, "left", "late").1["place"], 2);

        let words = ["app:deploy", "--fence", &fence, "--reason", "it hangs"];
        site.finish(site.task("break", &words)).silent(0);
        holder.finish().says(70, &["somebody broke the lease"]);
        let (ended, event) = wait_for(&watch, "ended", "web-3");
        assert!(event["fence"] == number && event["held_ms"].as_u64().is_some(), "{event}");
        assert!(ended < wait_for(&watch, "held", "web-4").0, "the end first: {:?}", events(&watch));
        let broken = || events(&watch).into_iter().find(|event| event["event"] == "broken");
        let broken = found("it is told that it was broken", broken);
        has(&broken, &json!({"reason": "it hangs", "held_by": "web-3", "fence": number}));

        site.go();
        next.finish().silent(0);
        wait_for(&watch, "ended", "web-4");
        let told = events(&watch);
        // A waiter that got the lock is not reported as `left`, and nothing else is reported.
        assert!(!told.iter().any(|event| event["event"] == "left" && event["label"] == "web-4"), "{told:?}");
        assert!(!told.iter().any(|event| event["label"] == "none"), "{told:?}");
        assert_eq!(told.iter().filter(|event| event["event"] == "held").count(), 2, "{told:?}");
    }
}

/// Regression: an overwritten record of a break was asked for again, and no later one reported.
#[test]
fn a_record_of_a_break_that_another_program_wrote_hides_no_later_break() {
    let (server, site) = Site::on_server(Flavor::Redis70);
    server.text(&["LPUSH", "leasehold:b{a}a", "theirs"]);
    let watch = site.start(site.task("watch", &["--json"]));
    let is_released = |label: &str, key: &str| {
        let holder = site.holder(&["--label", label, key]);
        wait_for(&watch, "held", label);
        site.go();
        holder.finish().silent(0);
        wait_for(&watch, "ended", label);
        std::fs::remove_file(site.path("go")).unwrap();
    };
    let is_broken = |label: &str, key: &str| {
        let holder = site.holder(&["--label", label, key]);
        wait_for(&watch, "held", label);
        site.outcome(&["break", key, "--fence", &site.read("fence")]).silent(0);
        holder.finish().says(70, &["somebody broke the lease"]);
    };
    let breaks = || events(&watch).into_iter().filter(|event| event["event"] == "broken").collect::<Vec<_>>();
    is_released("released", "a");
    is_broken("hangs", "b");
    until("the break is reported", || breaks().len() == 1);
    // The record of an earlier break says nothing of a lease that was released.
    is_released("again", "b");
    is_broken("hangs too", "c");
    until("the next break is reported", || breaks().iter().any(|event| event["key"] == "c"));
    assert_eq!(breaks().len(), 2, "{:?}", breaks());
}

#[test]
fn watch_prints_lines_and_reports_an_outage_and_its_end() {
    let (server, site) = Site::on_server(Flavor::Redis82);
    // So many keys take several requests to look through.
    server.text(&["EVAL", "for n = 1, 20000 do redis.call('SET', 'theirs:' .. n, n) end", "0"]);
    let holder = site.holder(&["--ttl", "60", "--label", "web-3", "k"]);
    let watch = site.start(site.task("watch", &[]));
    let says = |words: &str| until(words, || watch.out().contains(words));
    says("Z  watching redis://");
    says("Z  held     k  by web-3 (");
    says("Z  all locks that existed before have been read\n");
    let [held, caught_up] = ["  held     k ", "  all locks that"].map(|words| watch.out().find(words));
    assert!(held < caught_up, "{}", watch.out());
    server.stop();
    says("Z  fault    ");
    let stopped = Instant::now();
    until("it was asked again", || stopped.elapsed() > Duration::from_secs(8));
    server.cont();
    says(" answers again\n");
    site.go();
    holder.finish().silent(0);
    says("  ended    k  held by web-3 (");
    assert_eq!(watch.out().matches("  fault    ").count(), 1, "{}", watch.out());
    assert_eq!(watch.out().matches(" answers again\n").count(), 1, "{}", watch.out());
}

#[test]
fn it_ends_when_nobody_reads_it() {
    let site = Site::used();
    // Nothing more happens after the two lines, so no write finds out that the reader is gone.
    let done = bash(&site, "leasehold watch | head -2; echo ${PIPESTATUS[0]}");
    let done = done.out_has(&["all locks that existed before have been read"]);
    assert!(done.out.ends_with("\n0\n") && done.err.is_empty(), "{done:?}");
    site.finish(site.leasehold(&["watch", "--store", "redis://127.0.0.1:1"])).exits_with(69).out_is("");
}

/// Regression: the scan stayed at the node that could not be reached, so that no lock at a later one was
/// found, and none at an earlier one that was taken since.
#[test]
fn a_node_of_a_cluster_that_cannot_be_reached_hides_no_lock_of_the_others() {
    let (cluster, site, keys, holders) = a_lock_at_each_node();
    let lost = cluster.nodes().iter().min_by_key(|node| node.port()).unwrap();
    lost.stop();
    let watch = site.start(site.task("watch", &["--json"]));
    let tells = |event: &str, key: &str| {
        found(&format!("{event} {key}"), || {
            events(&watch).into_iter().find(|seen| seen["event"] == event && seen["key"] == key)
        });
    };
    keys[1..].iter().for_each(|key| tells("held", key));
    assert!(events(&watch).iter().all(|event| event["event"] != "caught_up"), "{:?}", events(&watch));
    lost.cont();
    tells("held", &keys[0]);
    // A lock of which it knows cannot be looked at now.
    lost.stop();
    site.go();
    keys[1..].iter().for_each(|key| tells("ended", key));
    lost.cont();
    drop(holders);
}
