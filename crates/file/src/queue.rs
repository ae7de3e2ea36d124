//! The way to the worker: directly if nothing is in the way, otherwise in order through the store's
//! own thread, which serves all waiting requests in one transaction.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_core::{Answer, Fault, Holder, Key, Request, locked};
use tokio::sync::oneshot;

use crate::connection::Patience;
use crate::inline_gate::{Caller, sleeps};
use crate::notifier::Errands;
use crate::worker::StoreWorker;

/// The most callers in one transaction, which blocks writes of other processes meanwhile.
const TOGETHER: usize = 64;

/// Work for the thread.
enum Work {
    Serve(Asked),
    Other(Box<dyn FnOnce(&Shared) + Send>),
}

/// One caller's requests, and the channel for the answers.
struct Asked {
    requests: Vec<Request>,
    queue: Queue,
    answers: oneshot::Sender<Result<Vec<Answer>, Fault>>,
}

/// The sender of requests. The thread ends once all clones are dropped and all is done.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    shared: Arc<Shared>,
    work: Sender<Work>,
}

#[derive(Debug)]
struct Shared {
    worker: Mutex<StoreWorker>,
    /// The amount of work that was sent and is not done yet. Nothing may overtake it.
    sent: AtomicUsize,
}

impl Queue {
    pub(crate) fn start(worker: StoreWorker) -> io::Result<Self> {
        let (work, sent) = mpsc::channel();
        let shared = Arc::new(Shared { worker: Mutex::new(worker), sent: AtomicUsize::new(0) });
        let here = Arc::clone(&shared);
        thread::Builder::new().name("leasehold-file".into()).spawn(move || here.work_off(&sent))?;
        Ok(Self { shared, work })
    }

    /// Serves requests on the thread, behind all sent before. No answer if that panicked.
    pub(crate) fn serve(&self, requests: Vec<Request>) -> oneshot::Receiver<Result<Vec<Answer>, Fault>> {
        let (answers, answer) = oneshot::channel();
        self.send_work(Work::Serve(Asked { requests, queue: self.clone(), answers }));
        answer
    }

    /// Runs some work on the thread, after everything that was sent before, and then passes its
    /// result on, if it did not panic. The worker is free by then.
    pub(crate) fn send<T>(
        &self,
        work: impl FnOnce(&mut StoreWorker) -> T + Send + 'static,
        then: impl FnOnce(T) + Send + 'static,
    ) {
        self.send_work(Work::Other(Box::new(move |shared| {
            let done = guarded(&mut locked(&shared.worker), work);
            shared.sent.fetch_sub(1, Ordering::SeqCst);
            if let Some(done) = done {
                then(done);
            }
        })));
    }

    fn send_work(&self, work: Work) {
        self.shared.sent.fetch_add(1, Ordering::SeqCst);
        let sent = self.work.send(work);
        // The thread lives as long as this.
        debug_assert!(sent.is_ok());
    }

    /// Runs some work of a caller directly. `None` if something is before it, or it would have to
    /// wait for anything; also if callers ask concurrently. `Some(None)` if it panicked.
    pub(crate) fn at_once<T>(
        &self,
        caller: Caller,
        work: impl FnOnce(&mut StoreWorker) -> Option<T>,
    ) -> Option<Option<T>> {
        let Ok(mut worker) = self.shared.worker.try_lock() else { return None };
        let admitted = Instant::now();
        if self.shared.sent.load(Ordering::SeqCst) > 0 || !worker.inline_gate.admit(caller, admitted) {
            return None;
        }
        let before = worker.inline_gate.is_watching(admitted).then(sleeps).flatten();
        let done = guarded(&mut worker, work);
        let has_slept = || before.zip(sleeps()).is_none_or(|(before, after)| before < after);
        worker.inline_gate.ended(admitted, Instant::now(), has_slept);
        let has_work = worker.has_work();
        drop(worker);
        if has_work {
            // The thread checks for work before it sleeps again.
            let _ = self.work.send(Work::Other(Box::new(|_| ())));
        }
        done.map_or(Some(None), |done| done.map(Some))
    }
}

impl Errands for Queue {
    fn open_file(&self) {
        // A file that cannot be opened again is a fault of the requests.
        self.send(|worker| worker.ledger().open_if_there(), drop);
    }

    fn take_back(&self, holder: Holder, key: Key) {
        self.send(move |worker| worker.take_back(holder, key), drop);
    }
}

impl Shared {
    fn work_off(&self, sent: &Receiver<Work>) {
        // Otherwise Linux makes pauses of some microseconds 50 µs longer.
        #[cfg(target_os = "linux")]
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1000));
        let mut next = None;
        let mut together = Vec::new();
        loop {
            let rest = locked(&self.worker).rest();
            let work = match (next.take(), rest) {
                (Some(work), _) => Ok(work),
                (None, None) => sent.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (None, Some(rest)) => sent.recv_timeout(rest),
            };
            let nobody_asked = work.is_err();
            match work {
                Ok(Work::Serve(first)) => {
                    together.push(first);
                    next = self.serve_waiting(&mut together, sent);
                }
                Ok(Work::Other(work)) => work(self),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Requests and left-over work alternate, so that neither waits for all of the other.
            if nobody_asked || rest == Some(Duration::ZERO) {
                guarded(&mut locked(&self.worker), StoreWorker::tidy);
            }
        }
        locked(&self.worker).close();
    }

    /// Serves the request in `together`, which it empties, with all others that have been sent by
    /// now. Returns work of another kind that was found among them.
    fn serve_waiting(&self, together: &mut Vec<Asked>, sent: &Receiver<Work>) -> Option<Work> {
        let mut next = None;
        while together.len() < TOGETHER && next.is_none() {
            match sent.try_recv() {
                Ok(Work::Serve(asked)) => together.push(asked),
                Ok(other) => next = Some(other),
                Err(_) => break,
            }
        }
        let answers = self.serve_together(together);
        self.sent.fetch_sub(together.len(), Ordering::SeqCst);
        for (asked, answers) in together.drain(..).zip(answers) {
            if let Some(answers) = answers {
                // The caller may no longer wait.
                let _ = asked.answers.send(answers);
            }
        }
        next
    }

    /// Serves several callers in one transaction; if that fails permanently, each of them alone.
    fn serve_together(&self, callers: &mut [Asked]) -> Vec<Option<Result<Vec<Answer>, Fault>>> {
        let mut worker = locked(&self.worker);
        let mut serve = |requests: &mut [Request], queue: &Queue| {
            guarded(&mut worker, |worker| worker.serve(requests, queue, Patience::Waits))?.transpose()
        };
        if let [caller] = callers {
            return vec![serve(&mut caller.requests, &caller.queue)];
        }
        let mut all: Vec<_> = callers.iter().flat_map(|caller| &caller.requests).cloned().collect();
        match serve(&mut all, &callers[0].queue) {
            Some(Ok(answers)) => {
                let mut answers = answers.into_iter();
                let mut part = |caller: &Asked| answers.by_ref().take(caller.requests.len()).collect();
                callers.iter().map(|caller| Some(Ok(part(caller)))).collect()
            }
            Some(Err(fault)) if !fault.is_lasting() => {
                callers.iter().map(|_| Some(Err(fault.clone()))).collect()
            }
            _ => callers.iter_mut().map(|caller| serve(&mut caller.requests, &caller.queue)).collect(),
        }
    }
}

/// After a panic there is no answer, and the file is opened again, which rolls back.
fn guarded<T>(worker: &mut StoreWorker, work: impl FnOnce(&mut StoreWorker) -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(|| work(worker))) {
        Ok(done) => Some(done),
        Err(_) => {
            worker.ledger().close();
            None
        }
    }
}
