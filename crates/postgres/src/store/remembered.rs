//! Records that outlive a lease: marks of jobs, and records of broken leases.

use std::time::Duration;

use leasehold_core::{
    AdminStore, Attempt, BoxFuture, BreakAnswer, BreakRecord, Diagnosis, HoldAnswer, Key, LeaseBreak, Mark,
    MarkStore, Marked, Request, StoreFuture, StoreRole,
};
use tokio_postgres::types::Type;

use super::{PostgresStore, read};
use crate::table;
use crate::table::row::Columns;

impl MarkStore for PostgresStore {
    /// When this resolves, the mark is on the server's disk.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> StoreFuture<'a, HoldAnswer> {
        let request = Request::Mark { attempt: attempt.clone(), mark: mark.clone(), keep };
        Box::pin(self.serve_one(request, self.limit(attempt.ttl), read!(Mark)))
    }

    fn marked<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Marked> {
        Box::pin(self.serve_one(Request::Marked(key.clone()), self.call_limit(), read!(Marked)))
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
        Box::pin(self.serve_one(request, self.call_limit(), read!(Break)))
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
