//! What is done with a request on the store's own thread: the ledger, and the line of those who wait.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Sender};
use std::thread;

use leasehold_core::{Answer, Attempt, Fault, GrantAnswer, HoldAnswer, Key, KeyState, Records, Request};

use crate::ledger::Ledger;

/// One request, with the way back for its answer.
pub(crate) type Job = Box<dyn FnOnce(&mut Desk) + Send>;

/// Where requests are served, one after the other in the order in which they were sent.
#[derive(Debug)]
pub(crate) struct Desk {
    ledger: Ledger,
}

impl Desk {
    pub(crate) const fn new(ledger: Ledger) -> Self {
        Self { ledger }
    }

    /// Serves on a thread of its own until nobody can send any more; what was sent before is still done.
    pub(crate) fn start(mut self) -> io::Result<Sender<Job>> {
        let (sender, jobs) = mpsc::channel::<Job>();
        thread::Builder::new().name("leasehold-file".into()).spawn(move || {
            for job in jobs {
                // Whoever asked learns of a panic by the answer that does not come. The file is opened anew, which takes back
                // what the request did.
                if catch_unwind(AssertUnwindSafe(|| job(&mut self))).is_err() {
                    self.ledger.close();
                }
            }
        })?;
        Ok(sender)
    }

    pub(crate) fn open(&mut self) -> Result<(), Fault> {
        self.ledger.open()
    }

    pub(crate) fn grant(&mut self, attempt: Attempt) -> Result<GrantAnswer, Fault> {
        match self.ledger.serve(Request::Grant { attempt, wait: None, not_after: None })?.answer {
            Answer::Grant(answer) => Ok(answer),
            _ => Err(self.astray()),
        }
    }

    pub(crate) fn renew(&mut self, attempts: Vec<Attempt>) -> Result<Vec<HoldAnswer>, Fault> {
        let requests: Vec<_> = attempts.into_iter().map(Request::Renew).collect();
        let answers = self.ledger.serve_all(&requests)?;
        let renewed = answers.into_iter().map(|served| match served.answer {
            Answer::Renew(answer) => Ok(answer),
            _ => Err(self.astray()),
        });
        renewed.collect()
    }

    pub(crate) fn release(&mut self, attempt: Attempt) -> Result<HoldAnswer, Fault> {
        match self.ledger.serve(Request::Release(attempt))?.answer {
            Answer::Release(answer) => Ok(answer),
            _ => Err(self.astray()),
        }
    }

    pub(crate) fn inspect(&mut self, key: Key) -> Result<KeyState, Fault> {
        match self.ledger.serve(Request::Inspect(key))?.answer {
            Answer::Inspect(state) => Ok(state),
            _ => Err(self.astray()),
        }
    }

    pub(crate) fn list(&mut self, prefix: &[u8]) -> Result<Vec<KeyState>, Fault> {
        self.ledger.list(prefix)
    }

    pub(crate) fn dump(&mut self) -> Result<Records, Fault> {
        self.ledger.dump()
    }

    fn astray(&self) -> Fault {
        Fault::lasting(
            self.ledger.name(),
            "the answer is to another request: this is a fault in leasehold-core",
        )
    }
}
