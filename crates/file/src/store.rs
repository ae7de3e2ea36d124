//! The store that a program on an async runtime uses.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::{
    Attempt, Bare, BoxFuture, BreakAnswer, Drift, Examination, Fault, Fence, GrantAnswer, HoldAnswer, Key,
    KeyState, Manner, Mark, Marked, Notices, RaiseAnswer, Records, Runtime, Seat, Store, Wake,
};
use tokio::sync::oneshot;
use tokio::task::coop::consume_budget;

use crate::boot::BootId;
use crate::desk::Desk;
use crate::ledger::Ledger;
use crate::post::Post;
use crate::queue::{Queue, Task};

/// The locks of this machine's processes, in a file.
///
/// A lock that nothing stands in the way of is taken and released by whoever polls the future, in a transaction of some microseconds
/// that waits for no disk. Whatever may have to wait, for another process, for the disk or for a request before it, is done by a thread
/// of the store's own, which starts with the first request and ends when the store is dropped; so is what several tasks ask side by
/// side, and everything for a while after a transaction that took longer than a millisecond. Requests are done in the order in which
/// their futures were first polled, also those whose futures were dropped since: so whoever is told that an attempt was given up can
/// rely on it.
///
/// Whoever waits stands in line, and whoever releases hands the lock to the first: by a datagram where that is in another process.
///
/// What is granted ends when the process dies, as with `flock`, and not only when its lease does; see
/// [`lifeline`](Store::lifeline).
///
/// # Cancel safety
///
/// A dropped future takes nothing back; give the attempt up.
#[derive(Debug)]
pub struct FileStore {
    path: Arc<Path>,
    name: Arc<str>,
    runtime: Arc<dyn Runtime>,
    boot: Option<BootId>,
    process: u32,
    post: Arc<Post>,
    queue: Mutex<Option<Queue>>,
}

impl FileStore {
    /// The store in the file at a path; a relative one counts from the directory that the process is in now. Opens nothing
    /// yet, and cannot fail: a file that cannot be used is a [`Fault`] of the requests, and tried again at each.
    #[must_use]
    pub fn at(path: impl AsRef<Path>, runtime: Arc<dyn Runtime>) -> Self {
        let ledger = Ledger::at(path, Arc::clone(&runtime));
        // Only to keep processes apart that ask again; and the low bits are as good as any.
        let seed = runtime.random() as u64;
        Self {
            path: ledger.path().into(),
            name: ledger.name().into(),
            post: Arc::new(Post::new(Arc::clone(ledger.peers()), Arc::clone(&runtime), seed)),
            runtime,
            boot: None,
            process: process::id(),
            queue: Mutex::default(),
        }
    }

    /// The same, as if the machine had been booted under this id. For tests that boot no machine.
    #[must_use]
    pub fn in_boot(mut self, boot: BootId) -> Self {
        self.boot = Some(boot);
        self
    }

    /// Everything that is written in the file, also what has ended. For tests and diagnosis; it blocks.
    ///
    /// # Errors
    ///
    /// A [`Fault`] when the file cannot be used.
    pub fn dump(&self) -> Result<Records, Fault> {
        let (sender, answer) = mpsc::channel();
        self.queue()?.send(Desk::dump, move |records| drop(sender.send(records)));
        answer.recv().unwrap_or_else(|_| Err(self.unanswered()))
    }

    /// Has some work done on the thread, and waits for what comes of it.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (sender, answer) = oneshot::channel();
        // Nobody may be waiting for it any more.
        self.queue()?.send(work, move |done| drop(sender.send(done)));
        answer.await.unwrap_or_else(|_| Err(self.unanswered()))
    }

    /// The same, but here and now if nothing has to be waited for. The work is one transaction, in its turn among those that write, and
    /// nothing that the disk must have.
    async fn ask_at_once<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk, &Queue) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let queue = self.queue()?;
        let way = queue.clone();
        match queue.at_once(Task::current().await, move |desk: &mut Desk| work(desk, &way)) {
            Ok(done) => {
                // A task that asks again and again never has to wait, and would keep all others of its thread from running.
                consume_budget().await;
                done.unwrap_or_else(|| Err(self.unanswered()))
            }
            Err(work) => self.ask(work).await,
        }
    }

    /// The way to the desk, which is set up with the first request.
    fn queue(&self) -> Result<Queue, Fault> {
        // The thread did not come along, and an answer never would; nor may SQLite's locks be used on this side of a fork.
        if self.process != process::id() {
            return Err(Fault::lasting(
                &self.name,
                "this process was forked from the one that made the store: make another store here",
            ));
        }
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(queue) = &*queue {
            return Ok(queue.clone());
        }
        let started = Queue::start(self.make_desk())
            .map_err(|error| Fault::passing(&self.name, format_args!("cannot start a thread: {error}")))?;
        Ok(queue.insert(started).clone())
    }

    fn make_desk(&self) -> Desk {
        let ledger = Ledger::at(&self.path, Arc::clone(&self.runtime));
        let ledger = ledger.with_peers(Arc::clone(&self.post.peers)).mortal();
        let ledger = match &self.boot {
            Some(boot) => ledger.in_boot(boot.clone()),
            None => ledger,
        };
        Desk::new(ledger, Arc::clone(&self.post))
    }

    fn unanswered(&self) -> Fault {
        Fault::passing(&self.name, "the store failed at this request, and says why on standard error")
    }
}

impl Store for FileStore {
    fn name(&self) -> &str {
        &self.name
    }

    /// All processes of a machine read one clock.
    fn drift(&self) -> Drift {
        Drift::ON_ONE_CLOCK
    }

    /// The file itself, whatever leads to it; another one once somebody moved it away.
    fn identity(&self) -> Option<Arc<str>> {
        let file = std::fs::metadata(&self.path).ok()?;
        Some(format!("file {} {}", file.dev(), file.ino()).into())
    }

    fn open(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.ask(Desk::open))
    }

    fn grant<'a>(
        &'a self,
        attempt: &'a Attempt,
        manner: Manner,
    ) -> BoxFuture<'a, Result<GrantAnswer, Fault>> {
        Box::pin(async move {
            let ticket = match manner {
                Manner::Wait { .. } => self.post.waiting.asks(attempt.holder, self.runtime.now()),
                _ => None,
            };
            let attempt = attempt.clone();
            self.ask_at_once(move |desk, way| desk.grant(attempt, manner, ticket, way)).await
        })
    }

    /// All in one transaction.
    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let (count, attempts) = (attempts.len(), attempts.to_vec());
        Box::pin(async move {
            match self.ask(move |desk| desk.renew(attempts)).await {
                Ok(answers) => answers,
                Err(fault) => vec![Err(fault); count],
            }
        })
    }

    /// All in one transaction.
    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let (count, attempts) = (attempts.len(), attempts.to_vec());
        Box::pin(async move {
            match self.ask(move |desk| desk.rejoin(attempts)).await {
                Ok(answers) => answers,
                Err(fault) => vec![Err(fault); count],
            }
        })
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<RaiseAnswer, Fault>> {
        let attempt = attempt.clone();
        Box::pin(self.ask(move |desk| desk.raise(attempt)))
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        Box::pin(async move {
            self.post.waiting.leave(attempt.holder, self.runtime.now());
            let attempt = attempt.clone();
            self.ask_at_once(move |desk, _| desk.release(attempt)).await
        })
    }

    /// Conclusive because it is done after all that was sent before it.
    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move { self.release(attempt).await.map(drop) })
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<KeyState, Fault>> {
        let key = key.clone();
        Box::pin(self.ask(move |desk| desk.inspect(key)))
    }

    /// When this resolves, the disk has it: it outlasts a power cut.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        let (attempt, mark) = (attempt.clone(), mark.clone());
        Box::pin(self.ask(move |desk| desk.mark(attempt, mark, keep)))
    }

    fn marked<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Marked, Fault>> {
        let key = key.clone();
        Box::pin(self.ask(move |desk| desk.marked(key)))
    }

    /// All of it as it was at one moment, in one transaction that keeps nobody from writing.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<KeyState>, Fault>> {
        let prefix = prefix.to_vec();
        Box::pin(self.ask(move |desk| desk.list(&prefix)))
    }

    fn break_lease<'a>(&'a self, key: &'a Key, fence: Fence) -> BoxFuture<'a, Result<BreakAnswer, Fault>> {
        let key = key.clone();
        Box::pin(self.ask(move |desk| desk.break_lease(key, fence)))
    }

    /// Other processes say it to the socket at which those of this one who wait hear of their turns; it is opened now if it was not.
    fn notices(&self) -> Option<Box<dyn Notices>> {
        let notices = self.post.bulletin.read();
        // A thread that cannot be started is a fault of the requests.
        if let Ok(queue) = self.queue() {
            let way = queue.clone();
            queue.send(move |desk| desk.listen(&way), drop);
        }
        Some(notices)
    }

    /// Looks only from outside, so that it tells also of a file that cannot be used.
    fn examine(&self, _: Seat) -> BoxFuture<'_, Examination> {
        Box::pin(async { crate::examine::examine(&self.path, &self.name) })
    }

    /// A transaction that reads a row; and two that write one, each alone. By the way of the locks.
    fn bare<'a>(&'a self, what: &'a Bare) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(async move {
            let Bare::Pair { key, holder, ttl, .. } = what.clone() else {
                return self.ask_at_once(|desk, _| desk.bare_trip()).await;
            };
            let same = key.clone();
            self.ask_at_once(move |desk, _| desk.bare_take(&same, holder, ttl)).await?;
            self.ask_at_once(move |desk, _| desk.bare_let_go(&key, holder)).await
        })
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        self.post.waiting.called(attempt.holder, &*self.runtime)
    }

    /// While this store writes nothing. A process that stops in the middle of a transaction keeps the file from everybody.
    fn at_rest(&self, work: Box<dyn FnOnce() + Send>) {
        // Where there is no thread, nothing is written either.
        let Ok(queue) = self.queue() else { return work() };
        let (sender, done) = mpsc::channel();
        queue.send(move |_| work(), move |()| _ = sender.send(()));
        // Nothing comes of a panic.
        let _ = done.recv();
    }

    /// A descriptor with an `flock`: whoever finds that nobody has it takes the leases of this store for ended. A process that was
    /// forked from this one, and has not called exec since, has it too.
    fn lifeline(&self) -> Option<OwnedFd> {
        if self.post.peers.own().is_none() {
            let (sender, entered) = mpsc::channel();
            self.queue().ok()?.send(Desk::enter, move |entered| drop(sender.send(entered)));
            entered.recv().ok()?.ok()?;
        }
        self.post.peers.lifeline()
    }
}

impl Drop for FileStore {
    fn drop(&mut self) {
        // On this side of a fork, socket and thread are another's.
        if self.process == process::id() {
            self.post.close();
            // The thread does this too, but the process may be gone before.
            self.post.go_if_nothing_is_held();
        }
    }
}

#[cfg(test)]
mod tests;
