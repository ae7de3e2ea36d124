//! A store that several users share, and the hints that the default store is not shared.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::process::Command;

use nix::unistd::{Gid, Group, Uid};

use crate::harness::Site;
use crate::home::Home;

/// A group that exists on every system and has no members.
fn group() -> (String, u32) {
    let group =
        [65534, 65533, 1].into_iter().find_map(|id| Group::from_gid(Gid::from_raw(id)).ok().flatten());
    let group = group.expect("a group");
    (group.name, group.gid.as_raw())
}

/// The same command, by a user without a database entry, in that group. The path to the program and
/// the test's files is accessible to all.
fn by(user: u32, group: u32, command: &Command) -> Command {
    let [user, group] = [user, group].map(|id| id.to_string());
    let mut by = Command::new("setpriv");
    by.args(["--reuid", &user, "--regid", &user, "--groups", &group]);
    by.arg(command.get_program()).args(command.get_args());
    by.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path))).current_dir("/");
    by
}

/// True for root, which these tests need; otherwise prints that they are skipped.
fn is_root() -> bool {
    if !Uid::effective().is_root() {
        eprintln!("left out: only root can make a store for a group");
    }
    Uid::effective().is_root()
}

#[test]
fn users_of_a_group_and_root_exclude_each_other_in_a_store_that_root_made() {
    let Some(site) = is_root().then(Site::new) else { return };
    fs::set_permissions(site.path(""), Permissions::from_mode(0o755)).unwrap();
    let (name, id) = group();
    let directory = site.path("locks");
    let init = ["init", "--group", &name, directory.to_str().unwrap()];
    let made = site.finish(site.leasehold(&init)).silent(0);
    let store = made.out.trim().to_owned();
    assert_eq!(store, format!("file:{}/leases.db", directory.display()));
    // A second time does no harm.
    assert_eq!(site.finish(site.leasehold(&init)).out.trim(), store);
    let run = |words: &[&str], script: &str| {
        site.leasehold(&[&["run", "--store", &store], words, &["--", "sh", "-c", script]].concat())
    };
    let mark = site.path("held");
    fs::write(&mark, "").unwrap();
    fs::set_permissions(&mark, Permissions::from_mode(0o666)).unwrap();
    let holds = run(&["deploy"], &format!("echo yes > {}; exec sleep 60", mark.display()));
    let holder = site.start(by(64_001, id, &holds));
    site.wait_for("held");
    let tries = || run(&["-n", "deploy"], "true");
    let others = || [by(64_002, id, &tries()), tries()];
    others().into_iter().for_each(|other| drop(site.finish(other).says(75, &["deploy: ", "held by"])));
    drop(holder);
    others().into_iter().for_each(|other| drop(site.finish(other).silent(0)));
    let stranger = by(64_003, 64_003, &run(&["-n", "deploy"], "true"));
    site.finish(stranger).says(69, &["user 64003 is not in group"]);
}

#[test]
fn a_store_for_a_group_is_made_by_root_for_one_that_there_is() {
    let site = Site::new();
    fs::set_permissions(site.path(""), Permissions::from_mode(0o755)).unwrap();
    let (name, id) = group();
    let directory = site.path("locks");
    let directory = directory.to_str().unwrap();
    site.finish(site.leasehold(&["init", "--group", "no-such-group", directory]))
        .exits_with(64)
        .err_has(&["there is no such group", "hint: groupadd no-such-group"]);
    if is_root() {
        let full = site.path("full");
        fs::create_dir(&full).unwrap();
        fs::write(full.join("something"), "").unwrap();
        site.finish(site.leasehold(&["init", "--group", &name, full.to_str().unwrap()]))
            .says(69, &["is not empty"]);
        let init = site.leasehold(&["init", "--group", &name, directory]);
        site.finish(by(64_001, id, &init)).says(64, &["run it as root"]);
    }
    assert!(!site.path("locks").exists());
}

/// Regression: it got the group and the mode of a store before it was refused.
#[test]
fn a_directory_of_another_user_is_refused_and_stays_as_it_was() {
    let Some(site) = is_root().then(Site::new) else { return };
    let theirs = site.path("theirs");
    fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(64_001), Some(64_001)).unwrap();
    let access = || fs::metadata(&theirs).map(|found| (found.mode(), found.uid(), found.gid())).unwrap();
    let before = access();
    let init = site.leasehold(&["init", "--group", &group().0, theirs.to_str().unwrap()]);
    site.finish(init).says(69, &["belongs to user 64001", "name one that is not there yet"]);
    assert_eq!(access(), before);
}

#[test]
fn the_environment_names_the_database_if_nothing_else_is_asked_for() {
    let site = Site::on("postgres://u@127.0.0.1:1/app?sslmode=xx");
    site.line("init").says(64, &["LEASEHOLD_STORE: ", "sslmode"]);
    site.line("init --print-sql").says(64, &["LEASEHOLD_STORE: ", "sslmode"]);
    site.line("init --store redis://h").says(64, &["--store: only a PostgreSQL store has tables"]);
    site.line("init --group no-such-group d").exits_with(64).err_has(&["there is no such group"]);
    site.line("init d").says(64, &["no --group"]);
}

/// `leasehold run deploy` and `sudo leasehold run deploy` lock in two files.
#[test]
fn a_run_under_sudo_says_that_roots_default_store_is_another_one() {
    let site = Site::new();
    let home = Home::of(&site);
    let key = format!("test-of-sudo:{}", std::process::id());
    let run = |words: &[&str], user: &str| {
        let mut command = site.leasehold(&[words, &["--ttl", "5", &key, "--", "true"]].concat());
        command.env("SUDO_USER", user);
        command
    };
    let done = site.finish(home.live_in(run(&["run"], "somebody-else")));
    let hint = "leasehold init --group NAME DIR makes a store for several users: see `leasehold help init`";
    done.says_and_hints(0, &["the store of this user", "not the one of somebody-else"], hint);
    let own =
        nix::unistd::User::from_uid(Uid::effective()).unwrap().expect("we are in the user database").name;
    site.finish(home.live_in(run(&["run"], &own))).silent(0);
    site.finish(home.live_in(run(&["run", "-q"], "somebody-else"))).silent(0);
    site.finish(run(&["run", "--store", site.store()], "somebody-else")).silent(0);
}
