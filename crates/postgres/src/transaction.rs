//! Serves each batch of requests in one transaction, which loads the records of its keys, applies
//! core's functions, and saves.
//!
//! The rows of the keys are locked first, and the server confirms that before anything is
//! committed. So a later request on another connection waits for a transaction whose commit is
//! still on its way, and nothing is granted behind a release that was answered.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold_core::{
    Answer, ApplyContext, Channel, Fence, GrantAnswer, HoldAnswer, Key, Records, Request, Served, Stamp,
    Subscribers, WaitQueue, apply,
};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::fault::TransactionError;
use crate::sql::Sql;
use crate::table::row::Columns;
use crate::table::{Changes, Loaded, Requester, Selection, keep_checked, load, save};

/// The inputs of a transaction other than its requests.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) sql: Sql,
    /// How long a statement of its own may wait for a row.
    pub(crate) lock_timeout: String,
    /// The statement that begins a writing transaction.
    begin: String,
    /// The same after its rows were already waited for, together with other requests.
    begin_again: String,
    /// The same for one of several requests, any of which may be the one whose rows are locked, and for
    /// work that no request waits for.
    begin_alone: String,
    /// The statement that begins a transaction which only reads.
    begin_to_read: String,
    /// The statement that begins a transaction which reads what others have locked.
    begin_to_look: String,
    /// How long a lock that is handed over may remain unclaimed.
    pub(crate) window: Duration,
}

/// How long a transaction waits for the rows of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowWait {
    /// For half of a call.
    Long,
    /// For a moment: its requests, or other requests for the same rows, have waited before.
    Short,
    /// Hardly: there are many such transactions one after the other, and other callers wait for all
    /// of them.
    Shortest,
}

/// The result of a batch.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) served: Vec<Served>,
    /// The server's clock at that time.
    pub(crate) now: Stamp,
    /// The number of rows that it added.
    pub(crate) added: usize,
}

/// All statements see the same snapshot, and nothing is locked.
const BEGIN_TO_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";

/// The server then refuses a query from which row level security would hide rows, for example those of
/// other holders.
const SEE_ALL: &str = "SET LOCAL row_security = off";

/// A release without waiters may be lost in a crash of the server: the lease then expires.
const COMMIT_LATER: &str = "SET LOCAL synchronous_commit = off; COMMIT";

impl Scope {
    pub(crate) fn new(schema: &str, call_limit: Duration, window: Duration) -> Self {
        let statement = call_limit.as_millis();
        // A process that stops in the middle keeps its rows locked for at most this long.
        let idle = 2 * statement;
        let begin = |lock| {
            format!(
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {SEE_ALL}; SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = {lock}; \
                 SET LOCAL statement_timeout = {statement}; SET LOCAL idle_in_transaction_session_timeout = {idle}"
            )
        };
        // Others wait meanwhile, and their limit is one call.
        let again = (statement / 20).max(1);
        let begin_alone = begin((statement / 200).max(1));
        let (begin, begin_again) = (begin(statement / 2), begin(again));
        let lock_timeout = (statement / 2).to_string();
        // Only a lock of the whole table can block these. A list is the longest of them.
        let begin_to_read = |lock| {
            let list = 10 * statement;
            format!(
                "{BEGIN_TO_READ}; {SEE_ALL}; SET LOCAL lock_timeout = {lock}; SET LOCAL statement_timeout = {list}"
            )
        };
        let (begin_to_read, begin_to_look) = (begin_to_read(statement / 2), begin_to_read(again));
        Self {
            sql: Sql::of(schema),
            lock_timeout,
            begin,
            begin_again,
            begin_alone,
            begin_to_read,
            begin_to_look,
            window,
        }
    }

    /// Serves requests in one transaction, all or none.
    pub(crate) async fn serve(
        &self,
        client: &Client,
        requests: &[&Request],
        row_wait: RowWait,
    ) -> Result<Done, TransactionError> {
        let batch = Batch::of(requests);
        if batch.only_reads {
            let mut loaded = self.loaded(client, &self.begin_to_read, &batch, i64::MAX).await?;
            let (served, _) = self.apply(&mut loaded, requests);
            return Ok(Done { served, now: loaded.now, added: 0 });
        }
        let begin = match row_wait {
            RowWait::Long => &self.begin,
            RowWait::Short => &self.begin_again,
            RowWait::Shortest => &self.begin_alone,
        };
        let served = self.write(client, begin, &batch, requests).await;
        if let Err(error) = &served
            && !error.is_lost()
        {
            // If this fails, the connection is lost, and with it the transaction.
            let _ = client.batch_execute("ROLLBACK").await;
        }
        served
    }

    /// The answers to grants whose rows are locked, by what can be seen nevertheless: another holder's
    /// lease excludes one. `None` if none does, or for another request.
    ///
    /// The requesters do not wait in a queue by this.
    pub(crate) async fn look(
        &self,
        client: &Client,
        requests: &[&Request],
    ) -> Result<Vec<Option<(Served, Stamp)>>, TransactionError> {
        if !requests.iter().any(|request| matches!(request, Request::Grant { .. })) {
            return Ok(vec![None; requests.len()]);
        }
        // None of these answers depends on who is first in a queue.
        let loaded = self.loaded(client, &self.begin_to_look, &Batch::of(requests), 1).await?;
        Ok(requests.iter().map(|request| self.seen(&loaded, request)).collect())
    }

    fn seen(&self, loaded: &Loaded, request: &Request) -> Option<(Served, Stamp)> {
        let Request::Grant { attempt, .. } = request else { return None };
        let mut looks: Vec<_> = attempt.claim.keys().cloned().map(Request::Inspect).collect();
        looks.push(Request::Grant { attempt: attempt.clone(), wait: None, not_after: None });
        let (mut served, _) = self.apply(&mut loaded.clone(), &looks.iter().collect::<Vec<_>>());
        let answer = served.pop()?.answer;
        let Answer::Grant(GrantAnswer::Busy { held_by, .. }) = &answer else { return None };
        // Not a waiter to which a free key would be handed.
        let is_stored = served.iter().any(
            |served| matches!(&served.answer, Answer::Inspect(state) if state.holders.contains(held_by)),
        );
        is_stored.then(|| (Served::quietly(answer), loaded.now))
    }

    /// Those of the keys of these requests whose rows another transaction has locked at this moment.
    pub(crate) async fn locked(
        &self,
        client: &Client,
        requests: &[&Request],
    ) -> Result<BTreeSet<Key>, TransactionError> {
        let keys: Vec<_> = requests.iter().flat_map(|request| request.keys()).map(Key::as_bytes).collect();
        let asked = [(&keys as _, Type::BYTEA_ARRAY)];
        let locked = client.query_typed(&self.sql.locked, &asked);
        let rows = between(client, &self.begin_alone, locked, "ROLLBACK").await?;
        rows.iter().map(|row| Columns(row).key(0)).collect()
    }

    /// Removes ended records. A crash may bring them back, which changes no answer. It hardly waits for
    /// one that is locked, for example a share that was checked, because requests wait meanwhile.
    pub(crate) async fn sweep(&self, client: &Client) -> Result<(), TransactionError> {
        let begin = format!("{}; SET LOCAL synchronous_commit = off", self.begin_alone);
        between(client, &begin, client.execute_typed(&self.sql.sweep, &[]), "COMMIT").await.map(drop)
    }

    /// Runs one writing statement, durably and within the limits of a call, and returns its row.
    pub(crate) async fn alone(
        &self,
        client: &Client,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Option<Row>, TransactionError> {
        between(client, &self.begin, client.query_typed_opt(statement, parameters), "COMMIT").await
    }

    /// Runs one reading statement, and returns its rows. Other callers wait meanwhile, so it does not
    /// wait for long either if somebody has locked the table.
    pub(crate) async fn rows(
        &self,
        client: &Client,
        statement: &str,
        parameters: &[(&(dyn ToSql + Sync), Type)],
    ) -> Result<Vec<Row>, TransactionError> {
        between(client, &self.begin_to_read, client.query_typed(statement, parameters), "COMMIT").await
    }

    /// The records of a batch, with this many first waiters of each queue.
    async fn loaded(
        &self,
        client: &Client,
        begin: &str,
        batch: &Batch,
        first: i64,
    ) -> Result<Loaded, TransactionError> {
        let selection =
            Selection { keys: &batch.keys, requesters: &[], first, marks: batch.marks, subscriptions: false };
        between(client, begin, load(client, &self.sql, selection), "COMMIT").await
    }

    async fn write(
        &self,
        client: &Client,
        begin: &str,
        batch: &Batch,
        requests: &[&Request],
    ) -> Result<Done, TransactionError> {
        /// The waiter that leaves, the next one, those among which one of another process is
        /// searched for, and one for the requester.
        const FEW: usize = WaitQueue::LOOKED_AHEAD + 3;
        const MORE: usize = WaitQueue::CLEARED_AT_ONCE + FEW;
        let of_a_queue = |waiters: usize| {
            i64::try_from(waiters.saturating_mul(batch.most_per_key.max(1))).unwrap_or(i64::MAX)
        };
        let selection = |first: i64| Selection {
            keys: &batch.keys,
            requesters: &batch.requesters,
            first,
            marks: batch.marks,
            subscriptions: true,
        };
        let keys: Vec<&[u8]> = batch.keys.iter().map(Key::as_bytes).collect();
        let locked = [(&keys as _, Type::BYTEA_ARRAY)];
        let (begun, locked, loaded, voided) = tokio::join!(
            biased;
            client.batch_execute(begin),
            client.execute_typed(&self.sql.lock, &locked),
            load(client, &self.sql, selection(of_a_queue(FEW))),
            self.voided(client, batch.by_a_quorum),
        );
        begun?;
        locked?;
        let (mut loaded, voided) = (loaded?, voided?);
        let mut more = [of_a_queue(MORE), i64::MAX].into_iter();
        loop {
            if let Some(voided) = &voided {
                loaded.records.voided = Some(self.noticed(client, voided, loaded.now).await?);
            }
            keep_checked(client, &self.sql, &mut loaded).await?;
            let before = loaded.records.clone();
            let (served, was_short) = self.apply(&mut loaded, requests);
            if !was_short {
                return self.end(client, batch, requests, &before, &loaded, served).await;
            }
            let Some(first) = more.next() else {
                return Err(TransactionError::damaged("a queue is longer than the waiters in it"));
            };
            loaded = load(client, &self.sql, selection(first)).await?;
        }
    }

    async fn end(
        &self,
        client: &Client,
        batch: &Batch,
        requests: &[&Request],
        before: &Records,
        loaded: &Loaded,
        served: Vec<Served>,
    ) -> Result<Done, TransactionError> {
        let changes = Changes::between(&batch.keys, before, &loaded.records, loaded.now);
        let done = Done { now: loaded.now, added: changes.added, served };
        if *before == loaded.records && !batch.by_a_quorum {
            // A row that was created only for locking it is rolled back too.
            client.batch_execute("ROLLBACK").await?;
            return Ok(done);
        }
        let is_quiet = requests.iter().zip(&done.served).all(|(request, served)| {
            matches!((request, &served.answer), (Request::Release(_), Answer::Release(HoldAnswer::Done)))
                && served.pushes.is_empty()
        });
        let sweep = async |is_due: bool, statement| {
            if is_due { client.execute_typed(statement, &[]).await.map(drop) } else { Ok(()) }
        };
        let (saved, marks, breaks, committed) = tokio::join!(
            biased;
            save(client, &self.sql, &changes),
            sweep(!changes.marks.is_empty(), &self.sql.sweep_marks),
            sweep(!changes.breaks.is_empty(), &self.sql.sweep_breaks),
            client.batch_execute(if is_quiet { COMMIT_LATER } else { "COMMIT" }),
        );
        saved?;
        marks?;
        breaks?;
        committed?;
        Ok(done)
    }

    /// Applies the requests to the loaded records. Returns true if one of them needed more of a
    /// queue than was loaded.
    fn apply(&self, loaded: &mut Loaded, requests: &[&Request]) -> (Vec<Served>, bool) {
        let Loaded { records, now, unsubscribed } = loaded;
        let subscriptions = Listening(unsubscribed);
        let context = ApplyContext::new(*now, Fence::new(now.as_micros()).unwrap_or(Fence::MAX));
        let context = context.with_subscribers(&subscriptions).with_window(self.window);
        let mut was_short = false;
        let served = requests.iter().map(|request| {
            let served = apply(records, (*request).clone(), &context);
            was_short |= records.queues.values().any(WaitQueue::is_short);
            served
        });
        (served.collect(), was_short)
    }

    /// When leases may last have been forgotten, for requests of a quorum.
    async fn voided(&self, client: &Client, by_a_quorum: bool) -> Result<Option<Voided>, TransactionError> {
        if !by_a_quorum {
            return Ok(None);
        }
        let row = client.query_typed_one(&self.sql.member, &[]).await?;
        let row = Columns(&row);
        Ok(Some(Voided { at: row.maybe_stamp(0)?, is_in_place: row.get(1)? }))
    }

    /// A server that was promoted or restored continues in another timeline, and may have lost the
    /// last writes of the previous one. A dump, whose leases are as old as it is, is restored into
    /// another place. After a clock was set back, it must not abstain for the time by which the clock
    /// was set back.
    async fn noticed(&self, client: &Client, voided: &Voided, now: Stamp) -> Result<Stamp, TransactionError> {
        if let Some(at) = voided.at.filter(|at| voided.is_in_place && *at <= now) {
            return Ok(at);
        }
        let at = now.as_micros().to_string();
        client.execute_typed(&self.sql.void_member, &[(&at as _, Type::TEXT)]).await?;
        Ok(now)
    }
}

/// Does some work in a transaction, all in one round trip. In a failed transaction, `COMMIT` is a
/// rollback. Nothing else may be in the end, not even a setting: the server would refuse that, and
/// go on with the failed transaction.
async fn between<T, E>(
    client: &Client,
    begin: &str,
    work: impl Future<Output = Result<T, E>>,
    end: &str,
) -> Result<T, TransactionError>
where
    TransactionError: From<E>,
{
    let (begun, done, ended) =
        tokio::join!(biased; client.batch_execute(begin), work, client.batch_execute(end));
    begun?;
    let done = done?;
    ended?;
    Ok(done)
}

#[derive(Debug)]
struct Voided {
    at: Option<Stamp>,
    /// True if the tables are in the timeline and in the place where they were then.
    is_in_place: bool,
}

/// Everybody counts as listening who is not known to be deaf.
#[derive(Debug)]
struct Listening<'a>(&'a BTreeSet<Channel>);

impl Subscribers for Listening<'_> {
    fn listens(&self, channel: &Channel) -> bool {
        !self.0.contains(channel)
    }
}

/// The keys of several requests.
#[derive(Debug)]
struct Batch {
    /// In byte order, without duplicates.
    keys: Vec<Key>,
    requesters: Vec<Requester>,
    marks: bool,
    by_a_quorum: bool,
    only_reads: bool,
    /// The greatest number of requests for one key.
    most_per_key: usize,
}

impl Batch {
    fn of(requests: &[&Request]) -> Self {
        let mut keys: Vec<Key> = requests.iter().flat_map(|request| request.keys()).cloned().collect();
        keys.sort_unstable();
        let most_per_key = keys.chunk_by(|one, other| one == other).map(<[_]>::len).max().unwrap_or(0);
        keys.dedup();
        Self {
            keys,
            requesters: requests.iter().flat_map(|request| requesters(request)).collect(),
            marks: requests
                .iter()
                .any(|request| matches!(request, Request::Mark { .. } | Request::Marked(_))),
            by_a_quorum: requests.iter().any(|request| request.proposal().is_some()),
            only_reads: requests.iter().all(|request| request.is_read()),
            most_per_key,
        }
    }
}

/// The requester, for each of its keys.
fn requesters(request: &Request) -> Vec<Requester> {
    let is_of_holder = !matches!(request, Request::Transfer { .. } | Request::Mark { .. });
    let Some(attempt) = request.attempt().filter(|_| is_of_holder) else { return Vec::new() };
    let wait = if let Request::Grant { wait, .. } = request { wait.as_ref() } else { None };
    let ticket = |key: &Key| {
        let (at, ticket) = wait?.ticket.as_ref()?;
        (at == key).then_some(*ticket)
    };
    let requester = |key: &Key| Requester { key: key.clone(), holder: attempt.holder, ticket: ticket(key) };
    attempt.claim.keys().map(requester).collect()
}
