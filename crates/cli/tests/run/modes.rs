//! Readers that share a lock, and permits by number.

use serde_json::json;

use crate::harness::{Running, Site, until};

fn holder(site: &Site, words: &[&str], name: &str) -> Running {
    let words = [&["--ttl", "20", "--label", name], words].concat();
    let script = format!("echo $$ > {name}; until [ -e go ]; do sleep 0.02; done");
    let run = site.start(site.run_script(&words, &script));
    site.wait_for(name);
    run
}

#[test]
fn commands_that_share_run_at_the_same_time_and_one_that_does_not_waits_for_all() {
    let site = Site::new();
    let readers = ["one", "two"].map(|name| holder(&site, &["--shared", "k"], name));
    site.finish(site.run(&["-n", "k", "--", "true"])).says(75, &["k: held by one (", " as a reader"]);
    let writer = site.start(site.run(&["-v", "k", "--", "touch", "written"]));
    until("it waits", || writer.err().contains("waiting for k"));
    // A reader does not overtake it while it waits.
    site.finish(site.run(&["-nq", "--shared", "k", "--", "true"])).silent(75);
    let text = site.outcome(&["show", "k"]).out;
    assert_eq!(text.matches("mode     shared").count(), 2, "{text}");
    assert!(!site.path("written").exists());
    site.go();
    readers.into_iter().for_each(|reader| drop(reader.finish().silent(0)));
    writer.finish();
    assert!(site.path("written").exists());
}

#[test]
fn permits_are_taken_by_number_and_shown_so() {
    let site = Site::new();
    let two = holder(&site, &["--permits", "2/3", "k"], "two");
    let one = holder(&site, &["--permits", "3", "k"], "one");
    let seen = site.outcome(&["show", "--json", "k"]).json();
    let modes = seen["holders"].as_array().unwrap().iter();
    let modes: Vec<_> = modes.map(|it| json!([it["label"], it["mode"], it["permits"], it["of"]])).collect();
    assert_eq!(modes, [json!(["two", "permits", 2, 3]), json!(["one", "permits", 1, 3])]);
    site.finish(site.run(&["-n", "--permits", "1/3", "k", "--", "true"])).says(75, &["with 2 of 3 permits"]);
    site.finish(site.run(&["-n", "--permits", "1/9", "k", "--", "true"])).says(75, &["with 2 of 3 permits"]);
    let table = site.outcome(&["ls", "--all"]).out;
    assert!(table.contains(") 2/3 ") && table.contains(") 1/3 "), "{table}");
    site.go();
    [two, one].into_iter().for_each(|holder| drop(holder.finish().silent(0)));
    site.finish(site.run(&["-n", "--permits", "3/3", "k", "--", "true"])).silent(0);
}
