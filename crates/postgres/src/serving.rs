//! Serves requests on a connection of the caller: for tests that compare the tables with
//! [`leasehold_core::apply`].

use std::time::Duration;

use leasehold_core::{Contended, Instant, Request, Served, Stamp};
use tokio_postgres::Client;

use crate::quick::{Answered, Quick};
use crate::transaction::Scope;
use crate::transaction_error::TransactionError;

/// How long a transaction of a test may take: longer than any that is not stuck.
const LIMIT: Duration = Duration::from_secs(20);

/// Serves requests exactly as the store does: quickly those that are not contended, and the others
/// in one transaction.
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
    let quick = Quick::among(requests, &Contended::default(), Instant::from_nanos(0));
    let in_time = Stamp::from_micros(i64::MAX.unsigned_abs());
    let Answered { answers, error, .. } = quick.serve(client, &scope.sql, &scope.lock_timeout, in_time).await;
    let mut served = Answered::in_order(answers, requests.len());
    let rest = served.iter().zip(requests).filter(|(served, _)| served.is_none());
    let rest: Vec<&Request> = rest.map(|(_, request)| *request).collect();
    let done = match error {
        Some(error) => Err(error),
        None if rest.is_empty() => return Ok(served.into_iter().flatten().collect()),
        None => scope.serve(client, &rest, false).await,
    };
    match done {
        Ok(done) => {
            let left = served.iter_mut().filter(|served| served.is_none());
            left.zip(done.served).for_each(|(left, served)| *left = Some(served));
            Ok(served.into_iter().flatten().collect())
        }
        Err(TransactionError::Client(error)) => Err(format!("{error:?}")),
        Err(TransactionError::Damaged(what)) => Err(what),
        Err(TransactionError::Silent) => Err("no answer".into()),
    }
}
