//! Cleanups of a tokio runtime, which continue on another thread if that runtime ends before they
//! are done.
//!
//! A program that returns from `main` drops its guards, and right after them its runtime: tasks
//! that were spawned to release the guards are cut off. Then a separate thread with its own runtime
//! starts these cleanups again, and the shutdown of the program's runtime waits for that thread.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_core::{BeginCleanup, BoxFuture, Instant, locked};
use tokio::runtime::{self, Builder, Handle};
use tokio::sync::{Notify, oneshot};
use tokio::task::unconstrained;

use super::clock::lease_clock;
use super::timers::Timers;
use super::woken::Woken;

/// The longest delay of a runtime's shutdown, in all: enough for a new connection and one call to a
/// slow server.
pub(super) const LAST_CLEANUPS: Duration = Duration::from_secs(2);

/// Guards that are dropped within this time count as dropped one after the other. The thread waits
/// this long for more cleanups, so that they share a connection.
const LINGER: Duration = Duration::from_millis(100);

/// The cleanups of one runtime.
#[derive(Debug)]
pub(super) struct Cleanups {
    /// The runtime's.
    timers: Timers,
    state: Mutex<State>,
    /// Set once the runtime is known to have ended.
    ended: AtomicBool,
    /// The number of threads that were started for interrupted cleanups.
    rescues: AtomicU64,
    /// Notified when an interrupted cleanup is done.
    done: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The number of cleanups in progress on the runtime.
    on_runtime: usize,
    /// When the end of the runtime was first noticed.
    ended: Option<Instant>,
    rescue: Option<Arc<Rescue>>,
    /// When an interrupted cleanup was last begun again, or done.
    progress: Option<Instant>,
    /// Until when the shutdown of another runtime, the last one that did, waits for cleanups here.
    awaited_by: Option<(runtime::Id, Instant)>,
    /// When a drop outside any runtime, or the thread, last waited in vain, if no cleanup has ended
    /// since.
    gave_up: Option<Instant>,
}

/// A thread that runs interrupted cleanups.
#[derive(Debug)]
struct Rescue {
    handle: Handle,
    under_way: AtomicUsize,
    changed: Notify,
}

impl Cleanups {
    pub(super) fn of(timers: Timers) -> Arc<Self> {
        Arc::new(Self {
            timers,
            state: Mutex::default(),
            ended: AtomicBool::new(false),
            rescues: AtomicU64::new(0),
            done: Condvar::new(),
        })
    }

    /// Starts a cleanup on its runtime. `done` is dropped when the cleanup is over.
    pub(super) fn spawn(self: &Arc<Self>, begin: BeginCleanup, done: Option<oneshot::Sender<()>>) {
        locked(&self.state).on_runtime += 1;
        drop(self.timers.handle().spawn(Cleanup {
            cleanups: self.clone(),
            begin: Some(begin),
            work: None,
            in_poll: false,
            _done: done,
        }));
    }

    /// If the runtime has ended, the runtime for new tasks: that of the cleanup thread, if there is
    /// one.
    pub(super) fn elsewhere(&self) -> Option<Handle> {
        if !self.ended.load(Ordering::Acquire) {
            return None;
        }
        let thread = locked(&self.state).rescue.as_ref().map(|rescue| rescue.handle.clone());
        thread.or_else(|| Handle::try_current().ok())
    }

    /// A number that changes when tasks move to another runtime.
    pub(super) fn generation(&self) -> u64 {
        self.rescues.load(Ordering::Acquire)
    }

    /// Ends a cleanup: it is done, or it was interrupted and has to be started again.
    fn leave(self: &Arc<Self>, cut_off: Option<(BeginCleanup, Option<oneshot::Sender<()>>)>) {
        if cut_off.is_some() {
            // Its threads may wait below before they drop the task of the timers.
            self.timers.end();
        }
        let mut state = locked(&self.state);
        state.on_runtime -= 1;
        let begun_again = match cut_off {
            Some((begin, done)) => {
                state.ended.get_or_insert_with(lease_clock);
                self.ended.store(true, Ordering::Release);
                self.rescue(&mut state, begin, done)
            }
            None => {
                state.gave_up = None;
                None
            }
        };
        let Some(ended) = state.ended.filter(|_| state.on_runtime == 0) else { return };
        let of = self.timers.handle().id();
        let current = Handle::try_current().ok();
        let end = match &current {
            // A task of another runtime may drop a guard whose own runtime has ended. That other
            // runtime continues, and must not be blocked.
            Some(current) if current.id() != of => return,
            Some(_) => ended + LAST_CLEANUPS,
            None => state.awaited_until(None, lease_clock()),
        };
        let is_over = |state: &State| match (&current, &begun_again) {
            // Outside any runtime, the caller waits for this cleanup alone.
            (None, begun) => begun.as_ref().is_none_or(|over| over.load(Ordering::Acquire)),
            (Some(_), _) => state.rescue.as_ref().is_none_or(|rescue| rescue.is_idle()),
        };
        while !is_over(&state) {
            let now = lease_clock();
            if now >= end {
                if current.is_none() {
                    state.gave_up = Some(now);
                }
                return;
            }
            let left = end.saturating_since(now);
            state = self.done.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Begins an interrupted cleanup again. Returns what is set once it is over; `None` if there is
    /// no thread for it.
    fn rescue(
        self: &Arc<Self>,
        state: &mut State,
        mut begin: BeginCleanup,
        done: Option<oneshot::Sender<()>>,
    ) -> Option<Arc<AtomicBool>> {
        let rescue = match &state.rescue {
            Some(rescue) => rescue.clone(),
            // Without a thread, the leases expire on their own.
            None => state.rescue.insert(self.start().ok()?).clone(),
        };
        rescue.under_way.fetch_add(1, Ordering::AcqRel);
        state.progress = Some(lease_clock());
        let over = Arc::new(AtomicBool::new(false));
        let counted = Counted { cleanups: self.clone(), rescue: rescue.clone(), over: over.clone() };
        drop(rescue.handle.spawn(async move {
            let (counted, _done) = (counted, done);
            begin().await;
            let mut state = locked(&counted.cleanups.state);
            state.progress = Some(lease_clock());
            state.gave_up = None;
        }));
        Some(over)
    }

    fn start(self: &Arc<Self>) -> std::io::Result<Arc<Rescue>> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (under_way, changed) = (AtomicUsize::new(0), Notify::new());
        let rescue = Arc::new(Rescue { handle: runtime.handle().clone(), under_way, changed });
        let (cleanups, here) = (self.clone(), rescue.clone());
        self.rescues.fetch_add(1, Ordering::AcqRel);
        std::thread::Builder::new().name("leasehold-last".into()).spawn(move || {
            runtime.block_on(here.run(&cleanups));
        })?;
        Ok(rescue)
    }
}

impl State {
    /// Until when a drop waits for a cleanup; the shutdown of a runtime for all of its cleanups. A
    /// drop outside any runtime directly after one that waited in vain does not wait.
    fn awaited_until(&mut self, runtime: Option<runtime::Id>, now: Instant) -> Instant {
        if runtime.is_none() && self.gave_up.is_some_and(|at| now.saturating_since(at) < LINGER) {
            return now;
        }
        let (known, end) = self.awaited_by.unzip();
        let end = end.filter(|_| runtime == known);
        let end = end.unwrap_or(now + LAST_CLEANUPS);
        self.awaited_by = runtime.map(|runtime| (runtime, end));
        end
    }
}

impl Rescue {
    fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::Acquire) == 0
    }

    /// Resolves when nothing has been left to do for a moment, or nothing makes progress.
    async fn run(&self, cleanups: &Cleanups) {
        loop {
            let now = lease_clock();
            let left = {
                let mut state = locked(&cleanups.state);
                let patience = if self.is_idle() { LINGER } else { LAST_CLEANUPS };
                let until = state.progress.map_or(now, |progress| progress + patience);
                if now >= until {
                    if !self.is_idle() {
                        // A drop that waits for one of them may only notice that it has ended.
                        state.gave_up = Some(now);
                    }
                    state.rescue = None;
                    cleanups.done.notify_all();
                    return;
                }
                until.saturating_since(now)
            };
            // Either way this looks again.
            let _ = tokio::time::timeout(left, self.changed.notified()).await;
        }
    }
}

/// One cleanup on its runtime. If it is dropped unfinished, the runtime has ended.
struct Cleanup {
    cleanups: Arc<Cleanups>,
    begin: Option<BeginCleanup>,
    work: Option<BoxFuture<'static, ()>>,
    /// Still true after a poll that panicked.
    in_poll: bool,
    _done: Option<oneshot::Sender<()>>,
}

impl Future for Cleanup {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Self { begin, work, in_poll, .. } = &mut *self;
        let Some(begins) = begin else { return Poll::Ready(()) };
        *in_poll = true;
        let polled = work.get_or_insert_with(begins).as_mut().poll(context);
        *in_poll = false;
        if polled.is_ready() {
            *begin = None;
        }
        polled
    }
}

impl Drop for Cleanup {
    fn drop(&mut self) {
        self.work = None;
        let done = self._done.take();
        let cut_off = self.begin.take().filter(|_| !self.in_poll).map(|begin| (begin, done));
        self.cleanups.leave(cut_off);
    }
}

impl fmt::Debug for Cleanup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cleanup").finish_non_exhaustive()
    }
}

/// A cleanup that the thread is running.
struct Counted {
    cleanups: Arc<Cleanups>,
    rescue: Arc<Rescue>,
    over: Arc<AtomicBool>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Under the mutex, so that a thread that checks and then waits misses nothing.
        let _state = locked(&self.cleanups.state);
        self.rescue.under_way.fetch_sub(1, Ordering::AcqRel);
        self.over.store(true, Ordering::Release);
        self.rescue.changed.notify_one();
        self.cleanups.done.notify_all();
    }
}

/// If this is dropped before the cleanup is done, the caller's runtime is shutting down: the drop
/// waits for the cleanup, which another thread runs.
pub(super) struct Outlast {
    pub(super) done: Option<oneshot::Receiver<()>>,
    pub(super) cleanups: Arc<Cleanups>,
    /// The caller's runtime; `None` if there is none, and the caller waits for this cleanup alone.
    pub(super) runtime: Option<runtime::Id>,
}

impl Future for Outlast {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(done) = &mut self.done else { return Poll::Ready(()) };
        let polled = Pin::new(done).poll(context).map(drop);
        if polled.is_ready() {
            self.done = None;
        }
        polled
    }
}

/// Blocks until the cleanup is done, or the time is up.
impl Drop for Outlast {
    fn drop(&mut self) {
        let Some(done) = self.done.take() else { return };
        let end = locked(&self.cleanups.state).awaited_until(self.runtime, lease_clock());
        let (mut done, woken) = (pin!(unconstrained(done)), Arc::new(Woken::default()));
        let waker = Waker::from(woken.clone());
        while done.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
            if !woken.wait_until(end) {
                if self.runtime.is_none() {
                    locked(&self.cleanups.state).gave_up = Some(lease_clock());
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::super::clock::Clock;
    use super::*;

    #[test]
    fn directly_after_one_that_waited_in_vain_a_drop_does_not_wait() {
        let at = |ms: u64| Instant::from_nanos(ms * 1_000_000);
        let mut state = State::default();
        assert_eq!(state.awaited_until(None, at(1000)), at(3000));
        state.gave_up = Some(at(3000));
        assert_eq!(state.awaited_until(None, at(3099)), at(3099));
        assert_eq!(state.awaited_until(None, at(3100)), at(5100), "it may be another outage");
    }

    /// Regression: if the thread gave up a moment before the drop that waited for it, each further
    /// drop waited again.
    #[test]
    fn what_the_thread_gives_up_was_waited_for_in_vain() {
        let tokio = Builder::new_current_thread().enable_all().build().unwrap();
        let cleanups = Cleanups::of(Timers::of(tokio.handle().clone(), Clock::Lease));
        let begun = cleanups.rescue(&mut locked(&cleanups.state), Box::new(|| Box::pin(pending())), None);
        let is_over = begun.unwrap();
        while !is_over.load(Ordering::Acquire) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(locked(&cleanups.state).gave_up.is_some());
    }

    #[test]
    fn a_drop_whose_time_is_up_has_waited_in_vain() {
        let tokio = Builder::new_current_thread().enable_all().build().unwrap();
        let cleanups = Cleanups::of(Timers::of(tokio.handle().clone(), Clock::Lease));
        let (_unfinished, done) = oneshot::channel();
        std::thread::spawn(move || tokio.block_on(pending::<()>()));
        drop(Outlast { done: Some(done), cleanups: cleanups.clone(), runtime: None });
        assert!(locked(&cleanups.state).gave_up.is_some());
    }
}
