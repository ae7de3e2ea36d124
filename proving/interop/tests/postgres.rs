//! The manual's writes to PostgreSQL, against a real one: what comes late does nothing.

use std::time::Duration;

use leasehold::{Fence, Locks};
use servers::Postgres;
use tokio_postgres::{Client, NoTls};

mod pay {
    include!("../../../crates/leasehold/manual/pay.rs");
    pub(crate) async fn invoice(db: &Client, id: i64, amount: i64, fence: Fence) -> bool {
        pay(db, id, amount, fence).await.unwrap()
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
    assert!(pay::invoice(&db, 42, 10, late).await, "nobody was here before");
    assert!(pay::invoice(&db, 42, 100, next).await);
    assert!(pay::invoice(&db, 42, 1000, next).await, "one holder writes more than once");
    assert!(!pay::invoice(&db, 42, 10_000, late).await, "too late");
    let paid: i64 = db.query_one("SELECT paid FROM invoice", &[]).await.unwrap().get(0);
    assert_eq!(paid, 1110);

    assert!(fenced::set(&mut db, next, "UPDATE invoice SET paid = 1").await);
    assert!(!fenced::set(&mut db, late, "UPDATE invoice SET paid = 2").await, "too late");
    let paid: i64 = db.query_one("SELECT paid FROM invoice", &[]).await.unwrap().get(0);
    assert_eq!(paid, 1);
}

/// A greater fence waits for a smaller one that is at it, and then what is smaller is refused: there is no gap between look and write.
#[tokio::test]
async fn who_is_at_it_holds_up_the_next_and_nobody_slips_in_between() {
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
    assert!(first_steps.contains(include_str!("../../../crates/leasehold/manual/pay.rs")));
    let fences = include_str!("../../../crates/leasehold/manual/fences.md");
    assert!(fences.contains(include_str!("../../../crates/leasehold/manual/fenced.rs")));
}
