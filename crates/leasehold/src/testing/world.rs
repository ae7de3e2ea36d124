//! A world for tests: a store, the processes that have locks in it, and the time.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::{AdminStore as _, BreakNote, HolderInfo, InspectStore as _, Key, KeyState, LeaseBreak};
use tokio::runtime::{Handle, RuntimeFlavor};

use super::process::Process;
use super::world_runtime::WorldRuntime;
use super::world_state::{Outage, WorldState};
use crate::memory::MemoryStore;
use crate::runtime::{block_on, lease_clock};
use crate::{Locks, LocksBuilder, blocking};

/// Time that is moved by hand, and a store in memory whose locks follow it. Cheap to clone. See
/// [`testing`](super).
#[derive(Clone, Debug)]
pub struct World {
    world: Arc<WorldState>,
    store: Arc<MemoryStore>,
}

/// How many turns without work must pass before everything counts as quiet: one task may wake the
/// next, and so on, but seldom more than a few times.
const QUIET_TURNS: u32 = 16;

/// If other tasks never become idle, time moves on after this many turns.
const MOST_STIRS: u32 = 1_000_000;

/// How long to wait for work that is due while nothing else happens: a future that the test holds
/// but does not poll is never done. It is long compared with the time for which a busy machine
/// delays a thread.
const PATIENCE: Duration = Duration::from_millis(500);

/// The most that counts of the time between two checks: if this thread itself got no processor
/// time, the threads that it waits for may not have either.
const LONGEST_LOOK: Duration = Duration::from_millis(1);

/// How long a task of another thread may still take to report its result when its time is up.
const LAST_CHANCE: Duration = Duration::from_secs(1);

/// How long a test may wait for an expected state.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

impl World {
    /// A world at the beginning of its time, with an empty store.
    #[must_use]
    pub fn new() -> Self {
        let world = WorldState::new();
        let store = MemoryStore::new(Arc::new(WorldRuntime { world: world.clone(), of: None }));
        Self { world, store: Arc::new(store) }
    }

    /// Creates another process.
    #[must_use]
    pub fn process(&self) -> Process {
        self.process_with(Locks::builder())
    }

    /// Creates another process with these defaults. Clock and tasks are the world's, whatever the
    /// builder says.
    #[must_use]
    pub fn process_with(&self, builder: LocksBuilder) -> Process {
        Process::new(self.world.clone(), self.store.clone(), builder)
    }

    /// Creates another process and returns its locks: two calls return the locks of two processes.
    ///
    /// # Panics
    ///
    /// As [`Process::locks`].
    #[must_use]
    #[track_caller]
    pub fn locks(&self) -> Locks {
        self.process().locks()
    }

    /// The same with these defaults.
    ///
    /// # Panics
    ///
    /// As [`Process::locks`].
    #[must_use]
    #[track_caller]
    pub fn locks_with(&self, builder: LocksBuilder) -> Locks {
        self.process_with(builder).locks()
    }

    /// Creates another process whose code blocks, and returns its locks;
    /// [`blocking_advance`](Self::blocking_advance) moves the time for it.
    ///
    /// # Panics
    ///
    /// As [`Process::locks`].
    #[must_use]
    #[track_caller]
    pub fn blocking_locks(&self) -> blocking::Locks {
        self.process().blocking_locks()
    }

    /// How much time has passed in this world.
    #[must_use]
    pub fn passed(&self) -> Duration {
        self.world.passed()
    }

    /// Moves time on by this much, also the time of tokio if that is paused. Whatever becomes due
    /// meanwhile happens at its time, one after the other: renewals, ends of leases and of waits,
    /// the turns of waiters.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the time stays where it is.
    pub async fn advance(&self, by: Duration) {
        if let Some(clock) = self.world.paused() {
            self.settle().await;
            clock.sleep(by).await;
            return self.settle().await;
        }
        let end = self.world.now() + by;
        loop {
            self.settle().await;
            if !self.world.step(end) {
                break;
            }
        }
        self.settle().await;
    }

    /// The same for a test that blocks.
    pub fn blocking_advance(&self, by: Duration) {
        block_on(self.advance(by));
    }

    /// Lets everybody finish the work that is due, without moving time: then a dropped guard is
    /// released, and a spawned task has requested its lock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn settle(&self) {
        let on_one_thread = Handle::try_current()
            .is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::CurrentThread);
        let (mut looked_at, mut waited) = (lease_clock(), Duration::ZERO);
        let (mut seen, mut stirs, mut quiet) = (self.world.activity(), 0, 0);
        while quiet < QUIET_TURNS && stirs < MOST_STIRS {
            give_way().await;
            if !on_one_thread || self.world.is_busy() {
                // The work may be on another thread, which needs a processor.
                std::thread::yield_now();
            }
            let now = lease_clock();
            waited += now.saturating_since(looked_at).min(LONGEST_LOOK);
            looked_at = now;
            let activity = self.world.activity();
            if activity != seen {
                (seen, quiet, waited) = (activity, 0, Duration::ZERO);
                stirs += 1;
            } else if self.world.is_busy() {
                if waited >= PATIENCE {
                    self.world.overlook();
                }
            } else {
                quiet += 1;
            }
        }
    }

    /// Runs a future, and moves time on as far as it needs, from one due event to the next.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use std::time::Duration;
    /// # use leasehold::{LockError, testing::World};
    /// let world = World::new();
    /// let _other = world.locks().mutex("report").lock().await?;
    ///
    /// let minute = Duration::from_secs(60);
    /// let asked = world.locks().mutex("report").lock().within(minute);
    /// let busy = world.within(2 * minute, asked).await.unwrap_err();
    /// assert!(matches!(busy, LockError::TimedOut { .. }));
    /// assert_eq!(world.passed(), minute);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// Time does not wait for events outside the world, such as an answer from a real server.
    ///
    /// # Panics
    ///
    /// If `work` is not done after that much time.
    ///
    /// # Cancel safety
    ///
    /// As `work`.
    pub async fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        if let Some(clock) = self.world.paused() {
            return tokio::select! {
                biased;
                done = &mut work => done,
                () = clock.sleep(limit) => panic!("not done after {limit:?} of the world's time"),
            };
        }
        let end = self.world.now() + limit;
        let mut is_last = false;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.settle() => {}
            }
            if is_last {
                break;
            }
            is_last = !self.world.step(end);
        }
        // The work may have been woken, and be about to end on another thread.
        tokio::select! {
            biased;
            done = &mut work => done,
            () = linger(LAST_CHANCE) => panic!("not done after {limit:?} of the world's time"),
        }
    }

    /// Waits until somebody holds a key, and returns the holder: for a test whose program acquires
    /// it in a separate task. No time of the world passes. A waiter that was granted the lock may
    /// not have been notified yet: [`settle`](Self::settle) lets it continue.
    ///
    /// # Panics
    ///
    /// As [`until`](Self::until).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn until_held(&self, key: impl AsRef<[u8]>) -> HolderInfo {
        let state = self.until(key, |state| !state.holders.is_empty()).await;
        state.holders.into_iter().next().expect("what was waited for")
    }

    /// Waits until a key is in this state, for example that it is free or has a certain number of
    /// waiters. No time of the world passes.
    ///
    /// # Panics
    ///
    /// If it is not in this state after ten seconds of the test's time, or the name cannot be a
    /// key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn until(&self, key: impl AsRef<[u8]>, looks: impl Fn(&KeyState) -> bool) -> KeyState {
        let key = key_of(key.as_ref());
        let began = lease_clock();
        loop {
            let state = self.store.inspect(&key).await.unwrap_or_else(|fault| panic!("{fault}"));
            if looks(&state) {
                return state;
            }
            let waited = lease_clock().saturating_since(began);
            assert!(waited < LONGEST_WAIT, "not what was waited for within {waited:.0?}: {state:?}");
            give_way().await;
            std::thread::yield_now();
        }
    }

    /// Deletes the lease on a key, as somebody with access to the store can. The holder notices at
    /// its next renewal ([`Loss::Gone`](crate::Loss::Gone), or
    /// [`TakenByOther`](crate::Loss::TakenByOther) if somebody has acquired it by then). If several
    /// holders share the key, all of them lose it.
    ///
    /// # Panics
    ///
    /// If nobody holds the key, which is the whole key, with its prefix.
    #[track_caller]
    pub fn lose(&self, key: impl AsRef<[u8]>) {
        let key = key_of(key.as_ref());
        assert!(self.store.delete(&key), "{key}: nobody holds it, so it cannot be lost");
    }

    /// Breaks the lease on a key, as [`Locks::break_lease`] does. The holder notices at once
    /// ([`Loss::Broken`](crate::Loss::Broken)), and the next waiter holds the key. If several
    /// holders share the key, one of them loses it.
    ///
    /// # Panics
    ///
    /// If nobody holds the key.
    #[track_caller]
    pub fn break_lease(&self, key: impl AsRef<[u8]>) {
        let key = key_of(key.as_ref());
        // In memory, both are done at the first poll.
        let state = block_on(self.store.inspect(&key)).unwrap_or_else(|fault| panic!("{fault}"));
        let fence = state.holders.first().and_then(|holder| holder.fence);
        let Some(fence) = fence else { panic!("{key}: nobody holds it, so its lease cannot be broken") };
        block_on(self.store.break_lease(&key, &LeaseBreak::new(fence, BreakNote::default())))
            .unwrap_or_else(|fault| panic!("{fault}"));
    }

    /// Deletes all locks, queues, fences and marks, like a server that restarts without its state.
    pub fn forget(&self) {
        self.store.forget();
    }

    /// Cuts all processes off from the store, including new ones, until [`heal`](Self::heal).
    pub fn outage(&self, outage: Outage) {
        self.world.set_outage(None, Some(outage));
    }

    /// Ends the outages of all processes.
    pub fn heal(&self) {
        self.world.set_outage(None, None);
    }
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

#[track_caller]
fn key_of(name: &[u8]) -> Key {
    Key::new(name).unwrap_or_else(|misuse| panic!("{misuse}"))
}

/// Lets all other tasks run for this much of the test's time.
async fn linger(time: Duration) {
    let end = lease_clock() + time;
    while lease_clock() < end {
        give_way().await;
        std::thread::yield_now();
    }
}

/// Lets all other tasks run once.
async fn give_way() {
    let mut given = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
