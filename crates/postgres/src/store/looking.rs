//! Inspecting keys and listing them.

use leasehold_core::{Fault, InspectStore, Key, KeyState, Notices, Request, StoreFuture};
use tokio_postgres::types::Type;

use super::{PostgresStore, read};
use crate::sql::Sql;
use crate::table::row::Columns;
use crate::transaction_error::TransactionError;

impl InspectStore for PostgresStore {
    fn inspect<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, KeyState> {
        Box::pin(self.serve_one(Request::Inspect(key.clone()), self.call_limit(), read!(Inspect)))
    }

    /// A thousand keys at a time; each thousand shows one moment.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<KeyState>> {
        Box::pin(async move {
            let keys = self.pages(prefix, |sql| &sql.keys_in_use, |row| row.key(0), |key| key).await?;
            let mut states = Vec::new();
            for page in keys.chunks(PAGE) {
                states.extend(self.inspect_all(page).await?.into_iter().filter(KeyState::is_in_use));
            }
            Ok(states)
        })
    }

    fn inspect_all<'a>(&'a self, keys: &'a [Key]) -> StoreFuture<'a, Vec<KeyState>> {
        Box::pin(async move {
            let requests = keys.iter().cloned().map(Request::Inspect).collect();
            let limit = 10 * self.call_limit();
            self.serve_each(requests, limit, read!(Inspect)).await.into_iter().collect()
        })
    }

    /// Received while the connection of the requests is up; otherwise a holder finds out at its
    /// next renewal.
    fn notices(&self) -> Option<Box<dyn Notices>> {
        Some(self.inner.push_monitor.read())
    }
}

/// The number of rows that are read at once.
const PAGE: usize = 1000;

impl PostgresStore {
    /// Reads the rows of all keys with a prefix in the order of the keys, a page at a time. These
    /// keys are adjacent, from the prefix itself to the successor of its last byte.
    pub(super) async fn pages<T: Send + 'static>(
        &self,
        prefix: &[u8],
        statement: fn(&Sql) -> &str,
        read: fn(&Columns<'_>) -> Result<T, TransactionError>,
        key: fn(&T) -> &Key,
    ) -> Result<Vec<T>, Fault> {
        let mut all: Vec<T> = Vec::new();
        loop {
            let with_first = all.is_empty();
            let from = all.last().map_or(prefix, |last| key(last).as_bytes()).to_vec();
            let end = end_of(prefix);
            let reading = self.work(10 * self.call_limit(), move |client, inner| {
                Box::pin(async move {
                    let parameters = [
                        (&from as _, Type::BYTEA),
                        (&with_first as _, Type::BOOL),
                        (&end as _, Type::BYTEA),
                        (&(PAGE as i64) as _, Type::INT8),
                    ];
                    let rows = inner.scope.rows(client, statement(&inner.scope.sql), &parameters).await?;
                    rows.iter().map(|row| read(&Columns(row))).collect::<Result<Vec<T>, _>>()
                })
            });
            let page = reading.await?;
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }
}

/// The upper bound of all keys with a prefix; `None` if there is none.
fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let at = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix.get(..=at)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn the_range_of_a_prefix_ends_before_the_next_prefix() {
        assert_eq!(end_of(b"a"), Some(b"b".to_vec()));
        assert_eq!(end_of(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(end_of(b"\xff"), None);
        assert_eq!(end_of(b""), None);
    }
}
