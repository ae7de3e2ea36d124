//! Inspecting keys and listing them.

use leasehold_core::{BoxFuture, Fault, InspectStore, Key, KeyState, Notices, Request};
use tokio_postgres::types::Type;

use super::{PostgresStore, read};
use crate::sql::Sql;
use crate::table::row::Columns;
use crate::transaction_error::TransactionError;

impl InspectStore for PostgresStore {
    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<KeyState, Fault>> {
        Box::pin(self.serve_one(Request::Inspect(key.clone()), self.call_limit(), read!(Inspect)))
    }

    /// A thousand keys at a time; each thousand shows one moment.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<KeyState>, Fault>> {
        Box::pin(async move {
            let mut states = Vec::new();
            let mut page = Some(Page::first(prefix));
            while let Some(this) = page {
                let (keys, next) =
                    self.page(this, |sql| &sql.keys_in_use, |row| row.key(0), |key| key).await?;
                let seen = self.inspect_all(&keys).await?;
                let is_used = |state: &KeyState| !state.holders.is_empty() || !state.waiters.is_empty();
                states.extend(seen.into_iter().filter(is_used));
                page = next;
            }
            Ok(states)
        })
    }

    fn inspect_all<'a>(&'a self, keys: &'a [Key]) -> BoxFuture<'a, Result<Vec<KeyState>, Fault>> {
        Box::pin(async move {
            let requests = keys.iter().cloned().map(Request::Inspect).collect();
            let limit = 10 * self.call_limit();
            self.serve_each(requests, limit, read!(Inspect)).await.into_iter().collect()
        })
    }

    /// Received while the connection of the requests is up; otherwise a holder finds out at its
    /// next renewal.
    fn notices(&self) -> Option<Box<dyn Notices>> {
        Some(self.push_monitor.read(&self.inner))
    }
}

/// A part of the keys with a prefix.
#[derive(Debug)]
pub(super) struct Page {
    from: Vec<u8>,
    with_first: bool,
    /// The upper bound of all keys with the prefix.
    end: Option<Vec<u8>>,
}

impl Page {
    const ROWS: i64 = 1000;

    /// All keys with the prefix are adjacent, from the prefix itself to the successor of its last
    /// byte.
    pub(super) fn first(prefix: &[u8]) -> Self {
        Self { from: prefix.to_vec(), with_first: true, end: end_of(prefix) }
    }
}

impl PostgresStore {
    /// Reads a page in the order of its keys, and returns the beginning of the next one.
    pub(super) async fn page<T: Send + 'static>(
        &self,
        page: Page,
        statement: fn(&Sql) -> &str,
        read: fn(&Columns<'_>) -> Result<T, TransactionError>,
        key: fn(&T) -> &Key,
    ) -> Result<(Vec<T>, Option<Page>), Fault> {
        self.work(10 * self.call_limit(), move |client, inner| {
            Box::pin(async move {
                let parameters = [
                    (&page.from as _, Type::BYTEA),
                    (&page.with_first as _, Type::BOOL),
                    (&page.end as _, Type::BYTEA),
                    (&Page::ROWS as _, Type::INT8),
                ];
                let rows = client.query_typed(statement(&inner.scope.sql), &parameters).await?;
                let read: Vec<T> =
                    rows.iter().map(|row| read(&Columns(row))).collect::<Result<_, TransactionError>>()?;
                let is_full = i64::try_from(read.len()).is_ok_and(|rows| rows >= Page::ROWS);
                let next = read.last().filter(|_| is_full).map(|last| Page {
                    from: key(last).as_bytes().to_vec(),
                    with_first: false,
                    end: page.end.clone(),
                });
                Ok((read, next))
            })
        })
        .await
    }

    /// All pages.
    pub(super) async fn pages<T: Send + 'static>(
        &self,
        prefix: &[u8],
        statement: fn(&Sql) -> &str,
        read: fn(&Columns<'_>) -> Result<T, TransactionError>,
        key: fn(&T) -> &Key,
    ) -> Result<Vec<T>, Fault> {
        let mut all = Vec::new();
        let mut page = Some(Page::first(prefix));
        while let Some(this) = page {
            let (read, next) = self.page(this, statement, read, key).await?;
            all.extend(read);
            page = next;
        }
        Ok(all)
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
