//! `leasehold doctor`: unsafe settings of a store.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;
use servers::{Flavor, Server};

use crate::harness::{Done, Site};
use crate::pty::Pty;

fn doctor(site: &Site, words: &[&str]) -> Done {
    let mut command = site.leasehold(&["doctor"]);
    command.args(words);
    site.finish(command)
}

/// The findings with this subject, without notes, and the exit code.
fn findings(done: &Done, about: &str) -> Vec<Value> {
    let all = done.json()["findings"].as_array().expect("a list").clone();
    all.into_iter().filter(|finding| finding["about"] == about && finding["severity"] != "note").collect()
}

#[test]
fn the_exit_code_tells_the_severity_and_the_pasted_remedy_fixes_it() {
    let server = Server::setup(Flavor::Redis82)
        .arg("maxmemory", "100mb")
        .arg("maxmemory-policy", "allkeys-lru")
        .start();
    // As on an unconfigured server.
    server.text(&["CONFIG", "SET", "save", "3600 1 300 100 60 10000"]);
    let site = Site::new();
    let at = ["--store", &server.url()];
    for (code, about) in [(2, "eviction"), (1, "persistence")] {
        let done = doctor(&site, &[&at[..], &["--json"]].concat()).silent(code);
        let found = findings(&done, about);
        assert_eq!(found[0]["remedy"]["kind"], "redis-cli", "{done:?}");
        let command = found[0]["remedy"]["text"].as_str().unwrap();
        assert!(doctor(&site, &at).out.contains(&format!("redis-cli> {command}\n")));
        server.text(&command.split(' ').collect::<Vec<_>>());
    }
    let done = doctor(&site, &at).silent(0);
    assert_eq!(done.out.lines().count(), 1, "{done:?}");
    assert!(done.out.contains(": 0 unsafe, 0 warnings, 0 unknown, "), "{done:?}");
    doctor(&site, &[&at[..], &["-v"]].concat()).out_has(&["note     push: heard "]);
    assert_eq!(doctor(&site, &[&at[..], &["-q"]].concat()).out, "");
}

#[test]
fn a_terminal_shows_the_severities_in_colours_unless_they_are_unwanted() {
    let site = Site::new();
    site.finish(site.run(&["k", "--", "true"])).silent(0);
    fs::set_permissions(site.path("leases.db"), Permissions::from_mode(0o666)).unwrap();
    for (before, coloured) in [
        ("", true),
        ("NO_COLOR= ", true),
        ("NO_COLOR=1 ", false),
        ("TERM=dumb ", false),
        ("env -u TERM ", false),
    ] {
        let mut pty = Pty::script(&site, &format!("{before}$L doctor"));
        pty.ends_with(2);
        pty.wait_for(" 1 unsafe, ");
        assert_eq!(pty.all().contains("\x1b[31;1munsafe\x1b[0m "), coloured, "{before}{}", pty.all());
        assert_eq!(pty.all().contains('\x1b'), coloured, "{before}{}", pty.all());
    }
    let done = doctor(&site, &["--store", site.store()]).silent(2);
    assert!(!done.out.contains('\x1b'), "{done:?}");
}

#[test]
fn what_could_not_be_checked_is_1() {
    let server = Server::setup(Flavor::Redis82).arg("appendonly", "yes").start();
    server.text(&["ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all", "-config"]);
    let store = format!("redis://app@127.0.0.1:{}", server.port());
    let done = doctor(&Site::new(), &["--store", &store]).silent(1);
    done.out_has(&["unknown  ", ": 0 unsafe, 0 warnings, "]);
}

#[test]
fn an_unreachable_member_is_named_and_the_others_are_diagnosed() {
    let (one, other) = (Server::start(Flavor::Redis82), Server::start(Flavor::Valkey91));
    let site = Site::new();
    let (one, other) = (one.url(), other.url());
    let at = ["--json", "--store", &one, "--store", &other, "--store", "redis://127.0.0.1:1"];
    let done = doctor(&site, &at).silent(1);
    let reach = findings(&done, "reach");
    assert!(reach.len() == 1 && reach[0]["at"] == "redis://127.0.0.1:1", "{done:?}");
    for url in [&one, &other] {
        assert!(done.out.contains(&format!("\"about\":\"push\",\"at\":\"{url}\"")), "{done:?}");
    }
    let done = doctor(&site, &["--json", "--store", &one, "--store", "redis://127.0.0.1:1"]).silent(2);
    assert_eq!(findings(&done, "majority").len(), 1, "{done:?}");
    doctor(&site, &["--store", "redis://127.0.0.1:1"]).silent(2).out_has(&["reach: cannot connect"]);
}

#[test]
fn one_pasted_line_lets_a_user_do_all_that_a_lock_on_a_key_needs() {
    let server = Server::setup(Flavor::Valkey91).arg("appendonly", "yes").start();
    let url = format!("redis://app@127.0.0.1:{}", server.port());
    let site = Site::on(&url);
    let words = ["--json", "--store", &url, "--key", "app:[x]"];
    for allowed in [
        // Permissions for other keys, for no channel, and for hardly any command.
        "~other:* +@all -@admin -scan +config|get",
        "~other:* +hello +client +ping",
    ] {
        let rules = format!("ACL SETUSER app reset on nopass {allowed}");
        server.text(&rules.split(' ').collect::<Vec<_>>());
        let done = doctor(&site, &words).exits_with(2);
        let found = findings(&done, "key");
        assert!(found[0]["what"].as_str().unwrap().starts_with("app:[x]"), "{done:?}");
        let line = found[0]["remedy"]["text"].as_str().unwrap();
        server.text(&line.split(' ').collect::<Vec<_>>());
        let done = doctor(&site, &words);
        assert!(
            !done.out.contains("ACL SETUSER") || !findings(&done, "unknown").is_empty(),
            "{line}: {done:?}"
        );
        assert!(findings(&done, "key").is_empty() && findings(&done, "push").is_empty(), "{done:?}");
        site.finish(site.run(&["--ttl", "5", "app:[x]", "--", "true"])).silent(0);
        site.finish(site.run(&["app:x", "--", "true"])).says(69, &["may not use a key"]);
    }
    server.text(&["RPUSH", "list", "x"]);
    let done = doctor(&site, &["--json", "--store", &server.url(), "--key", "list"]);
    assert!(findings(&done, "key")[0]["what"].as_str().unwrap().contains("not a lock"), "{done:?}");
    server.text(&["RPUSH", "leasehold:b{k}k", "x"]);
    let done = doctor(&site, &["--json", "--store", &server.url(), "--key", "k"]);
    assert!(findings(&done, "key")[0]["what"].as_str().unwrap().contains("leasehold:b{k}k"), "{done:?}");
    // The doctor does not create the file.
    let file = Site::new();
    doctor(&file, &["--store", file.store(), "--key", "k"]).silent(0);
    assert!(!file.path("leases.db").exists());
}

#[test]
fn a_refused_password_is_a_finding_and_no_password_is_shown() {
    let server = Server::setup(Flavor::Redis70).password("right").start();
    let site = Site::new();
    let mut command = site.leasehold(&["doctor"]);
    command.env("LEASEHOLD_STORE", format!("redis://:s3cret@127.0.0.1:{}", server.port()));
    site.finish(command).silent(2).keeps_the_secret().out_has(&["reach: ", "refuses user default"]);
}

#[test]
fn a_file_is_looked_at_without_making_it() {
    let site = Site::new();
    let done = doctor(&site, &["-v", "--store", site.store()]).silent(0);
    assert!(done.out.contains("not there yet") && !site.path("leases.db").exists(), "{done:?}");
    site.finish(site.run(&["k", "--", "true"])).silent(0);
    doctor(&site, &["--store", site.store()]).silent(0);
    fs::set_permissions(site.path("leases.db"), Permissions::from_mode(0o666)).unwrap();
    let done = doctor(&site, &["--store", site.store()])
        .silent(2)
        .out_has(&["can be written by others (mode 0666): run chmod 600"]);
    let command = done.out.lines().find_map(|line| line.strip_prefix("    fix   $ ")).expect("a command");
    site.finish(site.process("sh", &["-c", command])).silent(0);
    doctor(&site, &["--store", site.store()]).silent(0);
}
