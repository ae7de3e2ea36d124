use std::env;

use leasehold::{Fence, Locks};
use tokio_postgres::{Client, Error, NoTls};

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS invoice (id bigint PRIMARY KEY, paid bigint NOT NULL, fence bigint NOT NULL DEFAULT 0);
    INSERT INTO invoice VALUES (42, 0) ON CONFLICT DO NOTHING";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = env::var("DATABASE_URL").unwrap_or_else(|_| "postgres://postgres@127.0.0.1".into());
    let (db, connection) = tokio_postgres::connect(&database, NoTls).await?;
    tokio::spawn(connection);                           // sends and receives
    db.batch_execute(TABLE).await?;

    let store = env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "file:~/payer/leases.db".into());
    let locks = Locks::connect(&store).await?;
    let paying = locks.mutex("invoice:42").lock().hold(async |held| pay(&db, 42, 10, held.fence()).await);
    if paying.await?? {
        println!("invoice 42: paid");
    } else {
        println!("invoice 42: refused, somebody was here since");
    }
    Ok(())
}

/// Returns false if a write with a greater fence was here before.
async fn pay(db: &Client, invoice: i64, amount: i64, fence: Fence) -> Result<bool, Error> {
    let update = "UPDATE invoice SET paid = paid + $2, fence = $3 WHERE id = $1 AND fence <= $3";
    Ok(db.execute(update, &[&invoice, &amount, &i64::from(fence)]).await? == 1)
}
