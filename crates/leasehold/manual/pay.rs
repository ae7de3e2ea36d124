use leasehold::Fence;
use tokio_postgres::{Client, Error};

/// Whether it was written: not if somebody with a greater fence was here before.
async fn pay(db: &Client, invoice: i64, amount: i64, fence: Fence) -> Result<bool, Error> {
    let update = "UPDATE invoice SET paid = paid + $2, fence = $3 WHERE id = $1 AND fence <= $3";
    Ok(db.execute(update, &[&invoice, &amount, &i64::from(fence)]).await? == 1)
}
