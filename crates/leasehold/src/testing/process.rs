//! One process that has locks in a world.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::link::Link;
use super::world_runtime::WorldRuntime;
use super::world_state::{Outage, ProcessId, WorldState};
use crate::memory::MemoryStore;
use crate::runtime::TokioRuntime;
use crate::{Locks, LocksBuilder, blocking};

/// A process in a [`World`](super::World). It has its own locks, and other processes see it only
/// through the store. Cheap to clone.
#[derive(Clone)]
pub struct Process(Arc<Inner>);

struct Inner {
    world: Arc<WorldState>,
    store: Arc<MemoryStore>,
    number: ProcessId,
    builder: LocksBuilder,
    locks: OnceLock<Locks>,
    blocking: OnceLock<blocking::Locks>,
}

impl Process {
    pub(super) fn new(world: Arc<WorldState>, store: Arc<MemoryStore>, builder: LocksBuilder) -> Self {
        let number = world.enter_process();
        let (locks, blocking) = (OnceLock::new(), OnceLock::new());
        Self(Arc::new(Inner { world, store, number, builder, locks, blocking }))
    }

    /// The locks of this process; each call returns the same.
    ///
    /// # Panics
    ///
    /// With the fact and the remedy, if a default is invalid; outside a tokio runtime, if the
    /// operating system cannot start a thread for one.
    #[must_use]
    #[track_caller]
    pub fn locks(&self) -> Locks {
        self.0.locks.get_or_init(|| self.make(TokioRuntime::current().unwrap_or_else(own_thread))).clone()
    }

    /// The locks of this process for blocking code, kept on a separate thread; each call returns
    /// the same.
    ///
    /// # Panics
    ///
    /// As [`locks`](Self::locks).
    #[must_use]
    #[track_caller]
    pub fn blocking_locks(&self) -> blocking::Locks {
        self.0.blocking.get_or_init(|| self.make(own_thread()).into()).clone()
    }

    #[track_caller]
    fn make(&self, tasks: TokioRuntime) -> Locks {
        let Inner { world, store, number, builder, .. } = &*self.0;
        let runtime = Arc::new(WorldRuntime { world: world.clone(), of: Some((*number, tasks)) });
        let link = Arc::new(Link::new(store, *number, runtime.clone()));
        builder.clone().runtime(runtime).over(link).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Stops the locks of this process, as if it were stopped or got no processor time: nothing is
    /// renewed, requested, answered or notified, and no timer fires. Time moves on.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// # use std::time::Duration;
    /// # use leasehold::{Fence, Loss, testing::World};
    /// let world = World::new();
    /// let sleeper = world.process();
    /// let late = sleeper.locks().mutex("invoice:42").lock().await?;
    ///
    /// sleeper.pause();
    /// world.advance(Duration::from_secs(31)).await;
    /// let next = world.locks().mutex("invoice:42").try_lock().await?.expect("free");
    ///
    /// assert!(late.held().loss().is_none());               // not noticed yet
    /// assert!(!late.is_held());                            // but the clock does, to whoever looks
    /// assert!(next.fence() > late.fence());                // and the fence, at the resource
    /// sleeper.resume();
    /// assert!(matches!(late.lost().await, Loss::Expired { .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn pause(&self) {
        self.0.world.pause(self.0.number);
    }

    /// Continues the process: it finds what has become due meanwhile.
    pub fn resume(&self) {
        self.0.world.resume(self.0.number);
    }

    /// Cuts this process off from the store until [`heal`](Self::heal). Requests that were sent
    /// before are answered.
    pub fn outage(&self, outage: Outage) {
        self.0.world.set_outage(Some(self.0.number), Some(outage));
    }

    /// Ends the outage of this process.
    pub fn heal(&self) {
        self.0.world.set_outage(Some(self.0.number), None);
    }
}

#[track_caller]
fn own_thread() -> TokioRuntime {
    TokioRuntime::on_own_thread().unwrap_or_else(|error| panic!("no thread for the locks: {error}"))
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.0.number).finish()
    }
}
