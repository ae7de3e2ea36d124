//! The programs of `crates/leasehold/examples`, each run unchanged on each store that it supports. They
//! are compiled into these tests (by `build.rs`), each of which runs itself again as the example alone.

use std::process::Command;

use servers::{Flavor, Postgres, Server};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// The environment variable that tells a test to be the example.
const AS_EXAMPLE: &str = "LEASEHOLD_TEST_AS_EXAMPLE";

/// The store of an example, which reads the same variable as `leasehold`.
const STORE: &str = "LEASEHOLD_STORE";

/// The output of this test's example, line by line, with this store.
fn said(test: &str, store: Option<&str>) -> Vec<String> {
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args([test, "--exact", "--nocapture", "--test-threads=2"]).env(AS_EXAMPLE, "1").env_remove(STORE);
    again.envs(store.map(|store| (STORE, store)));
    let output = again.output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "on {store:?}: {said}{errors}");
    let is_said =
        |line: &&str| !line.is_empty() && !line.starts_with("running ") && !line.starts_with("test ");
    said.lines().filter(is_said).map(ToString::to_string).collect()
}

fn on_every_store(test: &str, check: impl Fn(&[String])) {
    check(&said(test, None));
    let directory = TempDir::with_prefix("leasehold-").unwrap();
    check(&said(test, Some(&format!("file:{}", directory.path().join("leases.db").display()))));
    let server = Server::start(Flavor::Valkey91);
    check(&said(test, Some(&server.url())));
}

fn on(server: &Server, test: &str) -> Vec<String> {
    said(test, Some(&server.url()))
}

/// Defines the test of an example, which is the example itself when it is run as such.
macro_rules! example {
    ($name:ident, $check:expr) => {
        mod $name {
            use super::*;

            mod program {
                include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));

                pub(super) fn run() {
                    main().unwrap();
                }
            }

            #[test]
            fn says_what_it_should() {
                if std::env::var_os(AS_EXAMPLE).is_some() {
                    return program::run();
                }
                let check: fn(&str) = $check;
                check(concat!("examples::", stringify!($name), "::says_what_it_should"));
            }
        }
    };
}

example!(checked_write, |test| {
    let server = Postgres::start();
    let made = Runtime::new().unwrap().block_on(leasehold::postgres::init(&server.url()));
    assert_eq!(made, Ok(leasehold::postgres::InitOutcome::Created));
    assert_eq!(said(test, Some(&server.url())), ["charged invoice 42"]);
});

example!(job, |test| on_every_store(test, |said| {
    let expected =
        ["invoice 42: charged", "invoice 42: charged", "invoice 42: refused, somebody was here since"];
    assert_eq!(said, expected);
}));

example!(service, |test| on_every_store(test, |said| {
    assert_eq!(said[0], "first: serving");
    assert!(said[1].starts_with("second: not started: billing: not free within "), "{said:?}");
    assert!(said[1].contains(", held by first"), "{said:?}");
    assert_eq!(said[2..], ["first: stopped, because the lock was lost: billing: somebody broke the lease"]);
}));

example!(readers_and_writer, |test| on_every_store(test, |said| {
    let expected =
        ["two read", "a writer may come in: false", "a writer writes alone", "a reader may come in: false"];
    assert_eq!(said, expected);
}));

example!(transfer, |test| on_every_store(test, |said| {
    let [first, second, third] = said else { panic!("{said:?}") };
    assert_eq!(first, "accepted");
    assert!(second.starts_with("finished by"), "{said:?}");
    assert!(third.starts_with("not mine: upload:7: the store has the lease no more"), "{said:?}");
}));

example!(permits, |test| on_every_store(test, |said| {
    assert_eq!(said, ["10 jobs ran", "never more than four at a time: true"]);
}));

example!(once_and_every, |test| on_every_store(test, |said| {
    assert_eq!(said[..2], ["first: migrated 17 tables", "first: reported"]);
    assert_eq!(said[2..], ["second: was migrated", "second: no report is due", "true", "true"]);
}));

example!(election, |test| on_every_store(test, |said| {
    assert!(said[0].starts_with("leads: a"), "{said:?}");
    assert_eq!(said[1..], ["would lead next: b", "b leads, with a greater fence: true"]);
}));

example!(blocking, |test| on_every_store(test, |said| {
    assert!(said[0].starts_with("printer: not free within "), "{said:?}");
    assert!(said[0].contains(", held by main"), "{said:?}");
    assert_eq!(said[1..], ["printed one after the other: true"]);
}));

example!(quorum, |test| {
    let said = said(test, None);
    assert_eq!(said[..2], ["granted by two of three", "to others: false"]);
    let [words] = &said[2..] else { panic!("{said:?}") };
    assert!(words.starts_with("invoice:42: ") && words.ends_with("; 2 needed"), "{said:?}");
    assert!(words.contains("redis://127.0.0.1:2: cannot connect"), "{said:?}");
});

example!(testing, |test| {
    let said = said(test, None);
    assert_eq!(said[0], "an hour later: working");
    assert_eq!(said[1], "stopped, because the lock was lost: job: somebody broke the lease");
    assert!(said[2].contains("could not be renewed: memory:: timed out"), "{said:?}");
    assert!(said[3].starts_with("36") && said[3].ends_with("s of its time"), "{said:?}");
});

example!(paused_clock, |test| {
    let said = said(test, None);
    assert_eq!(said[0], "imported 60 files");
    assert!(said[1].starts_with("in 3600"), "{said:?}");
    assert!(said[2].starts_with("stopped, because the lock was lost: the lease ended"), "{said:?}");
    assert!(said[3].starts_with("after 30"), "{said:?}");
});

example!(causes, |test| {
    let server = Server::setup(Flavor::Redis82).password("right").start();
    let wrong = server.url().replace("redis://", "redis://:wrong@");
    assert_eq!(said(test, Some(&wrong)), ["start the server", "correct the password"]);
});

example!(reload, |test| on_every_store(test, |said| {
    assert_eq!(said[..2], ["written by one", "others read now: false"]);
    assert_eq!(said[2..4], ["read by the one that wrote it", "read by another"]);
    assert_eq!(said[4..], ["others write now: false", "and then: true"]);
}));

example!(lent_client, |test| {
    let said = on(&Server::start(Flavor::Valkey91), test);
    assert_eq!(said[..2], ["redis (lent): mine", "free for others: false"]);
    assert_eq!(said[2..], ["the client is still the program's: PONG"]);
});

example!(lent_connection, |test| {
    let said = on(&Server::start(Flavor::Redis82), test);
    assert_eq!(said[..2], ["redis (lent): mine", "free for others: false"]);
    assert_eq!(said[2..], ["the connection is still the program's: PONG"]);
});

example!(lent_pool, |test| {
    assert_eq!(on(&Server::start(Flavor::Valkey91), test), ["redis (lent): mine", "still mine: true"]);
});

example!(own_store, |test| {
    assert_eq!(said(test, None), ["free for others: false", "free for others: true"]);
});

/// An example that nobody runs may not work. One of a store, with ten methods, may be longer.
#[test]
fn every_example_is_run_here_and_fits_on_a_page() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/leasehold/examples");
    let tests = include_str!("examples.rs");
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(tests.contains(&format!("example!({name}, |test|")), "{name} is not run");
        let most = if name == "own_store" { 240 } else { 40 };
        assert!(std::fs::read_to_string(&path).unwrap().lines().count() < most, "{name} is too long");
    }
}
