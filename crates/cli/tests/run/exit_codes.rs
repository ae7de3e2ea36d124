//! The exit codes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use servers::{Flavor, Server};

use crate::harness::{Done, OURS, Site};
use crate::shell::sh;

#[test]
fn the_commands_own_code_is_ours() {
    let site = Site::new();
    for code in [0, 1, 3, 64, 75, 255] {
        site.finish(site.run_script(&["k"], &format!("exit {code}"))).silent(code);
    }
}

#[test]
fn stdout_is_the_commands_alone_also_with_verbose() {
    let site = Site::new();
    site.finish(site.run(&["-v", "k", "--", "printf", "%s|", "a b", "$HOME", "*", "-n"]))
        .exits_with(0)
        .err_has(&["leasehold: k: taken at file:"])
        .out_is("a b|$HOME|*|-n|");
}

/// A full disk does not pass, so a run does not wait; and the store is reachable.
#[test]
fn a_full_disk_is_69_at_once_and_says_what_to_do() {
    is_69_on_a_full_disk("size=1m", "head -c 2m /dev/zero >rest 2>&-");
}

/// SQLite says of such a disk only that it cannot open a file.
#[test]
fn a_disk_without_room_for_another_file_is_full_too() {
    is_69_on_a_full_disk("nr_inodes=2", "true");
}

/// Regression: the command also said that the lock was not released and that others must wait for
/// it, although in a file a lock ends with its process.
#[test]
fn a_lease_that_is_lost_on_a_full_disk_keeps_nobody_waiting_and_says_nothing_else() {
    let command = "head -c 2m /dev/zero >rest 2>&-; sleep 9";
    let words = ["run", "--ttl", "1", "k", "--", "sh", "-c", command];
    let Some(finished) = on_a_small_disk("size=1m", "true", &words) else { return };
    // One line.
    finished.says(70, &["k: lease lost", "the disk is full"]);
}

/// Regression: the log had room, but not the session, so the lock was taken without one, and when its
/// process was killed, the others waited until its lease ended.
#[test]
fn a_disk_without_room_for_a_session_is_69_although_the_log_has_room() {
    let holder = format!("{OURS} run --store \"file:$PWD/leases.db\" other -- sh -c 'touch ready; sleep 9'");
    let fill = "until [ -e ready ]; do sleep 0.01; done; n=0; while touch \"$n\"; do n=$((n + 1)); done";
    is_69_on_a_full_disk("size=1m,nr_inodes=40", &format!("{{ {holder} & {fill}; }} </dev/null >&- 2>&-"));
}

#[track_caller]
fn is_69_on_a_full_disk(option: &str, fill: &str) {
    let begun = std::time::Instant::now();
    let Some(finished) = on_a_small_disk(option, fill, &["run", "k", "--", "true"]) else { return };
    finished.says(69, &["the disk is full", "free some space\n"]);
    // The outage limit is 10 s.
    assert!(begun.elapsed() < std::time::Duration::from_secs(8), "{:?}", begun.elapsed());
}

/// Mounts a disk with this option, fills it, and runs `leasehold` with these words and a store there.
/// `None` if no disk can be mounted.
#[track_caller]
fn on_a_small_disk(option: &str, fill: &str, words: &[&str]) -> Option<Done> {
    let site = Site::new();
    let directory = site.path("small");
    fs::create_dir(&directory).unwrap();
    let store = format!("file:{}/leases.db", directory.display());
    let script = format!(
        "mount -t tmpfs -o {option},mode=0700 tmpfs {0} && cd {0} && {{ {fill}; LEASEHOLD_STORE={store} exec \"$0\" \"$@\"; }}",
        directory.display()
    );
    let apart = ["--user", "--map-root-user", "--mount", "sh", "-c", &script];
    let on_the_disk = |program: &str, words: &[&str]| {
        site.finish(site.process("unshare", &[&apart[..], &[program], words].concat()))
    };
    if !on_the_disk("true", &[]).status.success() {
        eprintln!("left out: no file system can be mounted here");
        return None;
    }
    Some(on_the_disk(OURS, words))
}

/// The system sends SIGXFSZ to a process that writes beyond this limit.
#[test]
fn a_limit_of_file_sizes_that_is_too_small_is_69_and_says_what_to_do() {
    let site = Site::new();
    let limited = || sh(&site, "ulimit -f 8; exec leasehold run k -- true");
    let says = ["a file of this process may not become larger than ", "raise the limit (ulimit -f)"];
    limited().says(69, &says);
    site.finish(site.run(&["k", "--", "true"])).silent(0);
    limited().says(69, &says);
    // With the signal ignored, the library reports the same to any program.
    sh(&site, "trap '' XFSZ; ulimit -f 8; exec leasehold run k -- true").says(69, &says);
}

/// Regression: with some limits, the file could be opened but no session be started, and a run
/// without --within waited for ever.
#[test]
fn a_limit_of_open_files_that_is_too_small_says_what_to_do() {
    let site = Site::new();
    for limit in 8..20 {
        let done = sh(&site, &format!("ulimit -n {limit}; exec leasehold run k -- true"));
        match done.status.code() {
            Some(0) => {}
            _ => _ = done.says(69, &["raise the limit of open files"]),
        }
    }
    sh(&site, "ulimit -n 24; exec leasehold run k -- true").silent(0);
}

#[test]
fn a_command_that_writes_beyond_the_limit_of_file_sizes_ends_as_without_us() {
    let site = Site::new();
    for before in ["", "trap '' XFSZ; "] {
        let write = "head -c 100000000 /dev/zero 2>&1 >large | sed s/.*://; exit ${PIPESTATUS[0]}";
        let under = |ours: &str| sh(&site, &format!("{before}ulimit -f 50000; {ours} bash -c '{write}'"));
        let (bare, done) = (under(""), under("leasehold run k --"));
        assert_eq!((done.status, done.out), (bare.status, bare.out));
        assert!(!done.status.success());
    }
}

#[test]
fn a_command_that_is_not_there_is_127_and_one_that_cannot_be_executed_126_and_neither_leaves_a_lock() {
    let site = Site::new();
    let run = |command| site.finish(site.run(&["k", "--", command]));
    for name in ["no-such-command", "./no-such-command", ""] {
        run(name).says(127, &["not run: "]);
    }
    fs::write(site.path("text"), "no program\n").unwrap();
    run("./text").says(126, &["./text: not run: ", "chmod +x"]);
    fs::set_permissions(site.path("text"), Permissions::from_mode(0o755)).unwrap();
    run("./text").says(126, &["#! line"]);
    run("/").says(126, &["/: not run: "]);
    // PATH may name what is no directory, and a directory with a file of that name that cannot be run.
    fs::set_permissions(site.path("text"), Permissions::from_mode(0o644)).unwrap();
    fs::write(site.path("true"), "no program\n").unwrap();
    let by_path = |path: &[&str], name: &str| {
        let run = [OURS, "run", "--store", site.store(), "k", "--", name];
        site.finish(site.process("env", &[path, &run].concat()))
    };
    let here = site.path("").display().to_string();
    let path = format!("PATH={here}text/x:{here}nowhere:{here}:/usr/bin:/bin");
    by_path(&[&path], "text").says(126, &["text: not run: ", "chmod +x"]);
    by_path(&[&path], "true").silent(0);
    by_path(&["-u", "PATH"], "true").silent(0);
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

#[test]
fn a_command_that_died_of_a_signal_has_us_die_of_it_and_leaves_no_lock() {
    let site = Site::new();
    for signal in [Signal::KILL, Signal::TERM, Signal::INT, Signal::SEGV, Signal::ABORT, Signal::PIPE] {
        let done =
            site.finish(site.run_script(&["k"], &format!("kill -{} $$", signal.as_raw()))).died_of(signal);
        assert!(!done.status.to_string().contains("core"), "{done:?}");
        assert_eq!(done.err, "");
    }
    // A real-time signal, whose default action cannot be emulated.
    site.finish(site.run_script(&["k"], "kill -40 $$")).exits_with(128 + 40);
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

#[test]
fn a_lock_that_is_held_is_75_and_the_line_says_who_and_where() {
    let site = Site::new();
    let holder = site.holder(&["--label", "the holder", "k"]);
    for options in [&["-n"][..], &["--try"], &["-w", "0"], &["--within=0s"]] {
        site.finish(site.run(&[options, &["k", "--", "true"]].concat()))
            .says(75, &["k: held by the holder (", site.store(), "--within"]);
    }
    site.line("run -w 1s k -- true").says(75, &["k: not free within 1s, held by the holder (", site.store()]);
    for options in [&["-nq"][..], &["-q", "-w", "1s"]] {
        site.finish(site.run(&[options, &["k", "--", "true"]].concat())).silent(75);
    }
    site.finish(site.run(&["-n", "another", "--", "true"])).silent(0);
    drop(holder);
    site.finish(site.run(&["-n", "k", "--", "true"])).silent(0);
}

#[test]
fn a_list_at_the_key_is_65_and_stays_as_it_was() {
    let server = Server::start(Flavor::Redis70);
    server.text(&["RPUSH", "k", "a", "b"]);
    let site = Site::on(&server.url());
    site.line("run -w 5 k -- true").says(65, &["k: ", "not a lock", "choose another key"]);
    assert_eq!(server.text(&["LLEN", "k"]).as_integer(), Some(2));
}

/// Only somebody else writes such a fence. No time makes it smaller, so nobody waits.
#[test]
fn a_key_without_a_greater_fence_is_65() {
    let (server, site) = Site::on_server(Flavor::Valkey91);
    server.text(&["SET", "leasehold:c{-}", "9007199254740991"]);
    for task in ["run k", "hold k", "once k"] {
        let command = if task.starts_with("hold") { "" } else { " -- true" };
        site.line(&format!("{task}{command}")).says(65, &["k: ", "fence"]).out_is("");
    }
}
