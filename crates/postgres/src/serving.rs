//! Serves requests on a connection of the caller: for tests that compare the tables with
//! [`leasehold_core::apply`].

use std::time::Duration;

use leasehold_core::{Request, Served};
use tokio_postgres::Client;

use crate::transaction::Scope;
use crate::transaction_error::TransactionError;

/// How long a transaction of a test may take: longer than any that is not stuck.
const LIMIT: Duration = Duration::from_secs(20);

/// Serves requests in one transaction, exactly as the store does.
///
/// # Errors
///
/// Why the transaction failed; it was rolled back.
pub async fn serve(
    client: &Client,
    schema: &str,
    requests: &[&Request],
    window: Duration,
) -> Result<Vec<Served>, String> {
    match Scope::new(schema, LIMIT, window).serve(client, requests, false).await {
        Ok(done) => Ok(done.served),
        Err(TransactionError::Client(error)) => Err(format!("{error:?}")),
        Err(TransactionError::Damaged(what)) => Err(what),
        Err(TransactionError::Silent) => Err("no answer".into()),
    }
}
