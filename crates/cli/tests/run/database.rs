//! Locks in a PostgreSQL database.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use servers::Postgres;

use crate::harness::Site;

/// A database with the tables, and a site that uses it.
pub(crate) fn ready() -> (Postgres, Site) {
    let server = Postgres::start();
    let site = Site::on(&server.url());
    site.finish(site.leasehold(&["init", "--store", site.store()]));
    (server, site)
}

#[test]
fn a_database_is_made_ready_once_and_then_has_locks_as_any_other_store() {
    let server = Postgres::start();
    let site = Site::on(&server.url());
    let task = |words: &[&str]| {
        let mut command = site.leasehold(&[words[0], "--store", site.store()]);
        command.args(&words[1..]);
        site.finish(command)
    };
    site.finish(site.run(&["-n", "k", "--", "true"])).says(69, &["leasehold init --store"]);
    for _ in 0..2 {
        assert_eq!(task(&["init"]).out.trim(), server.url());
    }
    site.finish(site.run(&["k", "--", "true"])).is_silent(0);

    let holder = site.start(site.run_script(&["deploy"], "echo $LEASEHOLD_FENCE > fence; exec sleep 60"));
    let fence = site.wait_for("fence");
    site.finish(site.run(&["-n", "deploy", "--", "true"])).says(75, &["deploy: ", "held by"]);
    let shown: Value = serde_json::from_str(task(&["show", "--json", "deploy"]).out.trim()).unwrap();
    assert_eq!(shown["holders"][0]["fence"].to_string(), fence, "{shown}");
    assert!(task(&["ls", "--all"]).out.contains("deploy"));
    task(&["break", "deploy", "--fence", &fence, "--reason", "a test"]);
    // The holder finds out by its renewal or a notification.
    assert_eq!(holder.finish().status.code(), Some(70));
    assert!(task(&["show", "deploy"]).out.contains("a test"));

    task(&["every", "1h", "report", "--", "true"]).is_silent(0);
    assert!(task(&["ls", "--marks", "--all"]).out.contains("report"));
    task(&["forget", "report"]);
    assert!(!task(&["ls", "--marks", "--all"]).out.contains("report"));
}

/// With exactly the grants of the page.
#[test]
fn the_grants_of_the_page_suffice() {
    const PAGE: &str = include_str!("../../../../docs/postgres.md");
    let server = Postgres::start();
    let site = Site::on(&server.url().replace("postgres@", "web@"));
    site.finish(site.leasehold(&["init", "--store", &server.url()]));
    let grants = PAGE.split("```sql").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let sql = |user: &str, sql: &str| {
        let url = server.url().replace("postgres@", &format!("{user}@"));
        let done = Command::new(Postgres::programs().unwrap().join("psql"))
            .args(["-Xq1", "-v", "ON_ERROR_STOP=1", "-d", &url, "-c", sql])
            .output();
        let done = done.unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    };
    assert!(sql("postgres", "CREATE ROLE web LOGIN; CREATE ROLE writer LOGIN").0);
    site.finish(site.run(&["-n", "k", "--", "true"])).says(69, &["permission denied"]);
    assert_eq!(sql("postgres", grants), (true, String::new()));
    assert!(sql("postgres", "GRANT USAGE ON SCHEMA leasehold TO writer").0);

    let holder = site.start(site.run_script(&["k"], "echo $LEASEHOLD_FENCE > fence; exec sleep 60"));
    let fence = site.wait_for("fence");
    // A waiter queues, and is notified.
    let waiter = site.start(site.run(&["k", "--", "true"]));
    crate::harness::until("a waiter", || {
        let shown = site.leasehold(&["show", "--store", site.store(), "--json", "k"]);
        site.finish(shown).out.contains("waited")
    });
    assert_eq!(sql("writer", &format!("SELECT leasehold.check('k', {fence})")), (true, String::new()));
    let (done, said) = sql("writer", &format!("SELECT leasehold.check('k', {fence} - 1)"));
    assert!(!done && said.contains("is not held under fence"), "{said}");
    assert!(!sql("writer", "SELECT * FROM leasehold.lease").0);
    drop(holder);
    assert_eq!(waiter.finish().status.code(), Some(0));
    let mut every = site.leasehold(&["every", "--store", site.store()]);
    every.args(["1h", "report", "--", "true"]);
    site.finish(every).is_silent(0);
}

/// The script of the page pays under the lock; later, with the fence of that lock, it does not.
#[test]
fn the_script_of_the_page_pays_only_under_its_lock() {
    const PAGE: &str = include_str!("../../../../docs/postgres.md");
    let (server, site) = ready();
    let script = PAGE.split("```sh\n").find(|block| block.starts_with("cat >pay.sh")).unwrap();
    let script = script.split("```").next().unwrap();
    let programs = Postgres::programs().unwrap();
    let leasehold = Path::new(env!("CARGO_BIN_EXE_leasehold")).parent().unwrap().display();
    let path = format!("{leasehold}:{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let shell = |script: &str, fence: &str| {
        let mut shell = site.process("sh", &["-c", script]);
        shell.env("PATH", &path).env("LEASEHOLD_STORE", site.store()).env("LEASEHOLD_FENCE", fence);
        site.finish(shell)
    };
    let sql = |sql: &str| {
        let url = server.url();
        let done = Command::new(programs.join("psql")).args(["-XAtqd", &url, "-c", sql]).output().unwrap();
        assert!(done.status.success(), "{sql}: {done:?}");
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    };
    sql("CREATE TABLE account AS SELECT 1 AS id, 100 AS balance");
    let paid = shell(script, "");
    assert_eq!(paid.status.code(), Some(0), "{paid:?}");
    assert_eq!(sql("SELECT balance FROM account"), "90");
    let late = shell("sh pay.sh", &sql("SELECT fence FROM leasehold.lease"));
    assert!(!late.status.success() && late.err.contains("is not held under fence"), "{late:?}");
    assert_eq!(sql("SELECT balance FROM account"), "90");
}

#[test]
fn the_printed_sql_makes_the_same_tables_by_hand() {
    let server = Postgres::start();
    let url = format!("{}?schema=locks_2", server.url());
    let site = Site::on(&url);
    let sql = site.finish(site.leasehold(&["init", "--store", &url, "--print-sql"]));
    assert_eq!(sql.status.code(), Some(0), "{sql:?}");
    fs::write(site.path("schema.sql"), &sql.out).unwrap();
    let by_hand = Command::new(Postgres::programs().unwrap().join("psql"))
        .args(["-Xq1", "-v", "ON_ERROR_STOP=1", "-d", &server.url(), "-f"])
        .arg(site.path("schema.sql"))
        .stdout(Stdio::null())
        .status();
    assert!(by_hand.unwrap().success());
    site.finish(site.run(&["k", "--", "true"])).is_silent(0);
    assert_eq!(site.finish(site.leasehold(&["init", "--store", &url])).out.trim(), url);
}

#[test]
fn only_a_database_has_tables_to_make() {
    let site = Site::new();
    let init = |words: &[&str]| site.finish(site.leasehold(&[&["init"], words].concat()));
    init(&["--store", "redis://127.0.0.1:1"]).says(64, &["only a PostgreSQL store has tables"]);
    init(&["--store", "postgres://h/app", "somewhere"]).says(64, &["a store URL and a directory"]);
    init(&["--print-sql"]).says(64, &["--store"]);
}
