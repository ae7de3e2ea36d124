//! Serves requests for keys that nobody else wants with one statement for all requests of a kind,
//! in one round trip: grants of free keys, renewals and releases of keys without a queue.
//!
//! A request that finds anything else at its key changes nothing here. It is left to a
//! [transaction](crate::transaction), which has the whole semantics.
//!
//! A grant that was sent on a connection that then broke may still reach the server, after the
//! release that was meant to undo it. So each carries a time on the server's clock after which the
//! statement fails, and the statement reads that clock while it has the row locked.

use std::collections::{BTreeMap, BTreeSet};

use leasehold_core::{
    Answer, Attempt, Contended, GrantAnswer, HoldAnswer, Holder, Instant, Key, Label, LastFence, Mode,
    Request, Served, Stamp, Want,
};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::sql::Sql;
use crate::table::row::Columns;
use crate::table::{bytes, interval};
use crate::transaction::keys;
use crate::transaction_error::TransactionError;

/// The requests of a batch that are worth trying here, each with its number in the batch.
#[derive(Debug, Default)]
pub(crate) struct Quick<'a> {
    grants: Chosen<'a>,
    renewals: Chosen<'a>,
    releases: Chosen<'a>,
}

type Chosen<'a> = BTreeMap<&'a Key, (usize, &'a Attempt)>;

/// The result.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// The answers to the requests that were served, by their numbers.
    pub(crate) answers: Vec<(usize, Answer)>,
    /// The server's clock, if it was read.
    pub(crate) now: Option<Stamp>,
    /// The number of rows that were added.
    pub(crate) added: usize,
    /// Why others were not served, if a statement failed.
    pub(crate) error: Option<TransactionError>,
}

impl<'a> Quick<'a> {
    /// Chooses requests for one key each, which was not contended lately, and which no other
    /// request of the batch concerns.
    pub(crate) fn among(requests: &[&'a Request], contended: &Contended, now: Instant) -> Self {
        let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
        for key in requests.iter().flat_map(|request| keys(request)) {
            if !seen.insert(key) {
                twice.insert(key);
            }
        }
        let alone = |key: &Key| !twice.contains(key) && !contended.has(contended.digest(key), now);
        let mut quick = Self::default();
        for (nth, request) in requests.iter().enumerate() {
            let (chosen, attempt) = match request {
                // An attempt with a ticket has queued, so there may be a queue.
                Request::Grant { attempt, wait, not_after: None }
                    if wait.as_ref().is_none_or(|wait| wait.ticket.is_none()) =>
                {
                    (&mut quick.grants, attempt)
                }
                Request::Renew(attempt) => (&mut quick.renewals, attempt),
                Request::Release(attempt) => (&mut quick.releases, attempt),
                _ => continue,
            };
            if let Some(key) = exclusive_key(attempt).filter(|key| alone(key)) {
                chosen.insert(key, (nth, attempt));
            }
        }
        quick
    }

    /// The requesters of grants.
    pub(crate) fn granting(&self) -> impl Iterator<Item = Holder> {
        self.grants.values().map(|(_, attempt)| attempt.holder)
    }

    /// Sends the statements at once. Each is a transaction, and whether one fails does not concern
    /// the others.
    pub(crate) async fn serve(
        &self,
        client: &Client,
        sql: &Sql,
        lock_timeout: &str,
        not_after: Stamp,
    ) -> Answered {
        let granting = Kind::Grant { not_after: not_after.as_micros().cast_signed() };
        let (granted, renewed, released) = tokio::join!(
            biased;
            ask(client, &sql.quick_grant, &self.grants, lock_timeout, granting),
            ask(client, &sql.quick_renew, &self.renewals, lock_timeout, Kind::Renew),
            ask(client, &sql.quick_release, &self.releases, lock_timeout, Kind::Release),
        );
        let mut answered = Answered::default();
        answered.read(granted, &self.grants, |row, answered| {
            answered.added += usize::from(row.get::<bool>(3)?);
            Ok(Answer::Grant(GrantAnswer::Granted { fence: row.fence(2)? }))
        });
        answered.read(renewed, &self.renewals, |_, _| Ok(Answer::Renew(HoldAnswer::Done)));
        answered.read(released, &self.releases, |_, _| Ok(Answer::Release(HoldAnswer::Done)));
        answered
    }
}

impl Answered {
    /// The answers in the order of the requests; `None` for those that are left.
    pub(crate) fn in_order(answers: Vec<(usize, Answer)>, count: usize) -> Vec<Option<Served>> {
        let mut results: Vec<_> = (0..count).map(|_| None).collect();
        for (nth, answer) in answers {
            if let Some(result) = results.get_mut(nth) {
                *result = Some(Served::quietly(answer));
            }
        }
        results
    }

    fn read(
        &mut self,
        rows: Result<Vec<Row>, TransactionError>,
        chosen: &Chosen<'_>,
        answer: fn(&Columns<'_>, &mut Self) -> Result<Answer, TransactionError>,
    ) {
        let read = rows.and_then(|rows| {
            for row in &rows {
                let row = Columns(row);
                self.now = Some(row.stamp(0)?);
                let key = row.key(1)?;
                let (nth, _) =
                    chosen.get(&key).ok_or_else(|| TransactionError::damaged("an answer for another key"))?;
                let answer = answer(&row, self)?;
                self.answers.push((*nth, answer));
            }
            Ok(())
        });
        if let Err(error) = read
            && !self.error.as_ref().is_some_and(TransactionError::is_lost)
        {
            self.error = Some(error);
        }
    }
}

/// The only key of a claim that needs no agreement of a quorum and no sharing.
fn exclusive_key(attempt: &Attempt) -> Option<&Key> {
    match attempt.claim.wants() {
        [Want { key, mode: Mode::Exclusive, .. }] if attempt.proposal.is_none() => Some(key),
        _ => None,
    }
}

/// The arguments of a statement, a row for each request.
#[derive(Default)]
struct Arguments<'a> {
    keys: Vec<&'a [u8]>,
    holders: Vec<[u8; 16]>,
    lasts: Vec<i64>,
    kept: Vec<i64>,
    labels: Vec<Option<&'a str>>,
}

async fn ask(
    client: &Client,
    statement: &str,
    chosen: &Chosen<'_>,
    lock_timeout: &str,
    kind: Kind,
) -> Result<Vec<Row>, TransactionError> {
    if chosen.is_empty() {
        return Ok(Vec::new());
    }
    let mut of = Arguments::default();
    for (key, (_, attempt)) in chosen {
        of.keys.push(key.as_bytes());
        of.holders.push(bytes(attempt.holder));
        of.lasts.push(interval(attempt.ttl.duration()));
        of.kept.push(interval(LastFence::kept_for(attempt.ttl)));
        of.labels.push(attempt.label.as_ref().map(Label::as_str));
    }
    let holders: Vec<&[u8]> = of.holders.iter().map(|holder| &holder[..]).collect();
    let mut parameters: Vec<(&(dyn ToSql + Sync), Type)> =
        vec![(&lock_timeout, Type::TEXT), (&of.keys, Type::BYTEA_ARRAY), (&holders, Type::BYTEA_ARRAY)];
    if !matches!(kind, Kind::Release) {
        parameters.extend([(&of.lasts as _, Type::INT8_ARRAY), (&of.kept as _, Type::INT8_ARRAY)]);
    }
    if let Kind::Grant { not_after } = &kind {
        parameters.extend([(&of.labels as _, Type::TEXT_ARRAY), (not_after as _, Type::INT8)]);
    }
    Ok(client.query_typed(statement, &parameters).await?)
}

/// The kind of a statement, which decides what it is told.
enum Kind {
    Grant { not_after: i64 },
    Renew,
    Release,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_core::{Claim, Ttl};
    use servers::Postgres;
    use tokio_postgres::NoTls;

    use super::*;

    async fn connect(server: &Postgres) -> Client {
        let (client, connection) = tokio_postgres::connect(&server.config(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn serve(client: &Client, sql: &Sql, request: &Request, not_after: Stamp) -> Answered {
        let quick = Quick::among(&[request], &Contended::default(), Instant::from_nanos(0));
        quick.serve(client, sql, "20000", not_after).await
    }

    async fn number(client: &Client, sql: &str) -> i64 {
        client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Such a grant may have been given up meanwhile, and its lease would keep others out for a
    /// TTL.
    #[tokio::test]
    async fn a_grant_is_refused_if_it_gets_the_row_too_late() {
        let server = Postgres::start();
        let [client, blocker, observer] =
            [connect(&server).await, connect(&server).await, connect(&server).await];
        let sql = Sql::of("leasehold");
        client.batch_execute(&sql.schema).await.unwrap();
        let in_time = Stamp::from_micros(i64::MAX.unsigned_abs());
        let key = Key::new("k").unwrap();
        let ttl = Ttl::new(Duration::from_secs(60)).unwrap();
        let attempt = |who| Attempt::new(Claim::exclusive(key.clone()), Holder::from_bits(who), None, ttl);
        let grant = |who| Request::Grant { attempt: attempt(who), wait: None, not_after: None };
        const HELD: &str = "SELECT count(*) FROM leasehold.lease WHERE holder IS NOT NULL";

        let late = serve(&client, &sql, &grant(1), Stamp::from_micros(1)).await;
        assert!(late.answers.is_empty() && late.error.is_some_and(|error| !error.is_lost()));
        assert_eq!(number(&observer, "SELECT count(*) FROM leasehold.lease").await, 0, "a row is left");

        assert!(serve(&client, &sql, &grant(1), in_time).await.error.is_none());
        assert_eq!(number(&observer, HELD).await, 1);
        let release = Request::Release(attempt(1));
        assert_eq!(serve(&client, &sql, &release, in_time).await.answers.len(), 1);

        // It is sent in time, but another transaction has the row.
        blocker.batch_execute("BEGIN; SELECT FROM leasehold.lease FOR UPDATE").await.unwrap();
        let now = number(&observer, "SELECT leasehold.now_micros()").await;
        let not_after = Stamp::from_micros(now.unsigned_abs()) + Duration::from_millis(500);
        let until_late = async {
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            while number(&observer, waits).await == 0 {}
            let limit = not_after.as_micros();
            while number(&observer, "SELECT leasehold.now_micros()").await.unsigned_abs() <= limit {}
            blocker.batch_execute("COMMIT").await.unwrap();
        };
        let request = grant(2);
        let (late, ()) = tokio::join!(serve(&client, &sql, &request, not_after), until_late);
        assert!(late.answers.is_empty() && late.error.is_some_and(|error| !error.is_lost()));
        assert_eq!(number(&observer, HELD).await, 0);
    }
}
