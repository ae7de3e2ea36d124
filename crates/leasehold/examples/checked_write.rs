//! A write whose own transaction checks the lock, so that a writer that lost it cannot commit.
//!
//! ```sh
//! export LEASEHOLD_STORE=postgres://postgres@127.0.0.1/app
//! leasehold init --store $LEASEHOLD_STORE
//! cargo run --features postgres --example checked_write
//! ```

use std::{error::Error, time::Duration};

use leasehold::{Guard, Locks};
use tokio_postgres::{Client, NoTls};

#[tokio::main]
#[allow(clippy::disallowed_methods, reason = "a program, and not the library")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("LEASEHOLD_STORE")?;
    let (mut db, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    db.batch_execute("CREATE TABLE IF NOT EXISTS invoice (id int PRIMARY KEY, charged int NOT NULL)").await?;

    let locks = Locks::connect(&url).await?;
    let guard = locks.mutex("invoice:42").lock().within(Duration::from_secs(5)).await?;
    charge(&mut db, &guard, 42).await?;
    guard.release().await?;
    Ok(())
}

async fn charge(db: &mut Client, guard: &Guard, invoice: i32) -> Result<(), Box<dyn Error>> {
    let write =
        "INSERT INTO invoice VALUES ($1, 1) ON CONFLICT (id) DO UPDATE SET charged = invoice.charged + 1";
    let transaction = db.transaction().await?;
    transaction.execute(write, &[&invoice]).await?;
    // Until the commit, nobody else is granted the lock. A holder that lost it gets an error here.
    guard.check(&transaction).await?;
    transaction.commit().await?;
    println!("charged invoice {invoice}");
    Ok(())
}
