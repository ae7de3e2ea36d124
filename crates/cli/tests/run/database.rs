//! Locks in a PostgreSQL database.

use std::process::Command;

use servers::Postgres;

use crate::harness::{Site, until};
use crate::shell::{in_shell, path};

/// A database with the tables, and a site that uses it.
pub(crate) fn ready() -> (Postgres, Site) {
    let server = Postgres::start();
    let site = Site::on(&server.url());
    site.outcome(&["init"]);
    (server, site)
}

/// Runs SQL by psql, and returns its output, or its error.
pub(crate) fn sql(url: &str, sql: &str) -> Result<String, String> {
    let mut psql = Command::new(Postgres::programs().unwrap().join("psql"));
    let done = psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql]).output().unwrap();
    let said = if done.status.success() { Ok(done.stdout) } else { Err(done.stderr) };
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().trim().to_owned();
    said.map(text).map_err(text)
}

#[test]
fn a_database_is_made_ready_once_and_a_run_before_that_says_how() {
    let server = Postgres::start();
    let site = Site::on(&server.url());
    site.finish(site.run(&["-n", "k", "--", "true"])).says(69, &["leasehold init --store"]);
    for _ in 0..2 {
        assert_eq!(site.outcome(&["init"]).out.trim(), server.url());
    }
    site.finish(site.run(&["k", "--", "true"])).silent(0);
}

/// With exactly the grants of the page.
#[test]
fn the_grants_of_the_page_suffice() {
    const PAGE: &str = include_str!("../../../../docs/postgres.md");
    let server = Postgres::start();
    let site = Site::on(&server.url().replace("postgres@", "web@"));
    site.finish(site.leasehold(&["init", "--store", &server.url()]));
    let grants = PAGE.split("```sql").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let by_writer = |text: &str| sql(&server.url().replace("postgres@", "writer@"), text);
    sql(&server.url(), "CREATE ROLE web LOGIN; CREATE ROLE writer LOGIN").unwrap();
    site.finish(site.run(&["-n", "k", "--", "true"])).says(69, &["permission denied"]);
    sql(&server.url(), grants).unwrap();
    sql(&server.url(), "GRANT USAGE ON SCHEMA leasehold TO writer").unwrap();

    let holder = site.holder(&["k"]);
    let fence = site.read("fence");
    // A waiter queues, and is notified.
    let waiter = site.start(site.run(&["k", "--", "true"]));
    site.wait_for_waiters(1);
    // The views for people.
    let views = PAGE.split('`').find(|text| text.starts_with("GRANT SELECT ON leasehold.held")).unwrap();
    let by_people = |view: &str| {
        let url = server.url().replace("postgres@", "ops@");
        sql(&url, &format!("SELECT key FROM leasehold.{view}"))
    };
    sql(&server.url(), "CREATE ROLE ops LOGIN; GRANT USAGE ON SCHEMA leasehold TO ops").unwrap();
    assert!(by_people("held").is_err());
    sql(&server.url(), views).unwrap();
    assert_eq!(["held", "waiting"].map(|view| by_people(view).unwrap()), ["k", "k"]);
    by_writer(&format!("SELECT leasehold.check('k', {fence})")).unwrap();
    let refused = by_writer(&format!("SELECT leasehold.check('k', {fence} - 1)")).unwrap_err();
    assert!(refused.contains("is not held under fence"), "{refused}");
    assert!(by_writer("SELECT * FROM leasehold.lease").is_err());
    drop(holder);
    waiter.finish().exits_with(0);
    site.outcome(&["every", "1h", "report", "--", "true"]).silent(0);
}

/// The script of the page pays under the lock; later, with the fence of that lock, it does not.
#[test]
fn the_script_of_the_page_pays_only_under_its_lock() {
    const PAGE: &str = include_str!("../../../../docs/postgres.md");
    let (server, site) = ready();
    let script = PAGE.split("```sh\n").find(|block| block.starts_with("cat >pay.sh")).unwrap();
    let script = script.split("```").next().unwrap();
    let programs = Postgres::programs().unwrap();
    let shell = |script: &str, fence: &str| {
        let mut shell = in_shell(&site, "sh", &["-c", script]);
        shell.env("PATH", format!("{}:{}", programs.display(), path())).env("LEASEHOLD_FENCE", fence);
        site.finish(shell)
    };
    let sql = |text: &str| sql(&server.url(), text).unwrap();
    sql("CREATE TABLE account AS SELECT 1 AS id, 100 AS balance");
    shell(script, "").exits_with(0);
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
    let printed = site.outcome(&["init", "--print-sql"]).silent(0);
    assert_eq!(site.line("init --print-sql").silent(0).out, printed.out, "the environment names the store");
    sql(&server.url(), &printed.out).unwrap();
    site.finish(site.run(&["k", "--", "true"])).silent(0);
    assert_eq!(site.outcome(&["init"]).out.trim(), url);
    assert_eq!(site.line("init").out.trim(), url);
}

/// Regression: it was reported as an outage.
#[test]
fn a_lock_whose_holder_is_in_a_checked_transaction_is_busy() {
    let (server, site) = ready();
    let holder = site.holder(&["k"]);
    let psql = Postgres::programs().unwrap().join("psql");
    let checked = format!("BEGIN; SELECT leasehold.check('k', {}); SELECT pg_sleep(60)", site.read("fence"));
    let writer = site.start(site.process(psql, &["-Xq", "-d", &server.url(), "-c", &checked]));
    let works = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    until("the transaction works", || sql(&server.url(), works).unwrap() != "0");
    site.finish(site.run(&["-n", "k", "--", "true"])).says(75, &["held by"]);
    site.finish(site.run(&["-w", "1", "k", "--", "true"])).says(75, &["held by"]);
    // Its holder does the job.
    site.outcome(&["every", "1h", "k", "--", "false"]).silent(0);
    drop((writer, holder));
}

/// Regression: it also advised to see that the server runs and can be reached.
#[test]
fn a_table_that_another_transaction_locks_is_reported_with_one_remedy() {
    let (server, site) = ready();
    let psql = Postgres::programs().unwrap().join("psql");
    let locking = "BEGIN; LOCK leasehold.lease; SELECT pg_sleep(60)";
    let locking = site.start(site.process(psql, &["-Xq", "-d", &server.url(), "-c", locking]));
    let locked = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted";
    until("the table is locked", || sql(&server.url(), locked).unwrap() != "0");
    let refused = site.finish(site.run(&["-n", "k", "--", "true"])).says(69, &["pg_stat_activity"]);
    assert!(!refused.err.contains("--store"), "{}", refused.err);
    drop(locking);
}
