//! The environment variables that the command gets.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use servers::Flavor;

use crate::harness::{Done, OURS, SECRET, Site};
use crate::home::Home;
use crate::shell::{in_shell, path, program};

fn variables(done: &Done) -> BTreeMap<&str, &str> {
    let pairs = done.out.lines().filter_map(|line| line.split_once('='));
    pairs.filter(|(name, _)| name.starts_with("LEASEHOLD_")).collect()
}

#[test]
fn the_command_finds_key_fence_label_and_store_in_its_environment() {
    let site = Site::new();
    let mut command = site.run(&["--label", "web 3", "invoice:42", "--", "env"]);
    command.env("OTHER", "stays");
    let done = site.finish(command).silent(0).out_has(&["OTHER=stays\n"]);
    let told = variables(&done);
    assert_eq!(told["LEASEHOLD_KEY"], "invoice:42");
    assert_eq!(told["LEASEHOLD_KEYS"], "invoice:42");
    assert_eq!(told["LEASEHOLD_MODES"], "exclusive");
    assert_eq!(told["LEASEHOLD_LABEL"], "web 3");
    assert_eq!(told["LEASEHOLD_STORE"], site.store());
    assert_eq!(told["LEASEHOLD_STORES"], site.store());
    assert!(told["LEASEHOLD_FENCE"].parse::<u64>().unwrap() > 0);
    assert_eq!(told.len(), 7);
}

/// Regression: it was ignored.
#[test]
fn a_label_in_the_environment_that_is_not_utf_8_is_a_label_all_the_same() {
    let site = Site::new();
    let mut command = site.run(&["k", "--", "env"]);
    command.env("LEASEHOLD_LABEL", OsStr::from_bytes(b"caf\xe9"));
    assert_eq!(variables(&site.finish(command))["LEASEHOLD_LABEL"], "caf\u{fffd}");
}

#[test]
fn the_label_is_user_host_process_and_command_if_none_is_given() {
    let site = Site::new();
    // The command's parent is the supervisor, and the supervisor's is the process that holds the
    // lock.
    let script = "echo LEASEHOLD_LABEL=$LEASEHOLD_LABEL; \
                  echo LEASEHOLD_USER=$(id -un); \
                  echo LEASEHOLD_PARENT=$(sed -n 's/^PPid:[^0-9]*//p' /proc/$PPID/status)";
    let done = site.finish(site.run_script(&["k"], script));
    let told = variables(&done);
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let who = format!("{}@{host}:{}", told["LEASEHOLD_USER"], told["LEASEHOLD_PARENT"]);
    assert_eq!(told["LEASEHOLD_LABEL"], format!("{who} sh"));
}

#[test]
fn the_label_of_a_hold_names_the_script_that_reads_it() {
    let site = Site::new();
    program(&site, "deploy.sh", "leasehold hold k | { read -r fence; leasehold show --json k; }");
    let done = site.finish(in_shell(&site, "./deploy.sh", &[]));
    let shown = done.json();
    let label = shown["holders"][0]["label"].as_str().unwrap();
    assert!(label.contains('@') && label.ends_with(" deploy.sh"), "{label}");
}

/// It would be another file in each working directory, and exclude nobody.
#[test]
fn a_relative_file_is_refused_and_nothing_is_made() {
    let site = Site::new();
    for store in ["file:leases.db", "file:./leases.db", "file:~someone/leases.db"] {
        site.finish(site.leasehold(&["run", "--store", store, "k", "--", "true"]))
            .says(64, &["--store: ", "absolute"]);
    }
    assert!(!site.path("leases.db").exists() && !site.path("~someone").exists());
}

#[test]
fn a_tilde_is_the_home_of_the_user_whatever_the_environment_says() {
    let site = Site::new();
    let home = Home::of(&site);
    let name = format!("leasehold-test-{}.db", std::process::id());
    let store = format!("file:~/{name}");
    let words = ["run", "--store", &store, "k", "--", "sh", "-c", "cd / && echo $LEASEHOLD_STORE"];
    let mut command = site.leasehold(&words);
    command.env("HOME", site.path("elsewhere"));
    let done = site.finish(home.live_in(command));
    let file = home.path.join(&name);
    assert_eq!(done.out.trim(), format!("file:{}", file.display()), "{done:?}");
    assert!(file.exists() && !site.path("~").exists());
    let _ = std::fs::remove_file(&file);
    let _ = std::fs::remove_dir(format!("{}-peers", file.display()));
}

/// Cron has no `HOME`, and a shell may have any: both must use one file.
#[test]
fn the_default_store_is_the_users_whatever_the_environment_says() {
    let site = Site::new();
    let home = Home::of(&site);
    let expected = format!("taken at file:{}/.local/state/leasehold/leases.db, fence ", home.path.display());
    let key = format!("test-of-the-default-store:{}", std::process::id());
    let words = ["run", "-v", "--ttl", "5", &key, "--", "true"];
    site.finish(home.live_in(site.leasehold(&words))).err_has(&[&expected]);
    let mut elsewhere = site.leasehold(&words);
    for name in ["HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"] {
        elsewhere.env(name, site.path(""));
    }
    site.finish(home.live_in(elsewhere)).err_has(&[&expected]);
    assert!(!site.path(".local").exists());
}

/// The inner and the outer run would wait for each other, by whichever name they use the key.
#[test]
fn a_key_that_is_held_around_us_is_refused_at_once_by_its_name() {
    let site = Site::new();
    let nested = |outer: &[&str], words: &str| {
        let words: Vec<_> =
            words.split(' ').map(|word| if word == "leasehold" { OURS } else { word }).collect();
        site.finish(site.run(&[outer, &["--", OURS], &words].concat()))
    };
    let other = format!("file:{}", site.path("b.db").display());
    let same = format!("file:{}/./leases.db", site.path("").display());
    for (outer, inner, key) in [
        (&["k"][..], "run k -- true", "k"),
        (&["k"], "once k -- true", "k"),
        (&["k"], &format!("run --store {same} k -- true"), "k"),
        (&["--naming", "pottery", "k"], "run redlock:k -- true", "redlock:k"),
        (&["x", "y"], "run a y -- true", "y"),
        (&["x", "y"], "run z -- leasehold run a x -- true", "x"),
        (&["x", "y"], "hold a x", "x"),
        (&["--shared", "k"], "run k -- true", "k"),
        (&["k"], "run --shared k -- true", "k"),
        (&["--permits", "1/2", "k"], "run --permits 2/2 k -- true", "k"),
    ] {
        let line = format!("leasehold: {key}: a run around this one holds it");
        nested(outer, inner).says(64, &[&line, "leave the inner run out"]);
    }
    nested(&["k"], "run other -- true").silent(0);
    // Regression: modes were not compared.
    nested(&["--shared", "k"], "run --shared k -- true").silent(0);
    nested(&["--permits", "1/2", "k"], "run --permits 1/2 k -- true").silent(0);
    nested(&["k"], &format!("run --store {other} k -- true")).silent(0);
    let label = nested(&["--label", "outer", "k"], "run other -- printenv LEASEHOLD_LABEL").silent(0).out;
    assert!(label.ends_with(" printenv\n"), "{label}");
    nested(&["x", "y"], "run b a -- printenv LEASEHOLD_KEYS").prints(0, "x\ny\na\nb\n");
}

/// Regression: a run inside a run at another store did not know the keys that are held outside of that
/// one, so it waited for itself; and a store that LEASEHOLD_STORE named counted as the outer run's.
#[test]
fn a_key_is_held_around_us_at_its_own_store_whatever_stores_are_between() {
    let site = Site::new();
    let (store, other) = (site.store(), format!("file:{}", site.path("b.db").display()));
    let script = format!(
        "leasehold run --store {other} l -- leasehold run --store {store} k -- true; echo $?
         leasehold run --store {other} l -- leasehold run --store {store} l -- true; echo $?
         leasehold run --store {other} l -- leasehold run l -- true; echo $?
         LEASEHOLD_STORE={other} leasehold run k -- true; echo $?"
    );
    let mut command = site.run_script(&["k"], &script);
    command.env("PATH", path());
    let done = site.finish(command).out_is("64\n0\n64\n0\n");
    assert_eq!(done.err.matches("a run around this one holds it").count(), 2, "{done:?}");
}

/// Regression: a job was granted its lock, and then its command could not be started.
#[test]
fn more_keys_than_the_environment_has_room_for_are_refused_before_anything_is_sent() {
    let site = Site::new();
    let most = "k".repeat(128 * 1024 - "LEASEHOLD_KEYS=".len() - 1);
    for words in [&["run", "j"][..], &["once", "j"], &["every", "1h", "j"]] {
        let mut command = site.by_environment(&[words, &["--", "true"]].concat());
        command.env("LEASEHOLD_KEYS", &most);
        site.finish(command).says(64, &["j: these are more keys than the variables LEASEHOLD_KEYS"]);
    }
    assert!(!site.path("leases.db").exists());
}

/// A writer that waits for the outer run is before the inner one in the queue, so a wait would be
/// forever.
#[test]
fn a_shared_run_inside_another_does_not_wait_behind_a_writer() {
    let site = Site::new();
    let script = "env -u LEASEHOLD_KEYS leasehold run k -- true & \
                  until leasehold show k | grep -q 'waiting *1'; do sleep 0.05; done; \
                  leasehold run --shared k -- true; echo $?";
    let mut command = site.run_script(&["--shared", "k"], script);
    command.env("PATH", path());
    site.finish(command).out_has(&["75\n"]).err_has(&["leasehold: k: not granted at once", "--within TIME"]);
}

#[test]
fn a_password_goes_neither_to_the_command_nor_to_the_terminal() {
    let (server, site) = Site::with_password(Flavor::Redis82, SECRET);
    let done = site.finish(site.by_environment(&["run", "k", "--", "env"])).silent(0).keeps_the_secret();
    assert_eq!(variables(&done)["LEASEHOLD_STORE"], server.url());

    site.finish(site.run(&["k", "--", "env"]))
        .says(0, &["password in --store", "put the URL into LEASEHOLD_STORE"])
        .keeps_the_secret();
    site.finish(site.run(&["-q", "k", "--", "true"])).silent(0);
}

#[test]
fn a_nested_run_that_lacks_the_password_says_so_and_locks_nowhere_else() {
    let (_server, site) = Site::with_password(Flavor::Valkey91, SECRET);
    site.finish(site.by_environment(&["run", "k", "--", OURS, "run", "other", "--", "true"]))
        .says_and_hints(
            69,
            &["password"],
            "the run around this one took the password out of LEASEHOLD_STORE: give this one its own",
        )
        .keeps_the_secret();
}
