//! The store for programs on an async runtime.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use leasehold_core::{
    AdminStore, Answer, Attempt, Baseline, BaselineStore, BoxFuture, BreakAnswer, BreakRecord, Diagnosis,
    Drift, Fault, FaultKind, GrantAnswer, HoldAnswer, InspectStore, Key, KeyState, LeaseBreak, Limits, Mark,
    MarkStore, Marked, MemberStore, Misuse, Notices, Parts, ProcessStore, RaiseAnswer, ReadAnswer, Request,
    Runtime, Store, StoreFuture, StoreRole, Successor, TransferStore, Wait, WaitMode, Wake, locked,
    read_answer,
};
use tokio::sync::oneshot;
use tokio::task::coop::consume_budget;

use crate::clock::MachineClock;
use crate::connection::Patience;
use crate::inline_gate::Caller;
use crate::ledger::Ledger;
use crate::notifier::Notifier;
use crate::queue::Queue;
use crate::worker::StoreWorker;

/// Locks between the processes of this machine, in a file.
///
/// An uncontended lock is acquired and released by the task that polls the future, in a transaction
/// of some microseconds that does not wait for the disk. Work that may have to wait, for another
/// process, for the disk or for an earlier request, runs on the store's own thread, which starts
/// with the first request and ends when the store is dropped. So do concurrent requests of several
/// tasks, which that thread serves in one transaction; all requests for a while after one that took
/// longer than a millisecond for another reason than a busy processor; and those of a quorum, whose
/// other members must not wait for a disk that hangs. Requests are served in the order in which
/// their futures were first polled, even if those were dropped since: so once an attempt was given
/// up, that is final.
///
/// Waiters are in a queue, and a release hands the lock to the first one, with a datagram if that
/// is in another process.
///
/// A grant ends when the process dies, as with `flock`, and not only when its lease does; see
/// [`lifelines`](ProcessStore::lifelines).
///
/// # Cancel safety
///
/// A dropped future undoes nothing; give the attempt up.
#[derive(Debug)]
pub struct FileStore {
    path: Arc<Path>,
    name: Arc<str>,
    runtime: Arc<dyn Runtime>,
    notifier: Arc<Notifier>,
    queue: Mutex<Option<Queue>>,
    is_member: AtomicBool,
}

impl FileStore {
    /// The store in the file at a path; a relative path starts at the current directory. This opens
    /// nothing and cannot fail: if the file cannot be used, requests return a [`Fault`], and each
    /// of them tries again.
    #[must_use]
    pub fn at(path: impl AsRef<Path>, runtime: Arc<dyn Runtime>) -> Self {
        let ledger = Ledger::at(path, Arc::clone(&runtime));
        // Only to spread the requests of several processes; the low bits suffice.
        let seed = runtime.random() as u64;
        Self {
            path: ledger.path().into(),
            name: ledger.name().into(),
            notifier: Arc::new(Notifier::new(
                Arc::clone(ledger.sessions()),
                MachineClock::of(Arc::clone(&runtime)),
                seed,
            )),
            runtime,
            queue: Mutex::default(),
            is_member: AtomicBool::new(false),
        }
    }

    /// Runs some work on the thread, and waits for its result.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut StoreWorker) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (sender, answer) = oneshot::channel();
        // The caller may no longer wait.
        self.queue()?.send(work, move |done| drop(sender.send(done)));
        answer.await.unwrap_or_else(|_| Err(self.unanswered()))
    }

    /// Runs some work, which is one transaction, directly if nothing has to be waited for.
    async fn ask_at_once<T: Send + 'static>(
        &self,
        work: impl Fn(&mut StoreWorker, Patience) -> Result<Option<T>, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let queue = self.queue()?;
        if let Some(done) = self.directly(&queue, |worker| work(worker, Patience::AtOnce)).await {
            return done;
        }
        let done = self.ask(move |worker| work(worker, Patience::Waits)).await?;
        done.ok_or_else(|| self.unanswered())
    }

    /// Runs some work of the caller as [`Queue::at_once`] does, but not for a quorum: a disk that
    /// hangs would also stop the requests to the other members.
    async fn directly<T>(
        &self,
        queue: &Queue,
        work: impl FnOnce(&mut StoreWorker) -> Result<Option<T>, Fault>,
    ) -> Option<Result<T, Fault>> {
        if self.is_member.load(Ordering::Relaxed) {
            return None;
        }
        let done = queue.at_once(Caller::current(), |worker| work(worker).transpose())?;
        // Otherwise a task that sends one request after the other would block all others of its
        // thread.
        consume_budget().await;
        Some(done.unwrap_or_else(|| Err(self.unanswered())))
    }

    /// Serves requests on the thread, together with those of other callers.
    async fn serve(&self, requests: Vec<Request>) -> Result<Vec<Answer>, Fault> {
        self.queue()?.serve(requests).await.unwrap_or_else(|_| Err(self.unanswered()))
    }

    /// Serves one request, and extracts the answer.
    async fn serve_one<T>(&self, request: Request, read: ReadAnswer<T>) -> Result<T, Fault> {
        let mut answers = self.serve(vec![request]).await?;
        read(answers.remove(0), &self.name)
    }

    /// The same, directly if nothing has to be waited for.
    async fn serve_at_once<T>(&self, request: Request, read: ReadAnswer<T>) -> Result<T, Fault> {
        let queue = self.queue()?;
        let mut requests = [request];
        let served = self.directly(&queue, |worker| worker.serve(&mut requests, &queue, Patience::AtOnce));
        let mut answers = match served.await {
            Some(served) => served?,
            None => self.serve(requests.into()).await?,
        };
        read(answers.remove(0), &self.name)
    }

    /// Serves several requests of a kind, all or none.
    async fn serve_each<T>(&self, requests: Vec<Request>, read: ReadAnswer<T>) -> Vec<Result<T, Fault>> {
        let count = requests.len();
        match self.serve(requests).await {
            Ok(answers) => answers.into_iter().map(|answer| read(answer, &self.name)).collect(),
            Err(fault) => (0..count).map(|_| Err(fault.clone())).collect(),
        }
    }

    /// The way to the worker, which is set up by the first request.
    fn queue(&self) -> Result<Queue, Fault> {
        // A forked child does not have the thread, and must not use SQLite's locks.
        if self.notifier.sessions.is_inherited() {
            return Err(Fault::lasting(
                &self.name,
                "this process was forked from the one that made the store: make the first store after the fork",
            ));
        }
        let mut queue = locked(&self.queue);
        if let Some(queue) = &*queue {
            return Ok(queue.clone());
        }
        let ledger = Ledger::at(&self.path, Arc::clone(&self.runtime));
        let ledger = ledger.with_sessions(Arc::clone(&self.notifier.sessions)).mortal();
        let started = Queue::start(StoreWorker::new(ledger, Arc::clone(&self.notifier)))
            .map_err(|error| Fault::passing(&self.name, format_args!("cannot start a thread: {error}")))?;
        Ok(queue.insert(started).clone())
    }

    fn unanswered(&self) -> Fault {
        Fault::passing(&self.name, "the store failed at this request, and says why on standard error")
    }
}

impl Store for FileStore {
    fn name(&self) -> &str {
        &self.name
    }

    /// All processes of a machine read the same clock.
    fn limits(&self) -> Limits {
        Limits::with_drift(Drift::ON_ONE_CLOCK)
    }

    /// Creates nothing: the first grant creates the file.
    fn open(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.ask(|worker| worker.ledger().open_if_there()))
    }

    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer> {
        Box::pin(async move {
            let wait = match wait_mode {
                WaitMode::Wait { queue_limit } => {
                    let ticket = self.notifier.waiting.asks(attempt.holder, None, self.runtime.now());
                    Some(Wait { ticket, queue_limit, ..Wait::default() })
                }
                _ => None,
            };
            let waits = wait.is_some();
            let request = Request::Grant { attempt: attempt.clone(), wait, not_after: None };
            let answer = self.serve_at_once(request, read_answer!(Grant)).await;
            if waits && answer.as_ref().is_err_and(|fault| fault.kind != FaultKind::Passing) {
                // It will not be given up, because nothing of it is left.
                self.notifier.waiting.leave(attempt.holder, self.runtime.now());
            }
            answer
        })
    }

    /// All in one transaction.
    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let requests = attempts.iter().cloned().map(Request::Renew).collect();
        Box::pin(self.serve_each(requests, read_answer!(Renew)))
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async move {
            self.notifier.waiting.leave(attempt.holder, self.runtime.now());
            self.serve_at_once(Request::Release(attempt.clone()), read_answer!(Release)).await
        })
    }

    /// Conclusive, because it is served after everything that was sent before it.
    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.release(attempt).await.map(drop) })
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        self.notifier.waiting.called(attempt.holder, &*self.runtime)
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            member: Some(self),
            inspect: Some(self),
            marks: Some(self),
            transfer: Some(self),
            admin: Some(self),
            process: Some(self),
            voting: None,
            baseline: Some(self),
        }
    }
}

impl MemberStore for FileStore {
    fn as_member(&self) -> Result<(), Misuse> {
        self.is_member.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The file itself, whatever its path; it changes if somebody moves the file away. Before there is
    /// one, its directory and its name.
    fn identity(&self) -> Option<Arc<str>> {
        if let Ok(file) = std::fs::metadata(&self.path) {
            return Some(format!("file {} {}", file.dev(), file.ino()).into());
        }
        let (directory, name) = (std::fs::metadata(self.path.parent()?).ok()?, self.path.file_name()?);
        Some(format!("file {} {} {}", directory.dev(), directory.ino(), name.display()).into())
    }

    /// All in one transaction.
    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let request = |attempt| Request::Rejoin { attempt, not_after: None };
        let requests = attempts.iter().cloned().map(request).collect();
        Box::pin(self.serve_each(requests, read_answer!(Rejoin)))
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, RaiseAnswer> {
        Box::pin(self.serve_one(Request::Raise(attempt.clone()), read_answer!(Raise)))
    }
}

impl TransferStore for FileStore {
    fn transfer<'a>(&'a self, attempt: &'a Attempt, successor: &'a Successor) -> StoreFuture<'a, HoldAnswer> {
        let request =
            Request::Transfer { attempt: attempt.clone(), successor: successor.clone(), not_after: None };
        Box::pin(self.serve_one(request, read_answer!(Transfer)))
    }
}

impl InspectStore for FileStore {
    fn inspect<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, KeyState> {
        Box::pin(self.serve_one(Request::Inspect(key.clone()), read_answer!(Inspect)))
    }

    /// The state at one moment, in one transaction that does not block writers.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<KeyState>> {
        let prefix = prefix.to_vec();
        Box::pin(self.ask(move |worker| worker.ledger().list(&prefix)))
    }

    /// The socket on which this process's waiters are notified, which is opened now if necessary.
    fn notices(&self) -> Option<Box<dyn Notices>> {
        let notices = self.notifier.notice_bus.read();
        // A thread that cannot be started is a fault of the requests.
        if let Ok(queue) = self.queue() {
            let way = queue.clone();
            queue.send(move |worker| worker.listen(&way), drop);
        }
        Some(notices)
    }
}

impl MarkStore for FileStore {
    /// When this resolves, the mark is on disk: it survives a power cut.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> StoreFuture<'a, HoldAnswer> {
        let request = Request::Mark { attempt: attempt.clone(), mark: mark.clone(), keep };
        Box::pin(self.serve_one(request, read_answer!(Mark)))
    }

    fn marked<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Marked> {
        Box::pin(self.serve_one(Request::Marked(key.clone()), read_answer!(Marked)))
    }

    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<Mark>> {
        let key = key.clone();
        Box::pin(self.ask(move |worker| worker.ledger().forget(&key)))
    }

    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<(Key, Marked)>> {
        let prefix = prefix.to_vec();
        Box::pin(self.ask(move |worker| worker.ledger().list_marks(&prefix)))
    }
}

impl AdminStore for FileStore {
    fn break_lease<'a>(&'a self, key: &'a Key, lease: &'a LeaseBreak) -> StoreFuture<'a, BreakAnswer> {
        let request = Request::Break { key: key.clone(), lease: lease.clone() };
        Box::pin(self.serve_one(request, read_answer!(Break)))
    }

    fn last_break<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<BreakRecord>> {
        let key = key.clone();
        Box::pin(self.ask(move |worker| worker.ledger().last_break(&key)))
    }

    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<BreakRecord>> {
        let prefix = prefix.to_vec();
        Box::pin(self.ask(move |worker| worker.ledger().list_breaks(&prefix)))
    }

    /// Inspects the file without opening the store, so that it works even for a file that cannot be used.
    fn diagnose(&self, _: StoreRole) -> BoxFuture<'_, Diagnosis> {
        Box::pin(async { crate::diagnose::diagnose(&self.path, &self.name) })
    }
}

impl ProcessStore for FileStore {
    /// Runs `work` while this store writes nothing. A process that stops during a transaction
    /// blocks the file for everybody.
    fn at_rest(&self, work: Box<dyn FnOnce() + Send>) {
        // Without a thread, nothing is written either.
        let Ok(queue) = self.queue() else { return work() };
        let (sender, done) = mpsc::channel();
        queue.send(move |_| work(), move |()| _ = sender.send(()));
        // There is no result after a panic.
        let _ = done.recv();
    }

    /// A descriptor with an `flock`: a process that finds that nobody holds it counts the leases of
    /// this store as ended. A process that was forked from this one, and has not called exec since,
    /// holds it too.
    fn lifelines(&self) -> Vec<OwnedFd> {
        let lifeline = || {
            if self.notifier.sessions.own().is_none() {
                let (sender, entered) = mpsc::channel();
                let queue = self.queue().ok()?;
                queue.send(|worker| worker.ledger().enter(), move |entered| drop(sender.send(entered)));
                entered.recv_timeout(UNTIL_A_SESSION).ok()?.ok()?;
            }
            self.notifier.sessions.lifeline()
        };
        lifeline().into_iter().collect()
    }
}

/// A file on a disk that takes longer has granted nothing: it is a member of a quorum.
const UNTIL_A_SESSION: Duration = Duration::from_millis(500);

impl BaselineStore for FileStore {
    /// A transaction that reads a row; or two that each write one. On the same path as locks.
    fn run_baseline<'a>(&'a self, what: &'a Baseline) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let Baseline::Pair { key, holder, ttl, .. } = what.clone() else {
                return self
                    .ask_at_once(|worker, patience| worker.ledger().baseline_round_trip(patience))
                    .await;
            };
            let same = key.clone();
            let take = move |worker: &mut StoreWorker, patience| {
                worker.ledger().baseline_acquire(&same, holder, ttl, patience)
            };
            self.ask_at_once(take).await?;
            self.ask_at_once(move |worker, patience| worker.ledger().baseline_release(&key, holder, patience))
                .await
        })
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        // In a forked child, the socket and the thread belong to the parent.
        if !self.notifier.sessions.is_inherited() {
            self.notifier.close();
            // The thread does this too, but the process may end before.
            self.notifier.go_if_nothing_is_held();
        }
    }
}

#[cfg(test)]
mod tests;
