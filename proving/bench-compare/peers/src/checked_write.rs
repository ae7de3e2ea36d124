//! Checked writes through other drivers of PostgreSQL. docs/postgres.md has the marked lines, too.

use competitor::AnyError;
use diesel::sql_types::{BigInt, Text};
use diesel_async::{AsyncConnection as _, AsyncPgConnection, RunQueryDsl as _, SimpleAsyncConnection as _};
use sqlx::{Connection as _, PgConnection};

const WRITE: &str = "INSERT INTO written (by) VALUES ('driver')";

/// Writes one row under the lock `account:1` with this fence, or nothing.
pub(crate) async fn write(driver: &str, url: &str, fence: i64) -> Result<(), AnyError> {
    match driver {
        "sqlx" => by_sqlx(url, fence).await,
        "diesel" => by_diesel(url, fence).await,
        other => Err(format!("unknown driver {other}: use sqlx or diesel").into()),
    }
}

async fn by_sqlx(url: &str, fence: i64) -> Result<(), AnyError> {
    let mut db = PgConnection::connect(url).await?;
    let mut transaction = db.begin().await?;
    sqlx::query(WRITE).execute(&mut *transaction).await?;
    // As in docs/postgres.md.
    let check = "SELECT leasehold.check($1, $2)";
    sqlx::query(check).bind("account:1").bind(fence).execute(&mut *transaction).await?;
    Ok(transaction.commit().await?)
}

async fn by_diesel(url: &str, fence: i64) -> Result<(), AnyError> {
    let mut db = AsyncPgConnection::establish(url).await?;
    let db = &mut db;
    db.batch_execute("BEGIN").await?;
    diesel::sql_query(WRITE).execute(db).await?;
    // As in docs/postgres.md.
    let check = "SELECT leasehold.check($1, $2)";
    diesel::sql_query(check).bind::<Text, _>("account:1").bind::<BigInt, _>(fence).execute(db).await?;
    Ok(db.batch_execute("COMMIT").await?)
}
