//! The manual's writes to PostgreSQL, on a real server: a late write does nothing.

use std::env;
use std::process::{Command, Output};
use std::time::Duration;

use interop::Language;
use leasehold::{Fence, Locks, postgres};
use servers::Postgres;
use tokio_postgres::{Client, NoTls};

mod payer {
    include!("../../../crates/leasehold/manual/payer.rs");
    pub(crate) async fn invoice(db: &Client, id: i64, amount: i64, fence: Fence) -> bool {
        pay(db, id, amount, fence).await.unwrap()
    }
    pub(crate) fn run() {
        main().unwrap();
    }
}

mod fenced {
    include!("../../../crates/leasehold/manual/fenced.rs");
    pub(crate) async fn set(db: &mut Client, fence: Fence, statement: &str) -> bool {
        db.batch_execute(TABLE).await.unwrap();
        fenced(db, "report", fence, statement).await.unwrap()
    }
}

async fn connect(server: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.config(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// The fences of a holder whose lease was broken, and of the next one.
async fn two_holders() -> (Fence, Fence) {
    let place = tempfile::tempdir().unwrap();
    let locks = Locks::connect(&format!("file:{}", place.path().join("leases.db").display())).await.unwrap();
    let late = locks.mutex("invoice:42").lock().await.unwrap();
    locks.break_lease("invoice:42", late.fence()).await.unwrap();
    let next = locks.mutex("invoice:42").lock().within(Duration::from_secs(5)).await.unwrap();
    (late.fence(), next.fence())
}

#[tokio::test]
async fn a_write_with_a_fence_is_refused_behind_a_greater_one() {
    let server = Postgres::start();
    let mut db = connect(&server).await;
    let (late, next) = two_holders().await;

    let manual = include_str!("../../../crates/leasehold/manual/first_steps.md");
    let table = manual.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    db.batch_execute(table).await.unwrap();
    db.batch_execute("INSERT INTO invoice VALUES (42, 0)").await.unwrap();
    assert!(payer::invoice(&db, 42, 10, late).await, "nobody was here before");
    assert!(payer::invoice(&db, 42, 100, next).await);
    assert!(payer::invoice(&db, 42, 1000, next).await, "one holder writes more than once");
    assert!(!payer::invoice(&db, 42, 10_000, late).await, "too late");
    let paid: i64 = db.query_one("SELECT paid FROM invoice", &[]).await.unwrap().get(0);
    assert_eq!(paid, 1110);

    assert!(fenced::set(&mut db, next, "UPDATE invoice SET paid = 1").await);
    assert!(!fenced::set(&mut db, late, "UPDATE invoice SET paid = 2").await, "too late");
    let paid: i64 = db.query_one("SELECT paid FROM invoice", &[]).await.unwrap().get(0);
    assert_eq!(paid, 1);
}

/// The environment variable by which the test program runs itself again as the manual's program.
const AS_PAYER: &str = "LEASEHOLD_TEST_AS_PAYER";

/// The manual's first page, from an empty database: pays the invoice, and sees a late write refused.
#[test]
fn the_first_program_of_the_manual_does_what_the_manual_says_of_it() {
    if env::var_os(AS_PAYER).is_some() {
        return payer::run();
    }
    let manual = include_str!("../../../crates/leasehold/manual/first_steps.md");
    let says = |words: &str| manual.split("```sh\n").any(|block| block.contains(&format!("# {words}\n")));
    let server = Postgres::start();
    let place = tempfile::tempdir().unwrap();
    let store = format!("file:{}", place.path().join("leases.db").display());
    let run = || {
        let mut again = Command::new(env::current_exe().unwrap());
        again.args([
            "the_first_program_of_the_manual_does_what_the_manual_says_of_it",
            "--exact",
            "--nocapture",
        ]);
        again.env(AS_PAYER, "1").env("LEASEHOLD_STORE", &store).env("DATABASE_URL", server.config());
        let output = again.current_dir(&place).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let said =
            said.lines().find_map(|line| line.split_once("invoice 42: ")).expect("a word on the invoice").1;
        assert!(says(&format!("invoice 42: {said}")), "{said}");
        said.to_owned()
    };
    let (runtime, paid) = (tokio::runtime::Runtime::new().unwrap(), "SELECT paid FROM invoice WHERE id = 42");
    let paid = async |db: &Client| db.query_one(paid, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(run(), "paid");
    assert_eq!(run(), "paid");
    assert!(place.path().join("leases.db").exists());
    runtime.block_on(async {
        let db = connect(&server).await;
        assert_eq!(paid(&db).await, 20);
        let statement = manual.split("-c '").nth(1).unwrap().split('\'').next().unwrap();
        db.batch_execute(statement).await.unwrap();
    });
    assert_eq!(run(), "refused, somebody was here since");
    runtime.block_on(async { assert_eq!(paid(&connect(&server).await).await, 20) });
}

/// A greater fence waits for a transaction with a smaller one, which is refused after that.
#[tokio::test]
async fn a_process_in_a_transaction_blocks_the_next_and_nobody_slips_in_between() {
    let server = Postgres::start();
    let (mut one, mut other) = (connect(&server).await, connect(&server).await);
    let (late, next) = two_holders().await;
    one.batch_execute("CREATE TABLE trace (n bigint)").await.unwrap();
    assert!(fenced::set(&mut one, late, "INSERT INTO trace VALUES (0)").await);

    let slow = fenced::set(&mut one, late, "SELECT pg_sleep(0.3); INSERT INTO trace VALUES (1)");
    let greater = async {
        let waits = "SELECT 1 FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%' AND state = 'active'";
        while other.query(waits, &[]).await.unwrap().is_empty() {}
        fenced::set(&mut other, next, "INSERT INTO trace VALUES (2)").await
    };
    assert_eq!(tokio::join!(slow, greater), (true, true));
    let trace = one.query("SELECT n FROM trace", &[]).await.unwrap();
    assert_eq!(trace.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [0, 1, 2]);
}

#[test]
fn the_manual_says_what_is_run_here() {
    let first_steps = include_str!("../../../crates/leasehold/manual/first_steps.md");
    assert!(first_steps.contains(include_str!("../../../crates/leasehold/manual/payer.rs")));
    let fences = include_str!("../../../crates/leasehold/manual/fences.md");
    assert!(fences.contains(include_str!("../../../crates/leasehold/manual/fenced.rs")));
}

fn write(driver: &str, url: &str, fence: Fence) -> Output {
    let program = Language::fetched_into().join("rust/release/rust-peers");
    let written = Command::new(&program).args(["write", driver, url, &fence.to_string()]).output();
    written.unwrap_or_else(|why| panic!("{}: {why}; run `cargo xtask peers`", program.display()))
}

#[tokio::test]
async fn a_transaction_of_sqlx_or_diesel_checks_its_fence() {
    let server = Postgres::start();
    let (db, url) = (connect(&server).await, server.url());
    db.batch_execute("CREATE TABLE written (by text NOT NULL)").await.unwrap();
    postgres::init(&url).await.unwrap();
    let locks = Locks::connect(&url).await.unwrap();
    for driver in ["sqlx", "diesel"] {
        let late = locks.mutex("account:1").lock().await.unwrap().fence();
        locks.break_lease("account:1", late).await.unwrap();
        let next = locks.mutex("account:1").lock().await.unwrap();
        let written = write(driver, &url, next.fence());
        assert!(written.status.success(), "{driver}: {written:?}");
        let refused = write(driver, &url, late);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains("is not held under fence"), "{driver}: {said}");
        next.release().await.unwrap();
    }
    let rows: i64 = db.query_one("SELECT count(*) FROM written", &[]).await.unwrap().get(0);
    assert_eq!(rows, 2, "one of each driver");
}

/// Compiled and run as they stand on the page.
#[test]
fn the_page_has_the_lines_of_the_other_drivers() {
    let program = include_str!("../../bench-compare/peers/src/checked_write.rs");
    let page = include_str!("../../../docs/postgres.md");
    let lines: Vec<_> = page.lines().filter(|line| line.contains("(check).bind")).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in lines {
        assert!(program.contains(line), "{line}");
    }
}
