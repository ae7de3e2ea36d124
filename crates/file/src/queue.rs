//! The way to the desk: at once where nothing is in the way, else one after the other on a thread of the store's own.

use std::future::poll_fn;
use std::io;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::desk::Desk;

/// What tells one task from another, as far as they live at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Task(usize);

impl Task {
    /// The one that polls this, at the first poll.
    pub(crate) async fn current() -> Self {
        poll_fn(|context| Poll::Ready(Self::of(context.waker()))).await
    }

    pub(crate) fn of(waker: &Waker) -> Self {
        Self(waker.data().addr())
    }
}

/// Something to be done on the thread.
type Job = Box<dyn FnOnce(&Shared) + Send>;

/// Where requests are sent. The thread ends when nobody has this any more; what was sent before is still done.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    shared: Arc<Shared>,
    jobs: Sender<Job>,
}

#[derive(Debug)]
struct Shared {
    desk: Mutex<Desk>,
    /// What was sent and is not done yet. Nobody goes before it.
    sent: AtomicUsize,
}

impl Queue {
    /// Starts the thread.
    pub(crate) fn start(desk: Desk) -> io::Result<Self> {
        let (jobs, sent) = mpsc::channel();
        let shared = Arc::new(Shared { desk: Mutex::new(desk), sent: AtomicUsize::new(0) });
        let here = Arc::clone(&shared);
        thread::Builder::new().name("leasehold-file".into()).spawn(move || here.work_off(&sent))?;
        Ok(Self { shared, jobs })
    }

    /// Has some work done on the thread, after all that was sent before, and then what is to be done with what came of it, if it did
    /// not panic: whoever is told of it finds the desk free.
    pub(crate) fn send<T>(
        &self,
        work: impl FnOnce(&mut Desk) -> T + Send + 'static,
        then: impl FnOnce(T) + Send + 'static,
    ) {
        self.shared.sent.fetch_add(1, Ordering::SeqCst);
        let sent = self.jobs.send(Box::new(move |shared| {
            let done = guarded(&mut shared.desk(), work);
            shared.sent.fetch_sub(1, Ordering::SeqCst);
            if let Some(done) = done {
                then(done);
            }
        }));
        // The thread lasts as long as this.
        debug_assert!(sent.is_ok());
    }

    /// Does some work of a task here and now, in a transaction that is begun already. `None` when it panicked.
    ///
    /// # Errors
    ///
    /// The work itself where something is before it, or would have to be waited for: another thread or process, a file that is not
    /// open, a disk that was slow. Also where tasks ask side by side: they and the thread get more done together.
    pub(crate) fn at_once<T, W: FnOnce(&mut Desk) -> T>(&self, task: Task, work: W) -> Result<Option<T>, W> {
        let Ok(mut desk) = self.shared.desk.try_lock() else { return Err(work) };
        if self.shared.sent.load(Ordering::SeqCst) > 0 {
            return Err(work);
        }
        let Some(begun) = desk.begin_at_once(task) else { return Err(work) };
        let done = guarded(&mut desk, work);
        let has_work = desk.end_at_once(begun);
        drop(desk);
        if has_work {
            // The thread looks what there is to do before it rests again.
            let _ = self.jobs.send(Box::new(|_| ()));
        }
        Ok(done)
    }
}

impl Shared {
    fn work_off(&self, sent: &Receiver<Job>) {
        // The rests of some microseconds while another process writes are else 50 µs longer each.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1000));
        loop {
            let rest = self.desk().rest();
            let job = match rest {
                None => sent.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(rest) => sent.recv_timeout(rest),
            };
            match job {
                Ok(job) => {
                    job(self);
                    // Others' requests and what is left over take turns, so that neither waits for all of the other.
                    if rest == Some(Duration::ZERO) {
                        guarded(&mut self.desk(), Desk::tidy);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    guarded(&mut self.desk(), Desk::tidy);
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.desk().close();
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whoever asked learns of a panic by the answer that does not come. The file is opened anew, which takes back what was done.
fn guarded<T>(desk: &mut Desk, work: impl FnOnce(&mut Desk) -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(|| work(desk))) {
        Ok(done) => Some(done),
        Err(_) => {
            desk.abandon();
            None
        }
    }
}
