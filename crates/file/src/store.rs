//! The store that a program on an async runtime uses.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::{
    Attempt, Bare, BoxFuture, BreakAnswer, Drift, Examination, Fault, Fence, GrantAnswer, HoldAnswer, Key,
    KeyState, Manner, Mark, Marked, Notices, RaiseAnswer, Records, Runtime, Seat, Store, Wake,
};
use tokio::sync::oneshot;

use crate::boot::BootId;
use crate::desk::{Desk, Job};
use crate::ledger::Ledger;
use crate::post::Post;

/// The locks of this machine's processes, in a file.
///
/// The file is worked on by one thread, which starts with the first request and ends when the store is dropped. Requests are
/// done in the order in which their futures were first polled, also those whose futures were dropped since: so whoever is told
/// that an attempt was given up can rely on it.
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
    desk: Mutex<Option<Sender<Job>>>,
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
            desk: Mutex::default(),
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
        self.send(Box::new(move |desk| {
            let _ = sender.send(desk.dump());
        }))?;
        answer.recv().unwrap_or_else(|_| Err(self.unanswered()))
    }

    /// Has some work done on the thread, and waits for what comes of it.
    async fn ask<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (sender, answer) = oneshot::channel();
        self.send(Box::new(move |desk| {
            // Nobody may be waiting for it any more.
            let _ = sender.send(work(desk));
        }))?;
        answer.await.unwrap_or_else(|_| Err(self.unanswered()))
    }

    fn send(&self, job: Job) -> Result<(), Fault> {
        self.send_with(|_| job)
    }

    /// Sends what is made with the way by which more can be sent.
    fn send_with(&self, job: impl FnOnce(&Sender<Job>) -> Job) -> Result<(), Fault> {
        // The thread did not come along, and an answer never would; nor may SQLite's locks be used on this side of a fork.
        if self.process != process::id() {
            return Err(Fault::lasting(
                &self.name,
                "this process was forked from the one that made the store: make another store here",
            ));
        }
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &*desk {
            Some(sender) => sender,
            None => {
                let started = self.make_desk().start().map_err(|error| {
                    Fault::passing(&self.name, format_args!("cannot start a thread: {error}"))
                })?;
                desk.insert(started)
            }
        };
        let job = job(sender);
        if sender.send(job).is_err() {
            *desk = None;
            return Err(self.unanswered());
        }
        Ok(())
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
        Fault::passing(
            &self.name,
            "the store's thread failed at this request, and says why on standard error",
        )
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
            let (sender, answer) = oneshot::channel();
            let attempt = attempt.clone();
            self.send_with(|way| {
                let way = way.clone();
                Box::new(move |desk| {
                    // Nobody may be waiting for it any more.
                    let _ = sender.send(desk.grant(attempt, manner, ticket, &way));
                })
            })?;
            answer.await.unwrap_or_else(|_| Err(self.unanswered()))
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
            self.ask(move |desk| desk.release(attempt)).await
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
        let _ = self.send_with(|way| {
            let way = way.clone();
            Box::new(move |desk| desk.listen(&way))
        });
        Some(notices)
    }

    /// Looks only from outside, so that it tells also of a file that cannot be used.
    fn examine(&self, _: Seat) -> BoxFuture<'_, Examination> {
        Box::pin(async { crate::examine::examine(&self.path, &self.name) })
    }

    /// A transaction that reads a row; and two that write one, each alone. On the thread of the locks.
    fn bare<'a>(&'a self, what: &'a Bare) -> BoxFuture<'a, Result<(), Fault>> {
        let what = what.clone();
        Box::pin(self.ask(move |desk| desk.bare(&what)))
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        self.post.waiting.called(attempt.holder, &*self.runtime)
    }

    /// On the thread that writes. A process that stops in the middle of a transaction keeps the file from everybody.
    fn at_rest(&self, work: Box<dyn FnOnce() + Send>) {
        let work = Arc::new(Mutex::new(Some(work)));
        let do_it = |work: &Mutex<Option<Box<dyn FnOnce() + Send>>>| {
            let work = work.lock().unwrap_or_else(PoisonError::into_inner).take();
            work.into_iter().for_each(|work| work());
        };
        let (sender, done) = mpsc::channel();
        let there = Arc::clone(&work);
        let sent = self.send(Box::new(move |_| {
            do_it(&there);
            let _ = sender.send(());
        }));
        // Where there is no thread, nothing is written either.
        if sent.is_err() || done.recv().is_err() {
            do_it(&work);
        }
    }

    /// A descriptor with an `flock`: whoever finds that nobody has it takes the leases of this store for ended. A process that was
    /// forked from this one, and has not called exec since, has it too.
    fn lifeline(&self) -> Option<OwnedFd> {
        if self.post.peers.own().is_none() {
            let (sender, entered) = mpsc::channel();
            self.send(Box::new(move |desk| {
                let _ = sender.send(desk.enter());
            }))
            .ok()?;
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
mod tests {
    use super::*;
    use crate::stopped::Stopped;

    #[tokio::test]
    async fn a_panic_on_the_thread_is_a_fault_of_that_request_only() {
        let directory = tempfile::tempdir().unwrap();
        let store = FileStore::at(directory.path().join("leases.db"), Arc::new(Stopped));
        let fault = store.ask::<()>(|_| panic!("on purpose")).await.unwrap_err();
        assert!(fault.reason.contains("thread failed"), "{fault}");
        store.open().await.unwrap();
    }
}
