//! Keys, marks and breaks: inspected, listed, written and ended.

use std::time::Duration;

use leasehold_core::{
    AdminStore, Attempt, BoxFuture, BreakAnswer, BreakRecord, Diagnosis, Fault, HoldAnswer, InspectStore,
    Key, KeyState, LeaseBreak, Mark, MarkStore, Marked, Notices, Request, StoreFuture, StoreRole,
    read_answer,
};
use tokio_postgres::types::Type;

use super::PostgresStore;
use crate::fault::TransactionError;
use crate::sql::Sql;
use crate::table;
use crate::table::row::Columns;

impl InspectStore for PostgresStore {
    fn inspect<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, KeyState> {
        Box::pin(self.serve_one(Request::Inspect(key.clone()), self.call_limit(), read_answer!(Inspect)))
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
            self.serve_each(requests, limit, read_answer!(Inspect)).await.into_iter().collect()
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

impl MarkStore for PostgresStore {
    /// When this resolves, the mark is on the server's disk.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> StoreFuture<'a, HoldAnswer> {
        let request = Request::Mark { attempt: attempt.clone(), mark: mark.clone(), keep };
        Box::pin(self.serve_one(request, self.limit(attempt.ttl), read_answer!(Mark)))
    }

    fn marked<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Marked> {
        Box::pin(self.serve_one(Request::Marked(key.clone()), self.call_limit(), read_answer!(Marked)))
    }

    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<Mark>> {
        let key = key.clone();
        Box::pin(self.work(self.call_limit(), move |client, inner| {
            Box::pin(async move {
                let key = key.as_bytes();
                let parameters = [(&key as _, Type::BYTEA)];
                let row = inner.scope.alone(client, &inner.scope.sql.forget_mark, &parameters).await?;
                let Some(row) = row else { return Ok(None) };
                let row = Columns(&row);
                let (_, Marked { mark, now }) = table::mark(&row)?;
                let ends = row.stamp(6)?;
                Ok(mark.filter(|_| now < ends))
            })
        }))
    }

    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<(Key, Marked)>> {
        Box::pin(self.pages(prefix, |sql| &sql.list_marks, table::mark, |(key, _)| key))
    }
}

impl AdminStore for PostgresStore {
    fn break_lease<'a>(&'a self, key: &'a Key, lease: &'a LeaseBreak) -> StoreFuture<'a, BreakAnswer> {
        let request = Request::Break { key: key.clone(), lease: lease.clone() };
        Box::pin(self.serve_one(request, self.call_limit(), read_answer!(Break)))
    }

    fn last_break<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<BreakRecord>> {
        let key = key.clone();
        Box::pin(self.work(self.call_limit(), move |client, inner| {
            Box::pin(async move {
                let key = key.as_bytes();
                let parameters = [(&key as _, Type::BYTEA)];
                let rows = inner.scope.rows(client, &inner.scope.sql.last_break, &parameters).await?;
                rows.first().map(|row| table::broken(&Columns(row))).transpose()
            })
        }))
    }

    fn diagnose(&self, role: StoreRole) -> BoxFuture<'_, Diagnosis> {
        Box::pin(self.inner.diagnose(role))
    }

    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<BreakRecord>> {
        Box::pin(self.pages(prefix, |sql| &sql.list_breaks, table::broken, |broken| &broken.key))
    }
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
