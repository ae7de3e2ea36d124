//! The worker: one task sends all requests of a store to the server, in the order in which they
//! were made.
//!
//! Concurrent requests of several tasks are served in one transaction, which costs one flush of the
//! server's disk.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use leasehold_core::{
    Answer, BoxFuture, Fault, GrantAnswer, HoldAnswer, InDoubtGrants, Instant, Key, Notice, NoticeBus, Proof,
    Push, PushEvent, Reading, Request, Runtime, Served, ServerClock, Stamp, WaiterRegistry, locked,
};
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::address::Address;
use crate::blocked::Blocked;
use crate::channel;
use crate::connect::{Live, OnNotification, connect};
use crate::fault::{Faults, TransactionError, is_blocked, is_conflict, is_queue_full, is_standby};
use crate::push::{self, PushMessage};
use crate::push_monitor::PushMonitor;
use crate::quick::{Answered, Quick};
use crate::readings::Readings;
use crate::table::row::Columns;
use crate::transaction::{Done, RowWait, Scope};
use crate::version;

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
    pub(crate) push_monitor: PushMonitor,
    pub(crate) blocked: Blocked,
    /// Grants that were sent on connections that broke.
    pub(crate) in_doubt: InDoubtGrants,
    pub(crate) is_up: AtomicBool,
    /// That of the task that serves requests now; after a panic another task takes over.
    pub(crate) queue: Mutex<Option<mpsc::WeakUnboundedSender<Job>>>,
    /// The identity of these tables, once they were reached.
    pub(crate) identity: Mutex<Option<Arc<str>>>,
}

/// Work on the connection, or the reason why there is none. `false` if the connection is of no more
/// use.
pub(crate) type Work =
    Box<dyn for<'a> FnOnce(Result<&'a Client, Fault>, &'a Inner) -> BoxFuture<'a, bool> + Send>;

/// Answers to several requests, each with its own result.
pub(crate) type Answers = Vec<Result<Answer, Fault>>;

/// The requests of one caller, which may no longer wait for the answers.
pub(crate) struct Asked {
    pub(crate) requests: Vec<Request>,
    pub(crate) reply: Option<oneshot::Sender<Answers>>,
}

impl Asked {
    fn answer(self, answers: Answers) {
        if let Some(reply) = self.reply {
            _ = reply.send(answers);
        }
    }
}

/// A job for the task.
pub(crate) enum Job {
    Serve(Asked),
    /// Notify these channels, and say when that is done.
    Notify {
        said: Vec<(String, String)>,
        sent: Option<oneshot::Sender<()>>,
    },
    Work(Work),
}

/// The most requests in one transaction: enough to share a flush, few enough to be done in some
/// milliseconds.
const MOST: usize = 64;

/// How often a transaction is tried that the server aborted because of another one.
const TRIES: u32 = 4;

/// The channel on which all processes are notified of broken leases.
const BROKEN: &str = "leasehold_broken";

const LISTEN_TO_BREAKS: &str = "LISTEN leasehold_broken";

/// Serves until the store is dropped.
pub(crate) async fn run(inner: Arc<Inner>, mut queue: mpsc::UnboundedReceiver<Job>) {
    let mut live: Option<Session> = None;
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
        if live.as_ref().is_none_or(|session| session.client().is_closed()) {
            inner.is_up.store(false, Ordering::Relaxed);
            let has_served = live.take().is_some_and(|session| session.has_served());
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
            if has_served {
                // Another server may have taken over, with the data that it had.
                inner.waiting.ask_for_all();
            }
        }
        let Some(session) = &live else { continue };
        if !inner.turn(session, &mut pending).await {
            // Answers may have been lost. But if no request gets through, each waits its time before
            // it is sent again.
            if session.has_served() {
                inner.waiting.ask_for_all();
            }
            live = None;
        } else if session.is_standby.load(Ordering::Relaxed) {
            live = None;
        }
        inner.is_up.store(live.is_some(), Ordering::Relaxed);
    }
}

/// A connection, and the clock of the server that it leads to.
struct Session {
    live: Live,
    clock: ServerClock,
    /// Its number, for readings of that clock; set once it has served a request.
    number: OnceLock<u64>,
    /// Set when the server refuses to write as a standby. A new connection may lead to the server
    /// that has taken over.
    is_standby: AtomicBool,
}

impl Session {
    const fn client(&self) -> &Client {
        &self.live.client
    }

    fn has_served(&self) -> bool {
        self.number.get().is_some()
    }
}

/// Returns true if somebody still waits for the result.
fn is_wanted(job: &Job) -> bool {
    match job {
        Job::Serve(asked) => asked.reply.as_ref().is_none_or(|reply| !reply.is_closed()),
        Job::Notify { .. } | Job::Work(_) => true,
    }
}

async fn refuse(inner: &Inner, jobs: VecDeque<Job>, fault: &Fault) {
    for job in jobs {
        match job {
            Job::Serve(asked) => {
                let answers = vec![Err(fault.clone()); asked.requests.len()];
                asked.answer(answers);
            }
            Job::Notify { .. } => {}
            Job::Work(work) => _ = work(Err(fault.clone()), inner).await,
        }
    }
}

/// The result of one request, and the server's clock at that time.
type Outcome = Result<(Served, Stamp), Fault>;

/// What came of requests that were served in transactions.
#[derive(Default)]
struct Slow {
    outcomes: Vec<Outcome>,
    /// The number of rows that were added.
    added: usize,
    /// True if the connection is of no more use.
    is_lost: bool,
}

impl Slow {
    fn add(&mut self, done: Done) {
        self.added += done.added;
        self.outcomes.extend(done.served.into_iter().map(|served| Ok((served, done.now))));
    }
}

impl Inner {
    /// Connects, and checks that the tables are those of this program.
    async fn connected(self: &Arc<Self>) -> Result<Session, Fault> {
        let live = connect(&self.address, &self.faults, &self.runtime, Some(self.hears_breaks())).await?;
        let limit = 2 * self.address.call_limit;
        let sent = self.runtime.now();
        let asked = async {
            let (row, _) = tokio::join!(
                biased;
                live.client.query_typed_one(&self.scope.sql.version, &[]),
                // Without notifications, a holder finds out at its next renewal.
                live.client.batch_execute(LISTEN_TO_BREAKS),
            );
            row
        };
        let row = self.within(limit, asked).await.map_err(|error| match error {
            TransactionError::Silent => self.faults.timed_out(META_IS_SILENT),
            error => self.faults.of(&error),
        })?;
        let identity = version::identity(&row, &self.faults)?;
        *locked(&self.identity) = Some(identity);
        let server = Columns(&row).stamp(3).map_err(|error| self.faults.of(&error))?;
        let clock = ServerClock::read(Reading { sent, heard: self.runtime.now(), server });
        Ok(Session { live, clock, number: OnceLock::new(), is_standby: false.into() })
    }

    /// The answer to a question that may take this long.
    pub(crate) async fn asked<T, E: Into<TransactionError>>(
        &self,
        limit: Duration,
        question: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Fault> {
        self.within(limit, question).await.map_err(|error| self.faults.of(&error))
    }

    /// The same, for an error that is not reported yet.
    pub(crate) async fn within<T, E: Into<TransactionError>>(
        &self,
        limit: Duration,
        question: impl Future<Output = Result<T, E>>,
    ) -> Result<T, TransactionError> {
        self.runtime.within(limit, question).await.ok_or(TransactionError::Silent)?.map_err(Into::into)
    }

    /// A holder need not have waited to be notified that its lease was broken, so this listens on
    /// the connection of the requests.
    fn hears_breaks(self: &Arc<Self>) -> OnNotification {
        let inner = Arc::downgrade(self);
        Arc::new(move |channel, payload| {
            let told =
                push::read(payload).filter(|told| channel == BROKEN && told.event == PushEvent::Broken);
            if let Some((inner, told)) = inner.upgrade().zip(told) {
                inner.receive(None, &told);
            }
        })
    }

    /// Does the first pending job, and others that can be combined with it. `false` if the
    /// connection is of no more use.
    async fn turn(&self, session: &Session, pending: &mut VecDeque<Job>) -> bool {
        let client = session.client();
        match pending.pop_front() {
            None => true,
            Some(Job::Notify { said, sent }) => {
                let notified = self.notify(client, said).await;
                if let Some(sent) = sent.filter(|_| notified.is_ok()) {
                    _ = sent.send(());
                }
                !notified.is_err_and(|error| error.is_lost())
            }
            Some(Job::Work(work)) => work(Ok(client), self).await,
            Some(Job::Serve(first)) => {
                let reads = first.requests.iter().all(Request::is_read);
                let mut count = first.requests.len();
                let mut batch = vec![first];
                while let Some(Job::Serve(next)) = pending.front() {
                    count += next.requests.len();
                    if count > MOST || next.requests.iter().all(Request::is_read) != reads {
                        break;
                    }
                    if let Some(Job::Serve(next)) = pending.pop_front() {
                        batch.push(next);
                    }
                }
                self.serve(session, batch, pending).await
            }
        }
    }

    async fn serve(&self, session: &Session, batch: Vec<Asked>, pending: &mut VecDeque<Job>) -> bool {
        let client = session.client();
        let (batch, blocked) = self.unblocked(batch);
        let requests: Vec<&Request> = batch.iter().flat_map(|asked| &asked.requests).collect();
        let Answered { mut served, mut added, error, in_doubt, .. } = self.quickly(session, &requests).await;
        let doubt = error.as_ref().map(|error| self.faults.doubted_release(error));
        let is_queue_full = error.as_ref().is_some_and(is_queue_full);
        let mut told = Vec::new();
        // Callers whose requests are served do not wait for the others, whose rows may be locked.
        let (mut rest, mut nth) = (Vec::new(), 0);
        for asked in batch {
            let numbers = nth..nth + asked.requests.len();
            nth = numbers.end;
            if !numbers.clone().all(|nth| served.contains_key(&nth)) {
                rest.push((numbers, asked));
                continue;
            }
            let quick = numbers.filter_map(|nth| served.remove(&nth));
            asked.answer(
                quick.map(|(served, now)| Ok(self.settle(served, now, &mut told, pending))).collect(),
            );
        }
        let is_up = !error.as_ref().is_some_and(TransactionError::is_lost);
        let requests: Vec<_> = blocked.iter().flat_map(|(asked, _)| &asked.requests).collect();
        let looked = if is_up { self.looked(client, &requests).await } else { vec![None; requests.len()] };
        for ((asked, fault), looked) in blocked.into_iter().zip(looked) {
            asked.answer(vec![looked.map(|(served, _)| served.answer).ok_or(fault)]);
        }
        let left = rest.iter().flat_map(|(numbers, asked)| numbers.clone().zip(&asked.requests));
        let left = left.filter(|(nth, _)| !served.contains_key(nth));
        let left: Vec<&Request> = left.map(|(_, request)| request).collect();
        let Slow { outcomes, added: more, is_lost } = self.slowly(session, &left, error).await;
        added += more;
        let mut others = outcomes.into_iter();
        for (numbers, asked) in rest {
            let mut answers = Vec::with_capacity(asked.requests.len());
            for nth in numbers {
                let Some(result) = served.remove(&nth).map(Ok).or_else(|| others.next()) else { break };
                let answer = result.map(|(served, now)| self.settle(served, now, &mut told, pending));
                let doubt = doubt.as_ref().filter(|_| in_doubt.contains(&nth));
                answers.push(match (answer, doubt) {
                    (Ok(Answer::Release(HoldAnswer::NotHeld { .. })), Some(fault)) => Err(fault.clone()),
                    (answer, _) => answer,
                });
            }
            asked.answer(answers);
        }
        // Those to whom a refused message was addressed ask by themselves, somewhat later.
        if is_lost || !told.is_empty() && self.notify(client, told).await.is_err_and(|error| error.is_lost())
        {
            return false;
        }
        if is_queue_full {
            self.relieve(client).await;
        }
        if added > 0 && !self.sweep(client).await {
            return false;
        }
        !client.is_closed()
    }

    /// Serves what can be served without a transaction of several statements.
    async fn quickly(&self, session: &Session, requests: &[&Request]) -> Answered {
        let sent = self.runtime.now();
        let quick = Quick::among_all_but(requests, |request| self.blocked.contains(request, sent));
        let own = self.push_monitor.own();
        let Some(reading) = session.clock.reading() else { return Answered::default() };
        let not_after = reading.latest(sent) + self.address.call_limit;
        let settles_at = reading.surely_past(not_after);
        let sending = self.in_doubt.sending_all(quick.granting(), None, sent, settles_at);
        let asked = quick.serve(session.client(), &self.scope, not_after, own);
        let answered = self.runtime.within(3 * self.address.call_limit, asked).await;
        let silent = || Answered { error: Some(TransactionError::Silent), ..Answered::default() };
        let mut answered = answered.unwrap_or_else(silent);
        // The server has notified the other channels.
        for (served, _) in answered.served.values_mut() {
            served.pushes.retain(|push| push.to.as_ref().is_none_or(|to| channel::number(to) == own));
        }
        if !answered.error.as_ref().is_some_and(TransactionError::is_lost) {
            self.in_doubt.answered(sending);
        }
        if let Some(server) = answered.now {
            self.noted(session, sent, server);
        }
        answered
    }

    /// Serves requests in one transaction, or each alone if that fails: a request that cannot be
    /// served because of the data at its keys must not affect the others.
    async fn slowly(
        &self,
        session: &Session,
        requests: &[&Request],
        quick: Option<TransactionError>,
    ) -> Slow {
        let mut slow = Slow::default();
        if requests.is_empty() {
            return slow;
        }
        let now = self.runtime.now();
        let have_waited = quick.as_ref().is_some_and(is_blocked);
        if have_waited {
            requests
                .iter()
                .for_each(|request| self.blocked.note(request, now, self.address.call_limit, None));
        }
        let is_known = || requests.iter().any(|request| self.blocked.contains(request, now));
        let row_wait = if have_waited || is_known() { RowWait::Short } else { RowWait::Long };
        let mut error = match quick.filter(TransactionError::is_lost) {
            Some(error) => error,
            None => match self.tried(session, requests, row_wait).await {
                Ok(done) => {
                    slow.add(done);
                    return slow;
                }
                Err(error) => error,
            },
        };
        let row_wait = if is_blocked(&error) { RowWait::Shortest } else { RowWait::Long };
        let locked = self.locked(session.client(), requests, &error).await;
        let is_locked = |request: &Request| request.keys().any(|key| locked.contains(key));
        let blocked: Vec<_> = requests.iter().copied().filter(|request| is_locked(request)).collect();
        let mut refused = self.refused(session.client(), &blocked, &error).await.into_iter();
        for request in requests {
            if is_locked(request) {
                slow.outcomes.extend(refused.next());
                continue;
            }
            // On a lost connection, it could become part of the transaction that was not answered.
            if requests.len() > 1 && !error.is_lost() {
                match self.tried(session, &[request], row_wait).await {
                    Ok(done) => {
                        slow.add(done);
                        continue;
                    }
                    Err(failed) => error = failed,
                }
            }
            slow.outcomes.extend(self.refused(session.client(), &[request], &error).await);
        }
        slow.is_lost = error.is_lost();
        slow
    }

    fn noted(&self, session: &Session, sent: Instant, server: Stamp) {
        let number = session.number.get_or_init(|| self.readings.begin_session());
        self.readings.note(*number, sent, server);
        session.clock.note(Reading { sent, heard: self.runtime.now(), server });
    }

    /// Separates the requests that would only make the others wait, with the fault for each.
    fn unblocked(&self, batch: Vec<Asked>) -> (Vec<Asked>, Vec<(Asked, Fault)>) {
        let (mut rest, mut blocked) = (Vec::with_capacity(batch.len()), Vec::new());
        for asked in batch {
            let fault = match &asked.requests[..] {
                [request] => self.blocked.refuses(request, self.runtime.now()),
                _ => None,
            };
            match fault {
                Some(fault) => blocked.push((asked, fault)),
                None => rest.push(asked),
            }
        }
        (rest, blocked)
    }

    /// The keys whose rows are locked, if that is why these requests failed. Each of them alone would
    /// wait for its rows, one after the other.
    async fn locked(
        &self,
        client: &Client,
        requests: &[&Request],
        error: &TransactionError,
    ) -> BTreeSet<Key> {
        if requests.len() < 2 || !is_blocked(error) {
            return BTreeSet::new();
        }
        let all = || requests.iter().flat_map(|request| request.keys()).cloned().collect();
        // What blocks one read, a lock of a whole table, blocks all.
        if requests.iter().all(|request| request.is_read()) {
            return all();
        }
        match self.within(self.address.call_limit, self.scope.locked(client, requests)).await {
            Ok(locked) => locked,
            Err(error) if is_blocked(&error) => all(),
            Err(_) => BTreeSet::new(),
        }
    }

    /// The outcomes of requests that failed for the same reason.
    async fn refused(
        &self,
        client: &Client,
        requests: &[&Request],
        error: &TransactionError,
    ) -> Vec<Outcome> {
        let fault = self.faults.of(error);
        if !is_blocked(error) {
            return vec![Err(fault); requests.len()];
        }
        for request in requests {
            self.blocked.note(request, self.runtime.now(), self.address.call_limit, Some(&fault));
        }
        let looked = self.looked(client, requests).await.into_iter();
        looked.map(|looked| looked.ok_or_else(|| fault.clone())).collect()
    }

    /// What can be seen of requests whose rows are locked: a refusal if another holder excludes one.
    async fn looked(&self, client: &Client, requests: &[&Request]) -> Vec<Option<(Served, Stamp)>> {
        let looked = self.within(self.address.call_limit, self.scope.look(client, requests)).await;
        looked.unwrap_or_else(|_| vec![None; requests.len()])
    }

    /// Serves requests in one transaction, and again if the server aborted it because of another
    /// one.
    async fn tried(
        &self,
        session: &Session,
        requests: &[&Request],
        row_wait: RowWait,
    ) -> Result<Done, TransactionError> {
        let client = session.client();
        let limit = 3 * self.address.call_limit;
        let mut tries = 0;
        loop {
            let sent = self.runtime.now();
            let done = self.within(limit, self.scope.serve(client, requests, row_wait)).await;
            tries += 1;
            match done {
                Err(error) if is_conflict(&error) && tries < TRIES => {}
                Ok(done) => {
                    self.noted(session, sent, done.now);
                    return Ok(done);
                }
                Err(error) => {
                    session.is_standby.fetch_or(is_standby(&error), Ordering::Relaxed);
                    return Err(error);
                }
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
            let requests = vec![Request::Advance(unfinished)];
            pending.push_back(Job::Serve(Asked { requests, reply: None }));
        }
        answer
    }

    fn say(&self, push: Push, at: Stamp, told: &mut Vec<(String, String)>) {
        let Push { to, holder, event, nonce, .. } = push;
        let said = PushMessage { holder, event, nonce, at };
        let own = self.push_monitor.own();
        match to.as_ref().and_then(channel::number) {
            _ if event == PushEvent::Broken => {
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
        let mut event = told.event;
        match &mut event {
            PushEvent::Broken => return self.notice_bus.say(&Notice::Broken { holder: told.holder }),
            // Nothing proves it, also to a waiter that cannot be told anything.
            PushEvent::Granted { .. } if number.is_some() && told.nonce.is_none() => {
                event = PushEvent::AskAgain;
            }
            PushEvent::Granted { lasts, .. } => *lasts = lasts.up_to(self.scope.window),
            PushEvent::First { .. } | PushEvent::AskAgain => {}
        }
        let now = self.runtime.now();
        let proof = told.nonce.zip(number);
        let proof = proof.map(|(nonce, number)| Proof { channel: channel::of_number(number), nonce });
        match self.readings.before(told.at) {
            Some(since) => _ = self.waiting.hears(told.holder, event, proof.as_ref(), since, now),
            // Its age is unknown.
            None => _ = self.waiting.hears(told.holder, PushEvent::AskAgain, None, now, now),
        }
    }

    /// In a separate transaction, after the one that it reports, without waiting for the disk.
    async fn notify(&self, client: &Client, said: Vec<(String, String)>) -> Result<(), TransactionError> {
        let (channels, payloads): (Vec<_>, Vec<_>) = said.into_iter().unzip();
        let parameters = [(&channels as _, Type::TEXT_ARRAY), (&payloads as _, Type::TEXT_ARRAY)];
        let notified = client.execute_typed(NOTIFY, &parameters);
        let notified = self.within(3 * self.address.call_limit, notified).await.map(drop);
        if notified.as_ref().is_err_and(is_queue_full) {
            self.relieve(client).await;
        }
        notified
    }

    /// Lets the server remove from a full queue what everybody has read. It does that after a message
    /// that it accepts, and so not by itself once the queue is full.
    async fn relieve(&self, client: &Client) {
        let asked = client.execute_typed("SELECT pg_notification_queue_usage()", &[]);
        // A failure shows in the next request.
        let _ = self.within(self.address.call_limit, asked).await;
    }

    /// Removes ended records. Each time more rows are read than were added, so they cannot pile up.
    ///
    /// No request depends on it, so a refusal is not reported to one: the next sweep tries again,
    /// and `doctor` names missing grants.
    async fn sweep(&self, client: &Client) -> bool {
        let swept = self.within(3 * self.address.call_limit, self.scope.sweep(client)).await;
        !swept.is_err_and(|error| error.is_lost())
    }
}

/// A statement alone has no limit of its own for a lock. Most such locks are those of a migration.
const META_IS_SILENT: &str = "no answer in time: the server or the network is stalled, or another transaction has locked the \
    table meta: pg_stat_activity shows it";

/// One statement, and so one transaction.
const NOTIFY: &str = "SELECT set_config('synchronous_commit', 'off', true), pg_notify(c, p) \
    FROM unnest($1::text[], $2::text[]) AS n (c, p)";
