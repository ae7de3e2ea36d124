//! The worker: one task sends all requests of a store to the server, in the order in which they
//! were made.
//!
//! Concurrent requests of several tasks are served in one transaction, which costs one flush of the
//! server's disk.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::{
    Answer, BoxFuture, Fault, GrantAnswer, News, Notice, NoticeBus, Proof, Push, Request, Runtime, Served,
    Stamp, WaiterRegistry,
};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::address::Address;
use crate::blocked::Blocked;
use crate::channel;
use crate::connect::{Live, connect};
use crate::deadline::within;
use crate::fault::{Faults, is_blocked, is_conflict};
use crate::push::{self, PushMessage};
use crate::readings::Readings;
use crate::table::row::Columns;
use crate::transaction::{Done, Scope, is_read};
use crate::transaction_error::TransactionError;

/// The state that a store's tasks share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) address: Address,
    pub(crate) faults: Faults,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) scope: Scope,
    pub(crate) waiting: WaiterRegistry,
    pub(crate) notice_bus: Arc<NoticeBus>,
    pub(crate) readings: Readings,
    /// The number of the channel on which this process listens, if it does.
    pub(crate) own: Mutex<Option<i64>>,
    pub(crate) blocked: Blocked,
    pub(crate) is_up: AtomicBool,
    /// The identity of these tables, once they were reached.
    pub(crate) identity: Mutex<Option<Arc<str>>>,
}

/// Work on the connection, or the reason why there is none.
pub(crate) type Work = Box<
    dyn for<'a> FnOnce(Result<&'a Client, Fault>, &'a Inner) -> BoxFuture<'a, Result<(), TransactionError>>
        + Send,
>;

/// Answers to several requests, each with its own result.
pub(crate) type Answers = Vec<Result<Answer, Fault>>;

/// A job for the task.
pub(crate) enum Job {
    /// Serve these requests; the caller may no longer wait for the answers.
    Serve {
        requests: Vec<Request>,
        reply: Option<oneshot::Sender<Answers>>,
    },
    /// Notify these channels.
    Notify(Vec<(String, String)>),
    Work(Work),
}

/// The most requests in one transaction: enough to share a flush, few enough to be done in some
/// milliseconds.
const MOST: usize = 64;

/// How often a transaction is tried that the server aborted because of another one.
const TRIES: u32 = 4;

/// The version of the tables that this program writes. A change that only adds to them keeps older
/// programs working.
pub(crate) const VERSION: i64 = 1;

/// The channel on which all processes are notified of broken leases.
pub(crate) const BROKEN: &str = "leasehold_broken";

/// Serves until the store is dropped.
pub(crate) async fn run(inner: Arc<Inner>, mut queue: mpsc::UnboundedReceiver<Job>) {
    let mut live: Option<Live> = None;
    let mut pending = VecDeque::new();
    loop {
        if pending.is_empty() {
            match queue.recv().await {
                Some(job) => pending.push_back(job),
                None => return,
            }
        }
        while let Ok(job) = queue.try_recv() {
            pending.push_back(job);
        }
        pending.retain(is_wanted);
        if pending.is_empty() {
            continue;
        }
        if live.as_ref().is_none_or(|live| live.client.is_closed()) {
            inner.is_up.store(false, Ordering::Relaxed);
            let had_one = live.take().is_some();
            live = match inner.connected().await {
                Ok(made) => Some(made),
                Err(fault) => {
                    while let Ok(job) = queue.try_recv() {
                        pending.push_back(job);
                    }
                    refuse(&inner, std::mem::take(&mut pending), &fault).await;
                    None
                }
            };
            inner.is_up.store(live.is_some(), Ordering::Relaxed);
            if had_one {
                // Another server may have taken over, with the data that it had.
                inner.readings.forget();
                inner.waiting.ask_for_all();
            }
        }
        let Some(connection) = &live else { continue };
        if !inner.turn(&connection.client, &mut pending).await {
            live = None;
            inner.is_up.store(false, Ordering::Relaxed);
            inner.waiting.ask_for_all();
        }
    }
}

/// Returns true if somebody still waits for the result.
fn is_wanted(job: &Job) -> bool {
    match job {
        Job::Serve { reply: Some(reply), .. } => !reply.is_closed(),
        Job::Serve { .. } | Job::Notify(_) | Job::Work(_) => true,
    }
}

async fn refuse(inner: &Inner, jobs: VecDeque<Job>, fault: &Fault) {
    for job in jobs {
        match job {
            Job::Serve { requests, reply } => {
                let answers = requests.iter().map(|_| Err(fault.clone())).collect();
                if let Some(reply) = reply {
                    _ = reply.send(answers);
                }
            }
            Job::Notify(_) => {}
            Job::Work(work) => _ = work(Err(fault.clone()), inner).await,
        }
    }
}

/// The requests of one caller.
struct Asked {
    requests: Vec<Request>,
    reply: Option<oneshot::Sender<Answers>>,
}

impl Inner {
    /// Connects, and checks that the tables are those of this program.
    async fn connected(&self) -> Result<Live, Fault> {
        let live = connect(&self.address, &self.faults, &self.runtime, None).await?;
        let limit = 2 * self.address.call_limit;
        let asked =
            within(&*self.runtime, limit, live.client.query_typed_one(&self.scope.sql.version, &[])).await;
        let row = asked.ok_or(TransactionError::Silent).and_then(|row| row.map_err(TransactionError::from));
        let row = row.map_err(|error| self.faults.of(&error))?;
        self.judge(&row).map_err(|error| self.faults.of(&error))??;
        Ok(live)
    }

    fn judge(&self, row: &tokio_postgres::Row) -> Result<Result<(), Fault>, TransactionError> {
        let row = Columns(row);
        let (version, readable_by): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
        let identity: Option<&str> = row.get(2)?;
        let (Some(version), Some(readable_by), Some(identity)) = (version, readable_by, identity) else {
            return Err(TransactionError::damaged("the table meta lacks version, readable_by or id"));
        };
        if version < VERSION {
            return Ok(Err(self.faults.lasting(format_args!(
                "Leasehold's tables are of version {version}, and this program needs {VERSION}: upgrade them with `{}`",
                self.faults.init
            ))));
        }
        if readable_by > VERSION {
            return Ok(Err(self.faults.lasting(format_args!(
                "Leasehold's tables are of version {version}, which takes a program of version {readable_by}, and this one is of \
                 version {VERSION}: update the program"
            ))));
        }
        *self.identity.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(format!("postgres {identity}").into());
        Ok(Ok(()))
    }

    /// Does the first pending job, and others that can be combined with it. `false` if the
    /// connection is of no more use.
    async fn turn(&self, client: &Client, pending: &mut VecDeque<Job>) -> bool {
        match pending.pop_front() {
            None => true,
            Some(Job::Notify(said)) => self.notify(client, said).await,
            Some(Job::Work(work)) => {
                let limit = 20 * self.address.call_limit;
                let done = within(&*self.runtime, limit, work(Ok(client), self)).await;
                done.is_some_and(|done| !done.is_err_and(|error| error.is_lost()))
            }
            Some(Job::Serve { requests, reply }) => {
                let reads = requests.iter().all(is_read);
                let mut count = requests.len();
                let mut batch = vec![Asked { requests, reply }];
                while let Some(Job::Serve { requests, .. }) = pending.front() {
                    let fits = count + requests.len() <= MOST && requests.iter().all(is_read) == reads;
                    let next = if fits { pending.pop_front() } else { None };
                    let Some(Job::Serve { requests, reply }) = next else { break };
                    count += requests.len();
                    batch.push(Asked { requests, reply });
                }
                self.serve(client, batch, pending).await
            }
        }
    }

    async fn serve(&self, client: &Client, batch: Vec<Asked>, pending: &mut VecDeque<Job>) -> bool {
        let batch = self.unblocked(batch);
        let requests: Vec<&Request> = batch.iter().flat_map(|asked| &asked.requests).collect();
        if requests.is_empty() {
            return true;
        }
        let mut results = Vec::with_capacity(requests.len());
        let mut added = 0;
        match self.tried(client, &requests, false).await {
            Ok(done) => {
                added += done.added;
                results.extend(done.served.into_iter().map(|served| Ok((served, done.now))));
            }
            Err(error) if error.is_lost() || requests.len() == 1 => {
                results.extend(requests.iter().map(|request| Err(self.refused(request, &error))));
            }
            // Each alone: a request that cannot be served because of the data at its keys must not
            // affect the others.
            Err(error) => {
                let have_waited = is_blocked(&error);
                for request in &requests {
                    match self.tried(client, &[request], have_waited).await {
                        Ok(done) => {
                            added += done.added;
                            results.extend(done.served.into_iter().map(|served| Ok((served, done.now))));
                        }
                        Err(error) => results.push(Err(self.refused(request, &error))),
                    }
                }
            }
        }
        let (mut told, mut results) = (Vec::new(), results.into_iter());
        for Asked { requests, reply } in batch {
            let mut answers = Vec::with_capacity(requests.len());
            for _ in &requests {
                let Some(result) = results.next() else { break };
                answers.push(result.map(|(served, now)| self.settle(served, now, &mut told, pending)));
            }
            if let Some(reply) = reply {
                _ = reply.send(answers);
            }
        }
        if !told.is_empty() && !self.notify(client, told).await {
            return false;
        }
        if added > 0 && !self.sweep(client).await {
            return false;
        }
        !client.is_closed()
    }

    /// Refuses requests that would only make the others wait, and returns the rest.
    fn unblocked(&self, batch: Vec<Asked>) -> Vec<Asked> {
        let now = self.runtime.now();
        let refused = |asked: &Asked| match &asked.requests[..] {
            [request] => self.blocked.refuses(request, now),
            _ => None,
        };
        let answered = |mut asked: Asked| match refused(&asked) {
            None => Some(asked),
            Some(fault) => {
                if let Some(reply) = asked.reply.take() {
                    _ = reply.send(vec![Err(fault)]);
                }
                None
            }
        };
        batch.into_iter().filter_map(answered).collect()
    }

    /// The fault of a failed request.
    fn refused(&self, request: &Request, error: &TransactionError) -> Fault {
        let fault = self.faults.of(error);
        if is_blocked(error) {
            self.blocked.note(request, self.runtime.now(), self.address.call_limit, &fault);
        }
        fault
    }

    /// Serves requests in one transaction, and again if the server aborted it because of another
    /// one.
    async fn tried(
        &self,
        client: &Client,
        requests: &[&Request],
        have_waited: bool,
    ) -> Result<Done, TransactionError> {
        let limit = 3 * self.address.call_limit;
        let mut tries = 0;
        loop {
            let sent = self.runtime.now();
            let done = within(&*self.runtime, limit, self.scope.serve(client, requests, have_waited)).await;
            tries += 1;
            match done.unwrap_or(Err(TransactionError::Silent)) {
                Err(error) if is_conflict(&error) && tries < TRIES => {}
                Ok(done) => {
                    self.readings.note(sent, done.now);
                    return Ok(done);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Notifies waiters of this process, and collects the messages to other processes.
    fn settle(
        &self,
        served: Served,
        now: Stamp,
        told: &mut Vec<(String, String)>,
        pending: &mut VecDeque<Job>,
    ) -> Answer {
        let Served { answer, pushes, unfinished } = served;
        for push in pushes {
            self.say(push, now, told);
        }
        // A caller that is told that its own key is not handed over yet asks again at once.
        if !unfinished.is_empty() && answer != Answer::Grant(GrantAnswer::Unfinished) {
            pending.push_back(Job::Serve { requests: vec![Request::Advance(unfinished)], reply: None });
        }
        answer
    }

    fn say(&self, push: Push, at: Stamp, told: &mut Vec<(String, String)>) {
        let Push { to, holder, news, nonce, .. } = push;
        let said = PushMessage { holder, news, nonce, at };
        let own = *self.own.lock().unwrap_or_else(PoisonError::into_inner);
        match to.as_ref().and_then(channel::number) {
            _ if news == News::Broken => {
                self.notice_bus.say(&Notice::Broken { holder });
                told.push((BROKEN.into(), push::write(&said)));
            }
            Some(number) if own != Some(number) => told.push((channel::name(number), push::write(&said))),
            // A waiter without a channel may belong to another process, which polls.
            number => self.receive(number, &said),
        }
    }

    /// Handles a message on a channel, or from this process itself.
    pub(crate) fn receive(&self, number: Option<i64>, told: &PushMessage) {
        let mut news = told.news;
        match &mut news {
            News::Broken => return self.notice_bus.say(&Notice::Broken { holder: told.holder }),
            News::Granted { lasts, .. } => *lasts = lasts.up_to(self.scope.window),
            News::First { .. } | News::AskAgain => {}
        }
        let now = self.runtime.now();
        let proof = told.nonce.zip(number);
        let proof = proof.map(|(nonce, number)| Proof { channel: channel::of_number(number), nonce });
        match self.readings.before(told.at) {
            Some(since) => _ = self.waiting.hears(told.holder, news, proof.as_ref(), since, now),
            // Its age is unknown.
            None => _ = self.waiting.hears(told.holder, News::AskAgain, None, now, now),
        }
    }

    /// In a separate transaction, after the one that it reports, without waiting for the disk.
    async fn notify(&self, client: &Client, said: Vec<(String, String)>) -> bool {
        let (channels, payloads): (Vec<_>, Vec<_>) = said.into_iter().unzip();
        let parameters = [(&channels as _, Type::TEXT_ARRAY), (&payloads as _, Type::TEXT_ARRAY)];
        let notified = client.execute_typed(NOTIFY, &parameters);
        matches!(within(&*self.runtime, 3 * self.address.call_limit, notified).await, Some(Ok(_)))
    }

    /// Removes ended records. Each time more rows are read than were added, so they cannot pile up.
    ///
    /// No request depends on it, so a refusal is not reported to one: the next sweep tries again,
    /// and `doctor` names missing grants.
    async fn sweep(&self, client: &Client) -> bool {
        let swept = within(&*self.runtime, 3 * self.address.call_limit, self.scope.sweep(client)).await;
        swept.is_some_and(|swept| !swept.is_err_and(|error| error.is_lost()))
    }
}

/// One statement, and so one transaction.
const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(c, p) \
    FROM unnest($1::text[], $2::text[]) AS n (c, p)";
