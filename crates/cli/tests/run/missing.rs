//! Tasks that acquire no lock, on a file that is not there: they create nothing.

use crate::harness::Site;
use crate::home::Home;

/// One of each task that looks or ends something, and what it exits with if nobody ever held a lock.
const LOOKS: [(&str, i32); 8] = [
    ("show k", 1),
    ("show --json k", 1),
    ("ls --all", 0),
    ("ls --marks --all", 0),
    ("ls --held-for 1h --all", 0),
    ("metrics", 0),
    ("forget k", 1),
    ("break k --fence 1", 1),
];

/// Regression: each of them created the file and its directory, and said that the lock was free.
#[test]
fn a_file_that_was_named_and_is_not_there_is_69_and_is_not_created() {
    let site = Site::new();
    let directory = site.path("none");
    let site = Site::on(&format!("file:{}/leases.db", directory.display()));
    for line in LOOKS.map(|(line, _)| line).into_iter().chain(["watch"]) {
        let says = ["there is no file:", "/none/leases.db: check the path"];
        site.outcome(&line.split(' ').collect::<Vec<_>>()).says(69, &[&says[..], &["--store: "]].concat());
        site.line(line).says(69, &[&says[..], &["LEASEHOLD_STORE: "]].concat());
        assert!(!directory.exists(), "{line}");
    }
    // Whoever acquires a lock may be the first.
    site.outcome(&["run", "k", "--", "true"]).silent(0);
    site.outcome(&["show", "-q", "k"]).silent(1);
}

#[test]
fn before_the_first_lock_nothing_is_held_in_the_default_store_and_a_look_does_not_create_it() {
    let site = Site::new();
    let home = Home::of(&site);
    let store = home.path.join(".local/state/leasehold/leases.db");
    let was_there = store.exists();
    for (line, code) in LOOKS {
        let look = site.leasehold(&line.split(' ').collect::<Vec<_>>());
        site.finish(home.live_in(look)).exits_with(code);
        assert_eq!(store.exists(), was_there, "{line}");
    }
}

#[test]
fn of_several_files_a_minority_may_be_missing_and_stays_so() {
    let site = Site::new();
    let [a, b, c] = ["a", "b", "c"].map(|name| site.path(name));
    let url = |path: &std::path::Path| format!("file:{}", path.display());
    let [one, other, third] = [url(&a), url(&b), url(&c)];
    let list = || {
        site.finish(site.leasehold(&["ls", "--all", "--store", &one, "--store", &other, "--store", &third]))
    };
    site.finish(site.leasehold(&["run", "--store", &one, "k", "--", "true"])).silent(0);
    list().says(69, &["--store: there is no ", &other]);
    site.finish(site.leasehold(&["run", "--store", &other, "k", "--", "true"])).silent(0);
    list().exits_with(0);
    assert!(!c.exists());
}

/// Regression: it was the name of a new file, in which every lock was free.
#[test]
fn a_parameter_of_a_file_is_refused_and_a_question_mark_in_its_name_is_encoded() {
    let site = Site::new();
    let with = |store: &str| {
        site.finish(site.leasehold(&[
            "run",
            "--store",
            store,
            "k",
            "--",
            "sh",
            "-c",
            "echo $LEASEHOLD_STORE",
        ]))
    };
    let file = format!("file:{}", site.path("x.db").display());
    with(&format!("{file}?mode=ro")).says(64, &["--store: ", "file: takes no parameters", "%3F"]);
    let name = format!("{file}%3Fmode=ro%25%FF");
    with(&name).prints(0, &format!("{name}\n"));
    let names = std::fs::read_dir(site.path(".")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(names.into_iter().any(|name| name.as_encoded_bytes() == b"x.db?mode=ro%\xff"));
}
