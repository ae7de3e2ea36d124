//! The store on PostgreSQL.

mod looking;

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, Baseline, BaselineStore, BoxFuture, Channel, Drift, Fault, FaultKind, GrantAnswer,
    HoldAnswer, InDoubtGrants, Limits, MemberStore, Misuse, Nonce, NoticeBus, Parts, Proof, RaiseAnswer,
    ReadAnswer, Request, Runtime, Store, StoreFuture, Successor, TransferStore, Ttl, Wait, WaitMode,
    WaitQueue, WaiterRegistry, Wake, call_limit, locked, read_answer,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::address::Address;
use crate::blocked::Blocked;
use crate::fault::{Faults, TransactionError};
use crate::listener::{self, Listening};
use crate::push_monitor::PushMonitor;
use crate::readings::Readings;
use crate::sql::interval;
use crate::table::bytes;
use crate::transaction::Scope;
use crate::worker::{self, Asked, Inner, Job};

/// Leases in a PostgreSQL database, in tables of a separate schema, on the clock of the server.
///
/// All requests share one connection, which is opened when it is first needed and reopened after a
/// failure; concurrent requests are served in one transaction. A second connection for
/// notifications is opened when somebody first waits. Each call has a time limit: half a second, or
/// a quarter of the TTL if that is shorter.
///
/// A transaction of the program that calls `leasehold.check(key, fence)` cannot commit writes under
/// a lock that it has lost.
///
/// # Cancel safety
///
/// A dropped future undoes nothing; give the attempt up.
pub struct PostgresStore {
    inner: Arc<Inner>,
    /// That of the task that serves requests, and the task's [`Runtime::generation`].
    queue: Mutex<Option<(mpsc::UnboundedSender<Job>, u64)>>,
    /// Closed when this is dropped.
    alive: watch::Sender<()>,
}

/// Connecting may take as long as this many calls, so that the first connection to a distant server
/// fits.
const CALLS_TO_CONNECT: u32 = 5;

impl PostgresStore {
    /// The store at a URL. This opens nothing and creates no tables: `leasehold init --store URL`
    /// does.
    ///
    /// `postgres://[user[:password]@]host[:port][,host[:port]…]/database`; a host that begins with
    /// `%2F` is the directory of a Unix socket. Behind a question mark may stand:
    ///
    /// | parameter | default | |
    /// |---|---|---|
    /// | `sslmode=verify-full` or `disable` | `disable` | TLS; the certificate and the host's name in it are always verified, as `require` also does here |
    /// | `sslrootcert=/path.pem` | the system's | the authorities to trust, these and no others |
    /// | `sslcert=/path.pem`, `sslkey=/path.pem` | | the client certificate and its private key, in a file that others cannot read |
    /// | `schema=NAME` | `leasehold` | where the tables are |
    /// | `password-file=/path` | | the password, alone in a file that others cannot read; read for each connection |
    /// | `target_session_attrs=read-write` or `any` | `read-write` for several hosts | which of several servers will do |
    /// | `call-limit=500ms` | 500 ms, and never above a quarter of the ttl | how long an answer may take; a quorum waits for a member for 600 ms at most |
    /// | `host=`, `port=`, `user=`, `password=` | | the same as in front, as libpq takes them; `host=` names one host |
    ///
    /// # Errors
    ///
    /// [`Misuse::Url`], which says what is wrong and never the password.
    pub fn from_url(url: &str, runtime: Arc<dyn Runtime>) -> Result<Self, Misuse> {
        let address = Address::parse(url)?;
        let init = format!("leasehold init --store {}", address.name);
        let faults = Faults { store: Arc::from(&*address.name), init: init.into() };
        let window = WaitQueue::CLAIM_WINDOW.max(4 * address.call_limit);
        // Only to spread the requests of several processes.
        let seed = runtime.random_bits();
        let notice_bus: Arc<NoticeBus> = Arc::default();
        let inner = Inner {
            scope: Scope::new(&address.schema, address.call_limit, window),
            address,
            faults,
            runtime,
            waiting: WaiterRegistry::new(seed),
            push_monitor: PushMonitor::new(Arc::clone(&notice_bus)),
            notice_bus,
            readings: Readings::default(),
            blocked: Blocked::default(),
            in_doubt: InDoubtGrants::default(),
            is_up: false.into(),
            queue: Mutex::default(),
            identity: Mutex::default(),
        };
        let (alive, _) = watch::channel(());
        Ok(Self { inner: Arc::new(inner), queue: Mutex::default(), alive })
    }

    /// Why this process cannot be notified of its turn, if so. Waiters then poll, a few times a
    /// second.
    #[must_use]
    pub fn push_unavailable(&self) -> Option<Fault> {
        self.inner.push_monitor.push_unavailable()
    }

    fn send(&self, mut job: Job) {
        let mut queue = locked(&self.queue);
        let generation = self.inner.runtime.generation();
        // The task of another generation is never run again.
        if let Some((sender, _)) = queue.as_ref().filter(|(_, of)| *of == generation) {
            match sender.send(job) {
                Ok(()) => return,
                // Its task ended with its runtime, or panicked.
                Err(mpsc::error::SendError(unsent)) => job = unsent,
            }
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        // A caller that waits for an answer finds out by its limit that there is no runtime any
        // more.
        let _ = sender.send(job);
        *locked(&self.inner.queue) = Some(sender.downgrade());
        self.inner.runtime.spawn(Box::pin(worker::run(Arc::clone(&self.inner), receiver)));
        *queue = Some((sender, generation));
    }

    /// The time limit for an answer about a lease of this TTL.
    fn limit(&self, ttl: Ttl) -> Duration {
        call_limit(self.inner.address.call_limit, ttl)
    }

    /// Serves requests, each of which has its own answer.
    async fn serve(&self, requests: Vec<Request>, limit: Duration) -> Vec<Result<Answer, Fault>> {
        let count = requests.len();
        if count == 0 {
            return Vec::new();
        }
        let (reply, answer) = oneshot::channel();
        self.send(Job::Serve(Asked { requests, reply: Some(reply) }));
        match self.result(limit, answer).await {
            Ok(answers) if answers.len() == count => answers,
            Ok(_) => vec![Err(self.ended()); count],
            Err(fault) => vec![Err(fault); count],
        }
    }

    /// The result of a job, within the limit of a call, and of a connection if there is none.
    async fn result<T>(&self, limit: Duration, result: oneshot::Receiver<T>) -> Result<T, Fault> {
        let is_up = self.inner.is_up.load(Ordering::Relaxed);
        let patience = if is_up { limit } else { limit * CALLS_TO_CONNECT };
        match self.inner.runtime.within(patience, result).await {
            Some(result) => result.map_err(|_| self.ended()),
            None => Err(self.inner.faults.timed_out(format_args!("no answer within {patience:?}"))),
        }
    }

    fn ended(&self) -> Fault {
        self.inner.faults.passing(
            "nobody sends requests: the async runtime has ended, or was built without enable_all, or the task that sends them panicked",
        )
    }

    async fn serve_one<T>(&self, request: Request, limit: Duration, read: ReadAnswer<T>) -> Result<T, Fault> {
        let lost = || Err(self.inner.faults.passing("no answer"));
        let answer = self.serve(vec![request], limit).await.pop().unwrap_or_else(lost)?;
        read(answer, &self.inner.faults.store)
    }

    async fn serve_each<T>(
        &self,
        requests: Vec<Request>,
        limit: Duration,
        read: ReadAnswer<T>,
    ) -> Vec<Result<T, Fault>> {
        let answers = self.serve(requests, limit).await;
        answers.into_iter().map(|answer| read(answer?, &self.inner.faults.store)).collect()
    }

    /// Runs other work on the connection.
    async fn work<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl for<'a> FnOnce(&'a Client, &'a Inner) -> BoxFuture<'a, Result<T, TransactionError>>
        + Send
        + 'static,
    ) -> Result<T, Fault> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Work(Box::new(move |client, inner| {
            Box::pin(async move {
                let client = match client {
                    Ok(client) => client,
                    Err(fault) => {
                        let _ = reply.send(Err(fault));
                        return false;
                    }
                };
                // Renewals wait meanwhile, so hardly longer than the caller does.
                let done = inner.within(limit + inner.address.call_limit, work(client, inner)).await;
                let is_lost = done.as_ref().is_err_and(TransactionError::is_lost);
                let _ = reply.send(done.map_err(|error| inner.faults.of(&error)));
                !is_lost
            })
        })));
        self.result(limit, answer).await?
    }

    /// Renews leases, or takes them again.
    async fn keep(
        &self,
        attempts: &[Attempt],
        request: fn(Attempt) -> Request,
        read: ReadAnswer<HoldAnswer>,
    ) -> Vec<Result<HoldAnswer, Fault>> {
        let limits = attempts.iter().map(|attempt| self.limit(attempt.ttl));
        let limit = limits.min().unwrap_or(self.call_limit());
        let requests = attempts.iter().cloned().map(request).collect();
        let answers = self.serve_each(requests, limit, read).await;
        for (attempt, answer) in attempts.iter().zip(&answers) {
            // An attempt that lost what it was handed was not reached in time, so other waiters may
            // have been skipped too.
            if matches!(answer, Ok(HoldAnswer::NotHeld { .. })) {
                let now = self.inner.runtime.now();
                attempt.claim.keys().for_each(|key| self.inner.waiting.ask_for(key, now));
            }
        }
        answers
    }

    /// Asks, and makes sure that an attempt that then waits can be notified.
    ///
    /// The first attempt that must wait asks without a channel: without waiters nobody listens. If it
    /// takes long to find out whether this process can be notified, attempts poll meanwhile; once it
    /// listens, [`listener::run`] makes them ask again, with the channel.
    async fn ask_to_wait(&self, attempt: &Attempt, queue_limit: Option<u64>) -> Result<GrantAnswer, Fault> {
        let (inner, limit) = (&self.inner, self.limit(attempt.ttl));
        let mut channel = inner.push_monitor.channel();
        loop {
            let hears = channel.is_some();
            let nonce = hears.then(|| Nonce::from_bits(inner.runtime.random()));
            let proof = channel.clone().zip(nonce).map(|(channel, nonce)| Proof { channel, nonce });
            let ticket = inner.waiting.asks(attempt.holder, proof, inner.runtime.now());
            let named = channel.take().unwrap_or_else(|| inner.waiting.cannot_be_told(attempt.holder));
            let wait = Wait { channel: Some(named), nonce, ticket, queue_limit };
            let request = Request::Grant { attempt: attempt.clone(), wait: Some(wait), not_after: None };
            let answer = self.serve_one(request, limit, read_answer!(Grant)).await;
            match &answer {
                Ok(answer) => inner.waiting.answered(attempt, answer, inner.runtime.now()),
                // The attempt will not be given up, because nothing of it is left; so remove it
                // here.
                Err(fault) if fault.kind != FaultKind::Passing => _ = self.leave(attempt),
                Err(_) => {}
            }
            let Ok(GrantAnswer::Busy { place: Some(_), .. }) = &answer else { return answer };
            if hears {
                return answer;
            }
            channel = self.listen(limit / 4).await;
            if channel.is_none() {
                return answer;
            }
        }
    }

    /// The channel of this process, if it listens within this time; starts to listen if necessary.
    async fn listen(&self, within: Duration) -> Option<Channel> {
        let inner = &self.inner;
        if let Some(task) = Listening::begin(inner) {
            inner.runtime.spawn(Box::pin(listener::run(task, self.alive.subscribe())));
        }
        inner.runtime.within(within, inner.push_monitor.settled()).await.flatten()
    }

    fn leave(&self, attempt: &Attempt) -> bool {
        self.inner.waiting.leave(attempt.holder, self.inner.runtime.now())
    }

    fn call_limit(&self) -> Duration {
        self.inner.address.call_limit
    }
}

impl Store for PostgresStore {
    fn name(&self) -> &str {
        &self.inner.faults.store
    }

    fn limits(&self) -> Limits {
        Limits::with_drift(Drift::BETWEEN_MACHINES)
    }

    fn open(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.work(self.call_limit(), |_, _| Box::pin(async { Ok(()) })))
    }

    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer> {
        Box::pin(async move {
            if let WaitMode::Wait { queue_limit } = wait_mode {
                return self.ask_to_wait(attempt, queue_limit).await;
            }
            let request = Request::Grant { attempt: attempt.clone(), wait: None, not_after: None };
            self.serve_one(request, self.limit(attempt.ttl), read_answer!(Grant)).await
        })
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(self.keep(attempts, Request::Renew, read_answer!(Renew)))
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async move {
            self.leave(attempt);
            let mut first = None;
            loop {
                let sent = self.inner.runtime.now();
                let request = Request::Release(attempt.clone());
                let answer = self.serve_one(request, self.limit(attempt.ttl), read_answer!(Release)).await?;
                let answer = first.get_or_insert(answer);
                match self.inner.in_doubt.released(attempt.holder, None, sent) {
                    None => return Ok(answer.clone()),
                    Some(settles_at) => self.inner.runtime.sleep_until(settles_at).await,
                }
            }
        })
    }

    /// Conclusive, because it is served after everything that was sent before it. On the same
    /// connection that follows from the order. On a later one it waits for the row locks of a
    /// transaction that may still commit, and is repeated when the server refuses a grant that
    /// was sent without one.
    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.release(attempt).await.map(drop) })
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        self.inner.waiting.called(attempt.holder, &*self.inner.runtime)
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            member: Some(self),
            inspect: Some(self),
            marks: Some(self),
            transfer: Some(self),
            admin: Some(self),
            baseline: Some(self),
            ..Parts::default()
        }
    }
}

impl TransferStore for PostgresStore {
    fn transfer<'a>(&'a self, attempt: &'a Attempt, successor: &'a Successor) -> StoreFuture<'a, HoldAnswer> {
        let request =
            Request::Transfer { attempt: attempt.clone(), successor: successor.clone(), not_after: None };
        Box::pin(self.serve_one(request, self.limit(attempt.ttl), read_answer!(Transfer)))
    }
}

impl MemberStore for PostgresStore {
    /// The identity of the tables, whatever server and name lead to them, once they were reached.
    fn identity(&self) -> Option<Arc<str>> {
        locked(&self.inner.identity).clone()
    }

    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let request = |attempt| Request::Rejoin { attempt, not_after: None };
        Box::pin(self.keep(attempts, request, read_answer!(Rejoin)))
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, RaiseAnswer> {
        Box::pin(self.serve_one(
            Request::Raise(attempt.clone()),
            self.limit(attempt.ttl),
            read_answer!(Raise),
        ))
    }
}

/// Returns true if nobody else had the name.
async fn run_baseline(client: &Client, inner: &Inner, what: Baseline) -> Result<bool, TransactionError> {
    let sql = &inner.scope.sql;
    let Baseline::Pair { key, holder, ttl, .. } = what else {
        client.execute_typed("SELECT 1", &[]).await?;
        return Ok(true);
    };
    let (key, holder, lasts) = (key.as_bytes(), bytes(holder), interval(ttl.duration()));
    let taken = [(&key as _, Type::BYTEA), (&holder as _, Type::BYTEA), (&lasts as _, Type::INT8)];
    let let_go = [(&key as _, Type::BYTEA), (&holder as _, Type::BYTEA)];
    let taken = client.execute_typed(&sql.baseline_acquire, &taken).await? == 1;
    Ok(taken && client.execute_typed(&sql.baseline_release, &let_go).await? == 1)
}

impl BaselineStore for PostgresStore {
    /// `SELECT`; and an `INSERT` with a `DELETE` by comparison, each a transaction, on the
    /// connection of the locks.
    fn run_baseline<'a>(&'a self, what: &'a Baseline) -> StoreFuture<'a, ()> {
        let what = what.clone();
        Box::pin(async move {
            let done = self
                .work(2 * self.call_limit(), move |client, inner| Box::pin(run_baseline(client, inner, what)))
                .await?;
            match done {
                true => Ok(()),
                false => Err(self.inner.faults.passing("somebody else has the key")),
            }
        })
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(&self.inner.faults.store).finish()
    }
}

#[cfg(test)]
mod tests;
