use leasehold::Fence;
use tokio_postgres::{Client, Error};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS fence (resource text PRIMARY KEY, seen bigint NOT NULL)";

const SEE: &str = "INSERT INTO fence VALUES ($1, $2)
    ON CONFLICT (resource) DO UPDATE SET seen = excluded.seen WHERE fence.seen <= excluded.seen";

/// Runs a statement if nobody with a greater fence was here before; says whether it did.
async fn fenced(db: &mut Client, resource: &str, fence: Fence, statement: &str) -> Result<bool, Error> {
    let transaction = db.transaction().await?;
    if transaction.execute(SEE, &[&resource, &i64::from(fence)]).await? == 0 {
        return Ok(false);                               // dropped: nothing was done
    }
    transaction.batch_execute(statement).await?;
    transaction.commit().await?;
    Ok(true)
}
