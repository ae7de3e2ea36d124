//! `leasehold show`: who holds a lock.

use serde_json::json;
use servers::{Flavor, Server};

use crate::harness::{LIMIT, SECRET, Site, has, until};
use crate::shell::bash;

fn millis_since_1970() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// Regression: an empty label was shown like any other: "held by  (1a2b3c4d)".
#[test]
fn a_holder_with_an_empty_label_is_shown_by_its_digits() {
    let site = Site::new();
    let _holder = site.holder(&["--label", "", "k"]);
    let shown = site.outcome(&["show", "--json", "k"]).silent(0).json();
    assert!(shown["holders"][0]["label"].is_null(), "{shown}");
    let digits = shown["holders"][0]["holder"].as_str().unwrap();
    site.outcome(&["show", "k"]).silent(0).out_has(&[&format!("held by  {digits}\n")]);
}

/// exclusive-lock: `inspect()` gives everybody the TTL and `lock_contents`, or null.
#[test]
fn a_lock_that_is_held_is_shown_with_its_holder_and_is_0() {
    for site in Site::on_each_store(Flavor::Redis82) {
        let _holder = site.holder(&["--ttl", "20", "--label", "web 3: größe", "k"]);
        let since = site.read("fence").parse::<u64>().unwrap() / 1000;
        until("it is held for over a second", || millis_since_1970() > since + 1100);
        let done = site.outcome(&["show", "k"]).silent(0);
        let lines: Vec<_> = done.out.lines().collect();
        assert_eq!(lines[0], "key      k");
        assert!(lines[1].starts_with("held by  web 3: größe ("), "{done:?}");
        assert_eq!(lines[2..4], ["mode     exclusive", &format!("fence    {}", site.read("fence"))]);
        // 2026-11-23T07:50:01Z
        let moment = lines[4].strip_prefix("since    ").and_then(|line| line.split_once("Z, for ")).unwrap();
        assert!(moment.0.len() == 19 && moment.1.starts_with(['1', '2', '3', '4', '5']), "{done:?}");
        assert!(
            lines[5].starts_with("left     ") && lines[5].ends_with("s, unless it is renewed"),
            "{done:?}"
        );
        assert_eq!(lines[6..], ["waiting  0"]);

        let shown = site.outcome(&["show", "--json", "k"]).silent(0).json();
        let holding = &shown["holders"][0];
        has(&shown, &json!({"key": "k", "held": true, "waiters": []}));
        has(holding, &json!({"kind": "lease", "label": "web 3: größe", "granted_at": since}));
        assert_eq!(holding["fence"].to_string(), site.read("fence"));
        let held = holding["held_ms"].as_u64().unwrap();
        assert!((1100..LIMIT.as_millis() as u64).contains(&held), "{shown}");
        let digits = holding["holder"].as_str().unwrap();
        assert!(digits.len() == 8 && lines[1].ends_with(&format!("({digits})")), "{lines:?} {shown}");
        let left = holding["remaining_ms"].as_u64().unwrap();
        assert!(left > 0 && left <= 20_000, "{shown}");

        site.outcome(&["show", "-q", "k"]).prints(0, "");
        site.outcome(&["show", "-qv", "k"]).says(0, &["k: looking at ", site.store()]);
    }
}

#[test]
fn a_lock_that_is_free_is_1() {
    for site in Site::on_each_store(Flavor::Valkey91) {
        site.finish(site.run(&["k", "--", "true"])).silent(0);
        for key in ["k", "never"] {
            site.outcome(&["show", key]).prints(1, &format!("key      {key}\nheld by  nobody\nwaiting  0\n"));
            assert_eq!(
                site.outcome(&["show", "--json", key]).silent(1).json(),
                json!({"key": key, "held": false, "last_break": null, "mark": null, "holders": [], "waiters": []})
            );
            site.outcome(&["show", "-q", key]).prints(1, "");
        }
    }
}

#[test]
fn another_programs_lock_is_shown_as_held_and_a_key_that_is_not_a_lock_is_65() {
    let (server, site) = Site::on_server(Flavor::Redis62);
    server.text(&["SET", "theirs", "x\u{1b}[2J", "PX", "60000"]);
    server.text(&["RPUSH", "list", "a"]);
    let done = site
        .outcome(&["show", "theirs"])
        .silent(0)
        .out_has(&["held by  another program's lock (x\\u{1b}[2J)\n"]);
    assert!(!done.out.contains("fence") && !done.out.contains("renewed"), "{done:?}");
    let holding = &site.outcome(&["show", "--json", "theirs"]).json()["holders"][0];
    assert_eq!((&holding["kind"], &holding["value"]), (&json!("foreign"), &json!("x\u{1b}[2J")));

    site.outcome(&["show", "list"])
        .says(65, &["list: ", "not a lock", "delete it there"])
        .out_has(&["held by  a value that is not a lock\n"]);
    let done = site.outcome(&["show", "--json", "list"]).exits_with(65);
    assert_eq!(done.json()["holders"][0]["kind"], "not_a_lock");
    site.outcome(&["show", "-q", "list"]).silent(65);

    // What others wrote in the place of our records hides no holder.
    server.text(&["SET", "k", "x", "PX", "60000"]);
    server.text(&["RPUSH", "leasehold:m{k}k", "x"]);
    server.text(&["RPUSH", "leasehold:b{k}k", "x"]);
    site.outcome(&["show", "k"])
        .exits_with(0)
        .out_has(&["held by  another program's lock (x)\n"])
        .err_has(&["leasehold:m{k}k holds", "leasehold:b{k}k holds"]);
    site.outcome(&["show", "-q", "k"]).silent(0);
}

#[test]
fn keys_are_shown_on_one_line_whatever_their_bytes() {
    let site = Site::new();
    let shown = |option: &str| {
        let run = "k=$(printf 'a\\377\\nb'); leasehold run \"$k\" -- leasehold show";
        bash(&site, &format!("{run} {option} \"$k\"")).silent(0)
    };
    let done = shown("");
    assert!(done.out.starts_with("key      a\\xff\\nb\nheld by  "), "{done:?}");
    assert_eq!(shown("--json").json()["key"], "a\\xff\\nb");
}

#[test]
fn a_store_that_refuses_is_69_and_the_password_is_kept() {
    let server = Server::setup(Flavor::Redis82).password(SECRET).start();
    let with = |password: &str| Site::on(&server.url().replace("//", &format!("//:{password}@")));
    with("wrong").outcome(&["show", "k"]).says(69, &["password"]);
    with(SECRET).outcome(&["show", "--json", "k"]).says(1, &["password in --store"]).keeps_the_secret();
    let done = with(SECRET).outcome(&["show", "-v", "k"]).keeps_the_secret();
    assert_eq!(done.err.lines().count(), 2, "{done:?}");
    let site = with(SECRET);
    site.outcome(&["show", "-q", "k"]).silent(1);
    site.outcome(&["forget", "-q", "k"]).silent(1);
    // A URL with a password in place of a key is a slip, and is not repeated.
    for words in [&["show", "redis://u:s3cret-pw@h"][..], &["ls", "redis://u:s3cret-pw@h"]] {
        site.finish(site.leasehold(words)).says(64, &["a store's URL", "--store"]).keeps_the_secret();
    }
}
