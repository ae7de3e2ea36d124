//! Serves requests on a connection of the caller: for tests that compare the tables with
//! [`leasehold_core::apply`].

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{Request, Served, Stamp};
use tokio_postgres::Client;

use crate::fault::TransactionError;
use crate::quick::{Answered, Quick};
use crate::transaction::{RowWait, Scope};

/// How long a transaction of a test may take: longer than any that is not stuck.
const LIMIT: Duration = Duration::from_secs(20);

/// Serves requests exactly as the store does: quickly those that can be, and the others in one
/// transaction.
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
    let scope = Scope::new(schema, LIMIT, window);
    let in_time = Stamp::from_micros(i64::MAX.unsigned_abs());
    let Answered { served, error, .. } = Quick::among(requests).serve(client, &scope, in_time, None).await;
    let mut served: BTreeMap<_, _> = served.into_iter().map(|(nth, (served, _))| (nth, served)).collect();
    let rest: Vec<usize> = (0..requests.len()).filter(|nth| !served.contains_key(nth)).collect();
    let left: Vec<&Request> = rest.iter().map(|nth| requests[*nth]).collect();
    let done = match error {
        Some(error) => Err(error),
        None if left.is_empty() => return Ok(served.into_values().collect()),
        None => scope.serve(client, &left, RowWait::Long).await,
    };
    match done {
        Ok(done) => {
            served.extend(rest.into_iter().zip(done.served));
            Ok(served.into_values().collect())
        }
        Err(TransactionError::Client(error)) => Err(format!("{error:?}")),
        Err(TransactionError::Damaged(what)) => Err(what),
        Err(TransactionError::Silent) => Err("no answer".into()),
    }
}
