//! Clock, timers, tasks and randomness of this process, on tokio. The rest of this crate takes them
//! only from here.
#![allow(clippy::disallowed_methods)]

mod cleanups;
mod clock;
mod timers;
mod woken;

use std::future::pending;
use std::io;
use std::process;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_core::{BeginCleanup, BoxFuture, Instant, Runtime, locked};
use rand::rngs::{StdRng, SysRng};
use rand::{Rng as _, SeedableRng as _};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use cleanups::{Cleanups, Outlast};
use clock::Clock;
#[cfg(feature = "testing")]
pub(crate) use clock::{PausedClock, lease_clock};
use timers::{NEVER, Timers};
pub(crate) use woken::block_on;

/// A [`Runtime`] on tokio.
///
/// When the tokio runtime ends, pending releases are still sent, by a separate thread. The shutdown
/// waits for that thread, for at most 2 s.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use leasehold::{Locks, MemoryStore, TokioRuntime};
/// use std::sync::Arc;
///
/// let runtime = Arc::new(TokioRuntime::current().expect("called within a runtime"));
/// let store = Arc::new(MemoryStore::new(runtime));
/// let locks = Locks::builder().over(store)?; // a store of your own is given one like this
/// # drop(locks);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct TokioRuntime {
    timers: Timers,
    dice: Mutex<Dice>,
    cleanups: Arc<Cleanups>,
    /// Dropped with the last user of the runtime, which ends the runtime's thread.
    own_thread: Option<oneshot::Sender<()>>,
}

impl TokioRuntime {
    /// The tokio runtime in which this is called; `None` outside of one.
    #[must_use]
    pub fn current() -> Option<Self> {
        Some(Self::over(Handle::try_current().ok()?, Clock::Lease, None))
    }

    /// The same, but with tokio's time if a test has paused it. It is for a store in this process,
    /// which needs no real time.
    pub(crate) fn current_or_paused() -> Option<Self> {
        Some(Self::over(Handle::try_current().ok()?, Clock::paused().unwrap_or(Clock::Lease), None))
    }

    /// Panics if this runtime has no timers, and says how to enable them. Tokio cannot be asked, and
    /// would panic in the first task that has to wait.
    pub(crate) fn demand_timers(&self) {
        let _runtime = self.timers.handle().enter();
        drop(tokio::time::sleep(Duration::ZERO));
    }

    fn over(handle: Handle, clock: Clock, own_thread: Option<oneshot::Sender<()>>) -> Self {
        let timers = Timers::of(handle, clock);
        let cleanups = Cleanups::of(timers.clone());
        Self { timers, dice: Mutex::new(Dice::new()), cleanups, own_thread }
    }

    /// A new runtime on a separate thread. It ends when the last lock, guard, [`Held`](crate::Held)
    /// and pending release are gone.
    ///
    /// # Errors
    ///
    /// If the operating system provides no thread or no file descriptor.
    pub fn on_own_thread() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (own_thread, ended) = oneshot::channel::<()>();
        std::thread::Builder::new().name("leasehold".into()).spawn(move || {
            // Nothing is ever sent: this ends when the channel closes.
            let _ = runtime.block_on(ended);
        })?;
        Ok(Self::over(handle, Clock::Lease, Some(own_thread)))
    }

    /// The runtime for new tasks.
    fn handle(&self) -> Handle {
        self.cleanups.elsewhere().unwrap_or_else(|| self.timers.handle().clone())
    }
}

impl Runtime for TokioRuntime {
    fn now(&self) -> Instant {
        self.timers.now()
    }

    fn since_epoch(&self) -> Duration {
        self.timers.clock().since_epoch(self.timers.handle())
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        // A sleep that never ends uses no timer and no memory; waits without a limit use it.
        if at == NEVER {
            return Box::pin(pending());
        }
        Box::pin(self.timers.clone().sleep_until(at))
    }

    fn spawn(&self, task: BoxFuture<'static, ()>) {
        drop(self.handle().spawn(task));
    }

    fn generation(&self) -> u64 {
        self.cleanups.generation()
    }

    fn spawn_cleanup(&self, begin: BeginCleanup) {
        if self.own_thread.is_none() {
            return self.cleanups.spawn(begin, None);
        }
        // The program may end while the thread of the locks runs the cleanup, so the caller's
        // runtime waits for it.
        let (over, done) = oneshot::channel();
        self.cleanups.spawn(begin, Some(over));
        let current = Handle::try_current().ok();
        if current.as_ref().is_some_and(|current| current.id() == self.timers.handle().id()) {
            return;
        }
        let (cleanups, runtime) = (self.cleanups.clone(), current.as_ref().map(Handle::id));
        let outlast = Outlast { done: Some(done), cleanups, runtime };
        match current {
            Some(current) => drop(current.spawn(outlast)),
            None => drop(outlast),
        }
    }

    fn random(&self) -> u128 {
        locked(&self.dice).roll()
    }
}

/// A cryptographic generator, seeded from the operating system. It is seeded again after a fork, so
/// that parent and child never generate the same id.
struct Dice {
    process: u32,
    generator: StdRng,
}

impl Dice {
    fn new() -> Self {
        Self { process: process::id(), generator: seeded() }
    }

    fn roll(&mut self) -> u128 {
        let process = process::id();
        if process != self.process {
            *self = Self::new();
        }
        u128::from(self.generator.next_u64()) << 64 | u128::from(self.generator.next_u64())
    }
}

/// Never shows its state.
impl std::fmt::Debug for Dice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dice").finish_non_exhaustive()
    }
}

/// Without the system's randomness there are no unguessable ids, so the program cannot continue.
fn seeded() -> StdRng {
    StdRng::try_from_rng(&mut SysRng).expect("the operating system gives random bytes")
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::future::poll_fn;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{OnceLock, mpsc};
    use std::task::Poll;

    use super::*;
    use crate::blocking;

    /// Bugs of redlock and redis-dlm: an id that could be guessed from the time and the machine
    /// (UUID v1), or one id for all requests.
    #[test]
    fn ids_do_not_repeat() {
        let runtime = TokioRuntime::on_own_thread().unwrap();
        let ids: HashSet<_> = (0..10_000).map(|_| runtime.random()).collect();
        assert_eq!(ids.len(), 10_000);
    }

    /// A forked child shares the parent's memory, and so the generator's state; only the process id
    /// tells them apart.
    #[test]
    fn a_generator_is_seeded_again_after_a_fork() {
        let mut parent = Dice::new();
        let mut child = Dice { process: 1, generator: StdRng::seed_from_u64(7) };
        parent.generator = StdRng::seed_from_u64(7);
        assert_ne!(parent.roll(), child.roll());
        assert_eq!(child.process, process::id());
    }

    fn tokio() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    fn a_timer_goes_on_where_it_is_polled_when_its_runtime_has_ended() {
        let (mine, other) = (tokio(), tokio());
        let runtime = mine.block_on(async { TokioRuntime::current().unwrap() });
        let at = runtime.now() + Duration::from_millis(400);
        let poll = |timer: &mut BoxFuture<'static, ()>| {
            other.block_on(poll_fn(|context| Poll::Ready(timer.as_mut().poll(context))))
        };
        let [mut polled, unpolled, outside] = [0, 1, 2].map(|_| runtime.sleep_until(at));
        assert!(poll(&mut polled).is_pending());
        let done = Arc::new(());
        let cleanup = done.clone();
        runtime.spawn_cleanup(Box::new(move || {
            let _cleanup = cleanup.clone();
            Box::pin(async {})
        }));
        drop(mine);
        // The thread that runs the cleanup ends before this one is due.
        let mut on_thread = runtime.sleep_until(at);
        assert!(runtime.generation() == 1 && poll(&mut on_thread).is_pending());
        other.block_on(async { tokio::join!(polled, unpolled, on_thread) });
        assert!(runtime.now() >= at && Arc::strong_count(&done) == 1);
        block_on(outside);
        block_on(runtime.sleep_until(runtime.now() + Duration::from_millis(10)));
    }

    /// A cleanup that takes this long, and how often it was done.
    fn sleeping(runtime: &Arc<TokioRuntime>, time: Duration) -> (BeginCleanup, Arc<AtomicUsize>) {
        let (runtime, slept) = (runtime.clone(), Arc::new(AtomicUsize::new(0)));
        let counted = slept.clone();
        let begin = move || -> BoxFuture<'static, ()> {
            let (sleep, counted) = (runtime.sleep_until(runtime.now() + time), counted.clone());
            Box::pin(async move {
                sleep.await;
                counted.fetch_add(1, Ordering::SeqCst);
            })
        };
        (Box::new(begin), slept)
    }

    /// Regression: the thread of the runtime waited for a cleanup before it dropped the task of the
    /// timers, and so the cleanup had no limits and its sleep no end.
    #[test]
    fn a_cleanup_sleeps_while_the_end_of_its_runtime_waits_for_it() {
        struct CleansUp(Arc<OnceLock<Arc<TokioRuntime>>>);

        impl Drop for CleansUp {
            fn drop(&mut self) {
                let runtime = self.0.get().unwrap();
                runtime.spawn_cleanup(sleeping(runtime, Duration::from_millis(20)).0);
            }
        }

        let tokio = tokio();
        let later = Arc::new(OnceLock::new());
        // Tokio drops this task before the one of the timers, which is younger.
        let cleans_up = CleansUp(later.clone());
        tokio.spawn(async move {
            let _cleans_up = cleans_up;
            pending::<()>().await;
        });
        tokio.block_on(async { later.set(Arc::new(TokioRuntime::current().unwrap())).unwrap() });
        let ends = std::time::Instant::now();
        drop(tokio);
        assert!(ends.elapsed() >= Duration::from_millis(20), "it did not wait");
        assert!(ends.elapsed() < cleanups::LAST_CLEANUPS, "{:?}", ends.elapsed());
    }

    /// Regression: a guard that was dropped more than two seconds after the end of its runtime, as the
    /// last thing that the program did, was not released; nor was the one that was being released two
    /// seconds after the first of several.
    #[test]
    fn a_drop_waits_for_its_cleanup_however_long_ago_its_runtime_ended() {
        let tokio = tokio();
        let runtime = tokio.block_on(async { Arc::new(TokioRuntime::current().unwrap()) });
        runtime.spawn_cleanup(sleeping(&runtime, Duration::ZERO).0);
        drop(tokio);
        for _ in 0..16 {
            let (cleanup, done) = sleeping(&runtime, Duration::from_millis(150));
            runtime.spawn_cleanup(cleanup);
            assert_eq!(done.load(Ordering::SeqCst), 1);
        }
        let begins = std::time::Instant::now();
        for _ in 0..3 {
            runtime.spawn_cleanup(sleeping(&runtime, Duration::from_secs(60)).0);
        }
        let in_vain = begins.elapsed();
        assert!(in_vain >= cleanups::LAST_CLEANUPS && in_vain < cleanups::LAST_CLEANUPS * 2, "{in_vain:?}");
    }

    /// The caller may be about to end the program.
    #[test]
    fn a_drop_outside_any_runtime_waits_for_its_cleanup_on_the_thread_of_the_locks() {
        let runtime = Arc::new(TokioRuntime::on_own_thread().unwrap());
        for _ in 0..3 {
            let (cleanup, done) = sleeping(&runtime, Duration::from_millis(20));
            runtime.spawn_cleanup(cleanup);
            assert_eq!(done.load(Ordering::SeqCst), 1);
        }
    }

    /// Regression: the drop used data of the thread that were gone already, and the program aborted.
    #[test]
    fn a_guard_among_the_data_of_a_thread_is_released_when_the_thread_ends() {
        thread_local! {
            static GUARD: RefCell<Option<blocking::Guard>> = const { RefCell::new(None) };
        }
        let locks = blocking::Locks::in_memory().unwrap();
        let mutex = locks.mutex("k");
        // Data that were first used later are dropped earlier.
        let holds = || GUARD.with_borrow_mut(|guard| *guard = Some(mutex.lock().wait().unwrap()));
        std::thread::scope(|scope| scope.spawn(holds).join()).unwrap();
        assert!(!locks.mutex("k").is_locked().unwrap());
    }

    /// Regression: the release used data of the thread that were gone already, and the program aborted.
    #[test]
    fn a_guard_among_the_data_of_a_thread_can_be_released_when_the_thread_ends() {
        struct Releases(Option<(blocking::Guard, mpsc::Sender<bool>)>);

        impl Drop for Releases {
            fn drop(&mut self) {
                self.0
                    .take()
                    .into_iter()
                    .for_each(|(guard, told)| told.send(guard.release().is_ok()).unwrap());
            }
        }

        thread_local! {
            static HELD: RefCell<Releases> = const { RefCell::new(Releases(None)) };
        }
        let locks = blocking::Locks::in_memory().unwrap();
        let (told, is_released) = mpsc::channel();
        // Data that were first used later are dropped earlier.
        let holds = move || {
            HELD.with_borrow_mut(|held| held.0 = Some((locks.mutex("k").lock().wait().unwrap(), told)));
        };
        std::thread::scope(|scope| scope.spawn(holds).join()).unwrap();
        assert!(is_released.recv().unwrap());
    }

    #[tokio::test]
    async fn a_runtime_that_nobody_uses_any_more_leaves_no_task() {
        let metrics = Handle::current().metrics();
        drop((0..10).map(|_| TokioRuntime::current()).collect::<Vec<_>>());
        assert!(metrics.num_alive_tasks() > 0);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(metrics.num_alive_tasks(), 0);
    }

    /// Regression: a request whose limit came in the same instant as another timer of its task was not
    /// over when it was polled.
    #[tokio::test]
    async fn a_timer_that_is_due_is_ready_although_no_other_task_has_run() {
        let runtime = TokioRuntime::current().unwrap();
        let at = runtime.now() + Duration::from_millis(20);
        let mut timer = runtime.sleep_until(at);
        let polled = poll_fn(|context| {
            assert!(timer.as_mut().poll(context).is_pending());
            while runtime.now() < at {}
            Poll::Ready(timer.as_mut().poll(context))
        });
        assert!(polled.await.is_ready());
    }

    /// It would panic again, on the thread that begins the others anew.
    #[test]
    fn a_cleanup_that_panicked_is_not_begun_again() {
        let tokio = tokio();
        let runtime = tokio.block_on(async { TokioRuntime::current().unwrap() });
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = begun.clone();
        runtime.spawn_cleanup(Box::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { panic!("on purpose") })
        }));
        while Arc::strong_count(&begun) > 1 {
            tokio.block_on(tokio::task::yield_now());
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_task_for_a_runtime_that_has_ended_is_dropped_without_a_panic() {
        let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let runtime = tokio.block_on(async { TokioRuntime::current().unwrap() });
        drop(tokio);
        runtime.spawn(Box::pin(async {}));
    }
}
