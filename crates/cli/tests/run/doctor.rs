//! `leasehold doctor`: unsafe settings of a store.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use rusqlite::Connection;
use serde_json::Value;
use servers::{Flavor, Server};

use crate::harness::{Done, OURS, SECRET, Site};
use crate::pty::Pty;

fn doctor(site: &Site, words: &[&str]) -> Done {
    site.finish(site.by_environment(&[&["doctor"], words].concat()))
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
    let site = Site::on(&server.url());
    for (code, about) in [(2, "eviction"), (1, "persistence")] {
        let done = doctor(&site, &["--json"]).silent(code);
        let found = findings(&done, about);
        assert_eq!(found[0]["remedy"]["kind"], "redis-cli", "{done:?}");
        let command = found[0]["remedy"]["text"].as_str().unwrap();
        doctor(&site, &[]).out_has(&[&format!("redis-cli> {command}\n")]);
        server.text(&command.split(' ').collect::<Vec<_>>());
    }
    let done = doctor(&site, &[]).silent(0).out_has(&[": 0 unsafe, 0 warnings, 0 unknown, "]);
    assert_eq!(done.out.lines().count(), 1, "{done:?}");
    doctor(&site, &["-v"]).out_has(&["note     push: arrived "]);
    doctor(&site, &["-q"]).out_is("");
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
        let mut pty = Pty::script(&site, &format!("{before}$L doctor -v"));
        pty.ends_with(2);
        pty.wait_for(" 1 unsafe, ");
        for severity in ["\x1b[31;1munsafe\x1b[0m ", "\x1b[33mwarning\x1b[0m "] {
            assert_eq!(pty.all().contains(severity), coloured, "{before}{}", pty.all());
        }
        // Nothing else has a colour, not even a note.
        assert_eq!(pty.all().matches('\x1b').count(), if coloured { 4 } else { 0 }, "{before}{}", pty.all());
        assert!(pty.all().contains("note     "), "{before}{}", pty.all());
    }
    let done = doctor(&site, &[]).silent(2);
    assert!(!done.out.contains('\x1b'), "{done:?}");
}

#[test]
fn what_could_not_be_checked_is_1() {
    let server = Server::setup(Flavor::Redis82).arg("appendonly", "yes").start();
    server.text(&["ACL", "SETUSER", "app", "on", "nopass", "~*", "&*", "+@all", "-config"]);
    let site = Site::on(&format!("redis://app@127.0.0.1:{}", server.port()));
    doctor(&site, &[]).silent(1).out_has(&["unknown  ", ": 0 unsafe, 0 warnings, "]);
}

#[test]
fn an_unreachable_member_is_named_and_the_others_are_diagnosed() {
    let (one, other) = (Server::start(Flavor::Redis82), Server::start(Flavor::Valkey91));
    let (one, other) = (one.url(), other.url());
    let site = Site::on(&format!("{one} {other} redis://127.0.0.1:1"));
    let done = doctor(&site, &["--json"]).silent(1);
    let reach = findings(&done, "reach");
    assert!(reach.len() == 1 && reach[0]["at"] == "redis://127.0.0.1:1", "{done:?}");
    for url in [&one, &other] {
        assert!(done.out.contains(&format!("\"about\":\"push\",\"at\":\"{url}\"")), "{done:?}");
    }
    let done = doctor(&Site::on(&format!("{one} redis://127.0.0.1:1")), &["--json"]).silent(2);
    assert_eq!(findings(&done, "majority").len(), 1, "{done:?}");
    doctor(&Site::on("redis://127.0.0.1:1"), &[]).silent(2).out_has(&["reach: cannot connect"]);
}

#[test]
fn one_pasted_line_lets_a_user_do_all_that_a_lock_on_a_key_needs() {
    let server = Server::setup(Flavor::Valkey91).arg("appendonly", "yes").start();
    let site = Site::on(&format!("redis://app@127.0.0.1:{}", server.port()));
    let words = ["--json", "--key", "app:[x]"];
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
    let by_all = Site::on(&server.url());
    server.text(&["RPUSH", "list", "x"]);
    let done = doctor(&by_all, &["--json", "--key", "list"]);
    assert!(findings(&done, "key")[0]["what"].as_str().unwrap().contains("not a lock"), "{done:?}");
    server.text(&["RPUSH", "leasehold:b{k}k", "x"]);
    let done = doctor(&by_all, &["--json", "--key", "k"]);
    assert!(findings(&done, "key")[0]["what"].as_str().unwrap().contains("leasehold:b{k}k"), "{done:?}");
    // The doctor does not create the file.
    let file = Site::new();
    doctor(&file, &["--key", "k"]).silent(0);
    assert!(!file.path("leases.db").exists());
}

/// Regression: in a quorum, a key that no member allows was "unknown: no majority of its stores
/// agreed", without a member's reason or a remedy. The line for a single server would not have helped:
/// a member keeps its fences under other keys. With `channels=` in the URL it also allowed the channels
/// of all tenants.
#[test]
fn a_key_that_the_members_of_a_quorum_do_not_allow_is_unsafe_and_one_line_at_each_allows_it() {
    let servers = [(); 3].map(|()| Server::setup(Flavor::Redis82).arg("appendonly", "yes").start());
    let url =
        |server: &Server| format!("redis://app@127.0.0.1:{}?quarantine=no&channels=app:", server.port());
    let site = Site::on(&servers.each_ref().map(url).join(" "));
    for server in &servers {
        let rules = "ACL SETUSER app reset on nopass ~leasehold:member &leasehold:app:* +@all";
        server.text(&rules.split(' ').collect::<Vec<_>>());
    }
    for key in ["app:x", "nightly"] {
        let done = doctor(&site, &["--json", "--key", key]).exits_with(2);
        let found = findings(&done, "key");
        assert!(found.len() >= 2, "{done:?}");
        for server in &servers {
            let is_here = |it: &&Value| it["at"].as_str().unwrap().ends_with(&format!(":{}", server.port()));
            let here = found.iter().find(is_here).unwrap_or(&found[0]);
            assert_eq!(here["severity"], "unsafe", "{done:?}");
            let line = here["remedy"]["text"].as_str().unwrap();
            assert!(!line.contains("&leasehold:*"), "{line}");
            server.text(&line.split(' ').collect::<Vec<_>>());
        }
        assert!(findings(&doctor(&site, &["--json", "--key", key]), "key").is_empty());
        site.finish(site.by_environment(&["run", "-q", "--ttl", "5", key, "--", "true"])).exits_with(0);
    }
}

#[test]
fn a_refused_password_is_a_finding_and_no_password_is_shown() {
    let server = Server::setup(Flavor::Redis70).password("right").start();
    let site = Site::on(&format!("redis://:{SECRET}@127.0.0.1:{}", server.port()));
    doctor(&site, &[]).silent(2).keeps_the_secret().out_has(&["reach: ", "refuses user default"]);
}

#[test]
fn a_file_is_looked_at_without_making_it() {
    let site = Site::new();
    let done = doctor(&site, &["-v"]).silent(0);
    assert!(done.out.contains("not there yet") && !site.path("leases.db").exists(), "{done:?}");
    site.finish(site.run(&["k", "--", "true"])).silent(0);
    doctor(&site, &[]).silent(0);
    fs::set_permissions(site.path("leases.db"), Permissions::from_mode(0o666)).unwrap();
    let done = doctor(&site, &[]).silent(2).out_has(&["can be written by others (mode 0666): run chmod 600"]);
    let command = done.out.lines().find_map(|line| line.strip_prefix("    fix   $ ")).expect("a command");
    site.finish(site.process("sh", &["-c", command])).silent(0);
    doctor(&site, &[]).silent(0);
}

/// Regression: the remedies for a file ignored whose it was. For a group's store, `chmod 700` of the
/// directory shut out all of its users, whatever the finding; for a file in `/tmp`, it shut all users
/// of the machine out of there.
#[test]
fn a_remedy_for_a_file_leaves_the_access_of_those_who_share_its_directory() {
    let site = Site::new();
    let (directory, file) = (site.path("shared"), site.path("shared/leases.db"));
    let store = format!("file:{}", file.display());
    let looks = || doctor(&site, &["--store", &store]);
    let chmod = |path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    fs::create_dir(&directory).unwrap();
    chmod(&directory, 0o1777);
    let done = looks().silent(2).out_has(&["can be written by others (mode 1777)", "such as one in it"]);
    assert!(!done.out.contains("chmod"), "{done:?}");
    // As `leasehold init` makes it.
    chmod(&directory, 0o3770);
    site.finish(site.by_environment(&["run", "--store", &store, "k", "--", "true"])).silent(0);
    looks().silent(0);
    for (path, mode, is) in [(&file, 0o666, 0o660), (&directory, 0o3777, 0o3770)] {
        chmod(path, mode);
        looks().silent(2).out_has(&[&format!("run chmod {is:o}"), &format!("$ chmod {is:o} '")]);
        chmod(path, is);
    }
    chmod(&directory, 0o3775);
    chmod(&file, 0o664);
    looks().silent(1).out_has(&["others can read the file (mode 0664)", "$ chmod 660 '"]);
    chmod(&file, 0o660);
    fs::hard_link(&file, site.path("shared/other")).unwrap();
    let done = looks().silent(2).out_has(&["has another name too"]);
    assert!(!done.out.contains("chmod"), "{done:?}");
}

/// Regression: only the first bytes were read, so a file that was cut off was good, although every run was
/// refused. It is read with the log next to it, and also alone, without making another log.
#[test]
fn a_file_that_was_cut_off_is_damaged_with_its_log_and_without_it() {
    let site = Site::new();
    site.outcome(&["run", "k", "--", "true"]).silent(0);
    let file = fs::File::options().write(true).open(site.path("leases.db")).unwrap();
    let log = ["leases.db-wal", "leases.db-shm"].map(|name| site.path(name));
    // As long as somebody uses it, there is a log.
    let user = Connection::open(site.path("leases.db")).unwrap();
    user.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    assert!(log.iter().all(|path| path.exists()));
    doctor(&site, &[]).silent(0);
    for with_log in [true, false] {
        file.set_len(3000).unwrap();
        if !with_log {
            log.iter().for_each(|path| fs::remove_file(path).unwrap());
        }
        doctor(&site, &[]).silent(2).out_has(&["the file is damaged"]);
        assert!(log.iter().all(|path| path.exists() == with_log));
    }
}

/// Regression: "it is not there yet: the first lock makes it", with exit code 0, of a file that could
/// not be made; and nothing of a file of another program.
#[test]
fn a_file_of_which_every_lock_is_refused_is_unsafe() {
    let site = Site::new();
    let at = |path: &str| ["--store".to_owned(), format!("file:{}", site.path(path).display())];
    let looks = |path| doctor(&site, &at(path).each_ref().map(|word| &**word));
    fs::write(site.path("diary"), "dear diary").unwrap();
    looks("diary").silent(2).out_has(&["the file is not Leasehold's"]);
    looks("diary/leases.db").silent(2).out_has(&["is not a directory"]);
    fs::create_dir(site.path("closed")).unwrap();
    fs::set_permissions(site.path("closed"), Permissions::from_mode(0o500)).unwrap();
    if fs::create_dir(site.path("closed/new")).is_err() {
        looks("closed/new/leases.db").silent(2).out_has(&["cannot write to", "Permission denied"]);
    }
    // Regression: a file without one of its tables was good, and a run waited for it.
    site.outcome(&["run", "k", "--", "true"]).silent(0);
    Connection::open(site.path("leases.db")).unwrap().execute_batch("DROP TABLE record").unwrap();
    looks("leases.db").silent(2).out_has(&["the file is damaged", "no such table: record"]);
    site.outcome(&["run", "k", "--", "true"]).says(69, &["the file is damaged", "move it away"]);
    // Regression: nothing was said of a machine whose boot cannot be told.
    fs::remove_file(site.path("leases.db")).unwrap();
    let apart = [
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        "mount -t tmpfs tmpfs /proc && exec \"$0\" \"$@\"",
    ];
    let without_proc = |words: &[&str]| site.finish(site.process("unshare", &[&apart[..], words].concat()));
    if without_proc(&["true"]).status.success() {
        let store = ["--store", site.store()];
        let done = without_proc(&[&[OURS, "doctor"], &store[..]].concat());
        done.silent(2).out_has(&["boot_id is not there: mount /proc"]);
    } else {
        eprintln!("left out: nothing can be mounted over /proc here");
    }
}
