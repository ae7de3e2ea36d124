//! The store that a program on an async runtime uses.

use std::future::pending;
use std::path::Path;
use std::process;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_core::{
    Attempt, BoxFuture, Drift, Fault, GrantAnswer, HoldAnswer, Key, KeyState, Manner, Records, Runtime,
    Store, Wake,
};
use tokio::sync::oneshot;

use crate::boot::BootId;
use crate::desk::{Desk, Job};
use crate::ledger::Ledger;

/// The locks of this machine's processes, in a file.
///
/// The file is worked on by one thread, which starts with the first request and ends when the store is dropped. Requests are
/// done in the order in which their futures were first polled, also those whose futures were dropped since: so whoever is told
/// that an attempt was given up can rely on it.
///
/// There is no line yet: whoever waits asks again from time to time.
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
    desk: Mutex<Option<Sender<Job>>>,
}

impl FileStore {
    /// The store in the file at a path; a relative one counts from the directory that the process is in now. Opens nothing
    /// yet, and cannot fail: a file that cannot be used is a [`Fault`] of the requests, and tried again at each.
    #[must_use]
    pub fn at(path: impl AsRef<Path>, runtime: Arc<dyn Runtime>) -> Self {
        let ledger = Ledger::at(path, Arc::clone(&runtime));
        Self {
            path: ledger.path().into(),
            name: ledger.name().into(),
            runtime,
            boot: None,
            process: process::id(),
            desk: Mutex::default(),
        }
    }

    /// The same, as if the machine had been booted under this id. For tests that boot no machine.
    #[must_use]
    pub fn in_boot(self, boot: BootId) -> Self {
        Self { boot: Some(boot), ..self }
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
        if sender.send(job).is_err() {
            *desk = None;
            return Err(self.unanswered());
        }
        Ok(())
    }

    fn make_desk(&self) -> Desk {
        let ledger = Ledger::at(&self.path, Arc::clone(&self.runtime));
        let ledger = match &self.boot {
            Some(boot) => ledger.in_boot(boot.clone()),
            None => ledger,
        };
        Desk::new(ledger)
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

    fn open(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.ask(Desk::open))
    }

    fn grant<'a>(
        &'a self,
        attempt: &'a Attempt,
        _manner: Manner,
    ) -> BoxFuture<'a, Result<GrantAnswer, Fault>> {
        let attempt = attempt.clone();
        Box::pin(self.ask(move |desk| desk.grant(attempt)))
    }

    /// All in one transaction.
    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        let (count, attempts) = (attempts.len(), attempts.to_vec());
        Box::pin(async move {
            match self.ask(move |desk| desk.renew(attempts)).await {
                Ok(answers) => answers.into_iter().map(Ok).collect(),
                Err(fault) => vec![Err(fault); count],
            }
        })
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        let attempt = attempt.clone();
        Box::pin(self.ask(move |desk| desk.release(attempt)))
    }

    /// Conclusive because it is done after all that was sent before it.
    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<(), Fault>> {
        let attempt = attempt.clone();
        Box::pin(self.ask(move |desk| desk.release(attempt).map(drop)))
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<KeyState, Fault>> {
        let key = key.clone();
        Box::pin(self.ask(move |desk| desk.inspect(key)))
    }

    /// All of it as it was at one moment, in one transaction that keeps nobody from writing.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<KeyState>, Fault>> {
        let prefix = prefix.to_vec();
        Box::pin(self.ask(move |desk| desk.list(&prefix)))
    }

    /// Never resolves: there is no line in the file yet, so the caller asks again by itself.
    fn woken<'a>(&'a self, _attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        Box::pin(pending())
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
