//! Serves requests for keys that are held exclusively, if at all, with one statement for all
//! requests of a kind, in one round trip: grants of free keys, joining a queue, renewals, and
//! releases with the hand-over to the next waiter.
//!
//! A request that finds anything else at its key changes nothing here. It is left to a
//! [transaction](crate::transaction), which has the whole semantics.
//!
//! A grant that was sent on a connection that then broke may still reach the server, after the
//! release that was meant to undo it. So each carries a time on the server's clock after which the
//! statement fails, and the statement reads that clock while it has the row locked.

mod statements;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, GrantAnswer, HoldAnswer, Holder, HolderInfo, Key, Mode, Owner, Push, QueuePosition,
    Request, Served, Stamp, Wait, Want,
};
use tokio_postgres::{Client, Row};

use crate::channel;
use crate::fault::{TransactionError, is_refused_at_once};
use crate::push;
use crate::table::row::Columns;
use crate::table::ticket;
use crate::transaction::Scope;

/// The requests of a batch that are worth trying here.
#[derive(Debug, Default)]
pub(crate) struct Quick<'a> {
    grants: Vec<Chosen<'a>>,
    renewals: Vec<Chosen<'a>>,
    releases: Vec<Chosen<'a>>,
}

/// A request for one key.
#[derive(Debug)]
struct Chosen<'a> {
    key: &'a Key,
    /// Its number in the batch.
    nth: usize,
    attempt: &'a Attempt,
    wait: Option<&'a Wait>,
}

/// The result.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// The answers to the requests that were served, by their numbers, each with the server's clock
    /// at the time of its pushes. Those to other channels than the process's own are sent already.
    pub(crate) served: BTreeMap<usize, (Served, Stamp)>,
    /// The server's clock when it was last read, if it was.
    pub(crate) now: Option<Stamp>,
    /// The number of rows that were added.
    pub(crate) added: usize,
    /// Why others were not served, if a statement failed.
    pub(crate) error: Option<TransactionError>,
    /// The numbers of releases that may have been made although their statement failed: it commits
    /// before it notifies.
    pub(crate) in_doubt: Vec<usize>,
}

impl<'a> Quick<'a> {
    /// Chooses requests for one key each, which no other request of the batch concerns.
    pub(crate) fn among(requests: &[&'a Request]) -> Self {
        Self::among_all_but(requests, |_| false)
    }

    /// The same without some requests.
    pub(crate) fn among_all_but(requests: &[&'a Request], is_left_out: impl Fn(&Request) -> bool) -> Self {
        let (mut seen, mut twice) = (BTreeSet::new(), BTreeSet::new());
        for key in requests.iter().flat_map(|request| request.keys()) {
            if !seen.insert(key) {
                twice.insert(key);
            }
        }
        let mut quick = Self::default();
        for (nth, request) in requests.iter().enumerate() {
            let (chosen, attempt, wait) = match request {
                // An attempt with a ticket has queued before.
                Request::Grant { attempt, wait, not_after: None }
                    if wait.as_ref().is_none_or(|wait| wait.ticket.is_none()) =>
                {
                    (&mut quick.grants, attempt, wait.as_ref())
                }
                Request::Renew(attempt) => (&mut quick.renewals, attempt, None),
                Request::Release(attempt) => (&mut quick.releases, attempt, None),
                _ => continue,
            };
            let key = exclusive_key(attempt).filter(|key| !twice.contains(key));
            if let Some(key) = key.filter(|_| !is_left_out(request)) {
                chosen.push(Chosen { key, nth, attempt, wait });
            }
        }
        for chosen in [&mut quick.grants, &mut quick.renewals, &mut quick.releases] {
            chosen.sort_unstable_by_key(|request| request.key);
        }
        quick
    }

    /// The requesters of grants.
    pub(crate) fn granting(&self) -> impl Iterator<Item = Holder> {
        self.grants.iter().map(|request| request.attempt.holder)
    }

    /// Sends the statements at once. Whether one fails does not concern the others. `own` is the
    /// number of the channel on which this process listens.
    pub(crate) async fn serve(
        &self,
        client: &Client,
        scope: &Scope,
        not_after: Stamp,
        own: Option<i64>,
    ) -> Answered {
        let (granted, renewed, released) = tokio::join!(
            biased;
            statements::grant(client, scope, not_after, &self.grants),
            statements::renew(client, scope, &self.renewals),
            statements::release(client, scope, own, &self.releases),
        );
        let mut answered = Answered::default();
        if released.as_ref().is_err_and(|error| !is_refused_at_once(error)) {
            answered.in_doubt.extend(self.releases.iter().map(|request| request.nth));
        }
        answered.read(granted, |rows, answered| answered.granted(rows, &self.grants));
        answered.read(renewed, |rows, answered| answered.renewed(rows, &self.renewals));
        answered.read(released, |rows, answered| answered.released(rows, &self.releases));
        answered
    }
}

impl Answered {
    fn read(
        &mut self,
        rows: Result<Vec<Row>, TransactionError>,
        read: impl FnOnce(&[Row], &mut Self) -> Result<(), TransactionError>,
    ) {
        if let Err(error) = rows.and_then(|rows| read(&rows, self))
            && !self.error.as_ref().is_some_and(TransactionError::is_lost)
        {
            self.error = Some(error);
        }
    }

    fn granted(&mut self, rows: &[Row], chosen: &[Chosen<'_>]) -> Result<(), TransactionError> {
        for row in rows {
            let row = Columns(row);
            let Chosen { key, nth, .. } = of_number(chosen, row.get(0)?)?;
            let now = row.stamp(1)?;
            self.now = Some(now);
            let answer = match row.maybe_fence(2)? {
                Some(fence) => {
                    self.added += usize::from(row.get::<bool>(3)?);
                    GrantAnswer::Granted { fence }
                }
                None => {
                    let place = match row.get::<Option<i64>>(4)? {
                        None => None,
                        Some(_) => {
                            let before = row.get::<i64>(5)?.unsigned_abs();
                            Some(QueuePosition { ticket: ticket(&row, 4)?, before, stood: false })
                        }
                    };
                    let owner = Owner::Holder { holder: row.holder(6)?, label: row.label(7)? };
                    let left = Duration::from_micros(row.stamp(9)?.as_micros());
                    let held_by =
                        HolderInfo::exclusive((*key).clone(), owner, row.maybe_fence(8)?, Some(left));
                    GrantAnswer::Busy { held_by, place }
                }
            };
            self.served.insert(*nth, (Served::quietly(Answer::Grant(answer)), now));
        }
        Ok(())
    }

    fn renewed(&mut self, rows: &[Row], chosen: &[Chosen<'_>]) -> Result<(), TransactionError> {
        for row in rows {
            let row = Columns(row);
            let now = row.stamp(1)?;
            self.now = Some(now);
            let nth = of_number(chosen, row.get(0)?)?.nth;
            self.served.insert(nth, (Served::quietly(Answer::Renew(HoldAnswer::Done)), now));
        }
        Ok(())
    }

    fn released(&mut self, rows: &[Row], chosen: &[Chosen<'_>]) -> Result<(), TransactionError> {
        let Some(row) = rows.first() else { return Ok(()) };
        let row = Columns(row);
        let now = row.stamp(0)?;
        self.now = Some(now);
        let released: Vec<bool> = row.get(1)?;
        for (Chosen { nth, .. }, _) in chosen.iter().zip(released).filter(|(_, released)| *released) {
            self.served.insert(*nth, (Served::quietly(Answer::Release(HoldAnswer::Done)), now));
        }
        let said_of: Option<Vec<i32>> = row.get(2)?;
        let said_on: Option<Vec<Option<i64>>> = row.get(3)?;
        let said: Option<Vec<&str>> = row.get(4)?;
        let said_on = said_on.unwrap_or_default().into_iter().map(|number| number.map(channel::of_number));
        for ((number, to), said) in
            said_of.unwrap_or_default().into_iter().zip(said_on).zip(said.unwrap_or_default())
        {
            let Chosen { key, nth, .. } = of_number(chosen, number)?;
            let said =
                push::read(said).ok_or_else(|| TransactionError::damaged("a message is of no kind"))?;
            let to = to.filter(|channel| !channel.is_silent());
            let push =
                Push { to, holder: said.holder, key: (*key).clone(), event: said.event, nonce: said.nonce };
            if let Some((served, at)) = self.served.get_mut(nth) {
                served.pushes.push(push);
                // The row of another key may have been locked for a while after this.
                *at = said.at;
            }
        }
        Ok(())
    }
}

/// The request of a number in a statement's arguments.
fn of_number<'a, 'b>(chosen: &'a [Chosen<'b>], number: i32) -> Result<&'a Chosen<'b>, TransactionError> {
    let index = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let request = index.and_then(|index| chosen.get(index));
    request.ok_or_else(|| TransactionError::damaged("an answer to no request"))
}

/// The only key of a claim that needs no agreement of a quorum and no sharing.
fn exclusive_key(attempt: &Attempt) -> Option<&Key> {
    match attempt.claim.wants() {
        [Want { key, mode: Mode::Exclusive, .. }] if attempt.proposal.is_none() => Some(key),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Claim, PushEvent, Ttl};
    use servers::Postgres;
    use tokio_postgres::NoTls;

    use super::*;

    async fn connect(server: &Postgres) -> Client {
        let (client, connection) = tokio_postgres::connect(&server.config(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }

    async fn serve(client: &Client, scope: &Scope, request: &Request, not_after: Stamp) -> Answered {
        Quick::among(&[request]).serve(client, scope, not_after, None).await
    }

    async fn number(client: &Client, sql: &str) -> i64 {
        client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// The statements run side by side, and a release that was asked first would come after a grant.
    #[test]
    fn a_key_of_several_requests_is_left_to_a_transaction_which_keeps_their_order() {
        let ttl = Ttl::new(Duration::from_secs(60)).unwrap();
        let key = |name| Key::new(name).unwrap();
        let attempt =
            |name, who| Attempt::new(Claim::exclusive(key(name)), Holder::from_bits(who), None, ttl);
        let grant = |name, who| Request::Grant { attempt: attempt(name, who), wait: None, not_after: None };
        let requests = [
            Request::Release(attempt("a", 1)),
            grant("a", 2),
            Request::Renew(attempt("b", 3)),
            Request::Inspect(key("b")),
            grant("c", 4),
        ];
        let requests: Vec<_> = requests.iter().collect();
        let quick = Quick::among(&requests);
        assert!(quick.releases.is_empty() && quick.renewals.is_empty(), "{quick:?}");
        assert_eq!(quick.grants.iter().map(|request| request.nth).collect::<Vec<_>>(), [4]);
    }

    /// Regression: a lease counted from when the last key of its batch was released, so a waiter of
    /// this process believed in it past its end.
    #[tokio::test]
    async fn a_lease_that_is_handed_over_counts_from_then_also_if_the_next_release_takes_longer() {
        let server = Postgres::start();
        let [client, blocker, listener, observer] =
            [connect(&server).await, connect(&server).await, connect(&server).await, connect(&server).await];
        let scope = Scope::new("leasehold", Duration::from_secs(40), Duration::from_secs(2));
        client.batch_execute(&scope.sql.schema).await.unwrap();
        let in_time = Stamp::from_micros(i64::MAX.unsigned_abs());
        let ttl = Ttl::new(Duration::from_secs(60)).unwrap();
        let attempt = |key: &str, who| {
            Attempt::new(Claim::exclusive(Key::new(key).unwrap()), Holder::from_bits(who), None, ttl)
        };
        const OWN: i64 = 7;
        listener.execute("SELECT pg_advisory_lock($1)", &[&OWN]).await.unwrap();
        for (key, who) in [("a", 1), ("b", 2)] {
            let request = Request::Grant { attempt: attempt(key, who), wait: None, not_after: None };
            assert_eq!(serve(&client, &scope, &request, in_time).await.served.len(), 1);
        }
        let wait = Some(Wait { channel: Some(channel::of_number(OWN)), ..Wait::default() });
        let request = Request::Grant { attempt: attempt("a", 3), wait, not_after: None };
        assert_eq!(serve(&client, &scope, &request, in_time).await.served.len(), 1);

        blocker.batch_execute("BEGIN; SELECT FROM leasehold.lease WHERE key = 'b' FOR UPDATE").await.unwrap();
        let releases = [Request::Release(attempt("a", 1)), Request::Release(attempt("b", 2))];
        let releases: Vec<_> = releases.iter().collect();
        let quick = Quick::among(&releases);
        let release = quick.serve(&client, &scope, in_time, Some(OWN));
        let unblock = async {
            let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            while number(&observer, waits).await == 0 {}
            blocker.batch_execute("SELECT pg_sleep(0.1); COMMIT").await.unwrap();
        };
        let (answered, ()) = tokio::join!(release, unblock);
        let (served, at) = &answered.served[&0];
        let [Push { event: PushEvent::Granted { lasts, .. }, .. }] = &served.pushes[..] else {
            panic!("{served:?}")
        };
        let end = number(&observer, "SELECT ends FROM leasehold.lease WHERE key = 'a'").await;
        assert_eq!((*at + lasts.duration()).as_micros(), end.unsigned_abs());
    }

    /// Such a grant may have been given up meanwhile, and its lease would keep others out for a
    /// TTL.
    #[tokio::test]
    async fn a_grant_is_refused_if_it_gets_the_row_too_late() {
        let server = Postgres::start();
        let [client, blocker, observer] =
            [connect(&server).await, connect(&server).await, connect(&server).await];
        let scope = Scope::new("leasehold", Duration::from_secs(40), Duration::from_secs(2));
        client.batch_execute(&scope.sql.schema).await.unwrap();
        let in_time = Stamp::from_micros(i64::MAX.unsigned_abs());
        let key = Key::new("k").unwrap();
        let ttl = Ttl::new(Duration::from_secs(60)).unwrap();
        let attempt = |who| Attempt::new(Claim::exclusive(key.clone()), Holder::from_bits(who), None, ttl);
        let grant = |who| Request::Grant { attempt: attempt(who), wait: None, not_after: None };
        const HELD: &str = "SELECT count(*) FROM leasehold.lease WHERE holder IS NOT NULL";

        let late = serve(&client, &scope, &grant(1), Stamp::from_micros(1)).await;
        assert!(late.served.is_empty() && late.error.is_some_and(|error| !error.is_lost()));
        assert_eq!(number(&observer, "SELECT count(*) FROM leasehold.lease").await, 0, "a row is left");

        assert!(serve(&client, &scope, &grant(1), in_time).await.error.is_none());
        assert_eq!(number(&observer, HELD).await, 1);
        let release = Request::Release(attempt(1));
        assert_eq!(serve(&client, &scope, &release, in_time).await.served.len(), 1);

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
        let (late, ()) = tokio::join!(serve(&client, &scope, &request, not_after), until_late);
        assert!(late.served.is_empty() && late.error.is_some_and(|error| !error.is_lost()));
        assert_eq!(number(&observer, HELD).await, 0);
    }
}
