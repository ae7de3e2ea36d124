//! The locks of one store, for callers that block.

use std::sync::Arc;
use std::time::Duration;

use super::{Election, Events, Every, Guard, Mutex, Once, RwLock, Semaphore, Watch, wait};
use crate::{
    AnyStore, BreakError, BreakNote, BreakRecord, CloseError, ConnectError, Fault, Fence, Finding, Held,
    HolderInfo, InspectError, Key, KeyState, LocksBuilder, Mark, Marked, Store, TransferError, TransferToken,
};

/// The locks of one store, as [`leasehold::Locks`](crate::Locks). Cheap to clone.
///
/// ```
/// use leasehold::blocking::Locks;
///
/// let locks = Locks::in_memory()?; // or Locks::connect("redis://127.0.0.1")?
/// let guard = locks.mutex("invoice:42").lock().wait()?;
/// guard.release()?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Locks(crate::Locks);

impl Locks {
    /// Connects to the store at a URL, with the defaults of [`LocksBuilder`];
    /// [`leasehold::Locks::connect`](crate::Locks::connect) lists the URLs. Blocks for at most the
    /// outage limit.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the URL is invalid, the store did not answer within the outage limit or
    /// refuses, or no thread could be started.
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::connect_with(crate::Locks::builder(), url)
    }

    /// The same with other defaults. A separate thread keeps these locks, unless the builder
    /// [names a runtime](LocksBuilder::runtime), which must run while a thread blocks.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// let defaults = leasehold::Locks::builder().ttl(Duration::from_secs(10)).label("nightly");
    /// let locks = leasehold::blocking::Locks::connect_with(defaults, "redis://127.0.0.1")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), or a default is invalid.
    pub fn connect_with(builder: LocksBuilder, url: &str) -> Result<Self, ConnectError> {
        wait(builder.own_thread().connect(url)).map(Self)
    }

    /// Locks in a majority of stores, as [`leasehold::Locks::quorum`](crate::Locks::quorum).
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the stores or the longest TTL are invalid, or no thread could be started.
    pub fn quorum<Member: Into<AnyStore>>(
        stores: impl IntoIterator<Item = Member>,
        max_ttl: Duration,
    ) -> Result<Self, ConnectError> {
        Self::quorum_with(crate::Locks::builder(), stores, max_ttl)
    }

    /// The same with other defaults. A separate thread keeps these locks, unless the builder
    /// [names a runtime](LocksBuilder::runtime), which must run while a thread blocks.
    ///
    /// # Errors
    ///
    /// As [`quorum`](Self::quorum), or a default is invalid.
    pub fn quorum_with<Member: Into<AnyStore>>(
        builder: LocksBuilder,
        stores: impl IntoIterator<Item = Member>,
        max_ttl: Duration,
    ) -> Result<Self, ConnectError> {
        builder.own_thread().quorum(stores, max_ttl).map(Self)
    }

    /// Locks of this process alone. They end with the last clone and guard.
    ///
    /// # Errors
    ///
    /// [`ConnectError::NoThread`] if the operating system cannot start one.
    pub fn in_memory() -> Result<Self, ConnectError> {
        Self::in_memory_with(crate::Locks::builder())
    }

    /// The same with other defaults.
    ///
    /// # Errors
    ///
    /// As [`in_memory`](Self::in_memory), or a default is invalid.
    pub fn in_memory_with(builder: LocksBuilder) -> Result<Self, ConnectError> {
        builder.own_thread().in_memory().map(Self)
    }

    /// The store at a URL, without connecting to it, as [`LocksBuilder::unopened`].
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the URL or a default is invalid, or no thread could be started.
    pub fn unopened_with(builder: LocksBuilder, url: &str) -> Result<Self, ConnectError> {
        builder.own_thread().unopened(url).map(Self)
    }

    /// Locks on a store of your own, as [`LocksBuilder::over`].
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: a default is invalid, or no thread could be started.
    pub fn over_with(builder: LocksBuilder, store: Arc<dyn Store>) -> Result<Self, ConnectError> {
        builder.own_thread().over(store).map(Self)
    }

    /// The lock of this name. This does no I/O; a name that cannot be a key is an error of the
    /// request.
    pub fn mutex(&self, name: impl AsRef<[u8]>) -> Mutex {
        Mutex(self.0.mutex(name))
    }

    /// Several locks that are taken together or not at all, as
    /// [`leasehold::Locks::mutex_all`](crate::Locks::mutex_all).
    pub fn mutex_all<Name: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = Name>) -> Mutex {
        Mutex(self.0.mutex_all(names))
    }

    /// The reader-writer lock of this name. Does no I/O.
    pub fn rw_lock(&self, name: impl AsRef<[u8]>) -> RwLock {
        RwLock(self.0.rw_lock(name))
    }

    /// Several reader-writer locks that are taken together or not at all.
    pub fn rw_lock_all<Name: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = Name>) -> RwLock {
        RwLock(self.0.rw_lock_all(names))
    }

    /// The semaphore of this name with that many permits, as
    /// [`leasehold::Locks::semaphore`](crate::Locks::semaphore). This does no I/O.
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Semaphore {
        Semaphore(self.0.semaphore(name, permits))
    }

    /// Several semaphores with that many permits each. A request takes the same number of permits
    /// from each, all or nothing.
    pub fn semaphore_all<Name: AsRef<[u8]>>(
        &self,
        names: impl IntoIterator<Item = Name>,
        permits: u32,
    ) -> Semaphore {
        Semaphore(self.0.semaphore_all(names, permits))
    }

    /// A job that is done only once, ever, under the lock of this name. This does no I/O.
    pub fn once(&self, name: impl AsRef<[u8]>) -> Once {
        Once(self.0.once(name))
    }

    /// A job that is done once in each `period`, under the lock of this name. This does no I/O; an
    /// invalid period is an error when the job is to run.
    pub fn every(&self, period: Duration, name: impl AsRef<[u8]>) -> Every {
        Every(self.0.every(period, name))
    }

    /// The leadership of this name, which one of several candidates has at a time. This does no
    /// I/O.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        Election(self.0.election(name))
    }

    /// The holders of a lock and its waiters, in order. This takes and changes nothing; the answer
    /// may change a moment later.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    pub fn inspect(&self, name: impl AsRef<[u8]>) -> Result<KeyState, InspectError> {
        wait(self.0.inspect(name))
    }

    /// The same for every lock whose name has this prefix, as
    /// [`leasehold::Locks::list`](crate::Locks::list).
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses.
    pub fn list(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<KeyState>, InspectError> {
        wait(self.0.list(prefix))
    }

    /// The same for the part of a cluster that can be reached, as
    /// [`leasehold::Locks::list_reachable`](crate::Locks::list_reachable).
    ///
    /// # Errors
    ///
    /// [`InspectError`] if no part of the store answers, or all refuse.
    pub fn list_reachable(
        &self,
        prefix: impl AsRef<[u8]>,
    ) -> Result<(Vec<KeyState>, Vec<Fault>), InspectError> {
        wait(self.0.list_reachable(prefix))
    }

    /// The same for a program that watches for a long time, as
    /// [`leasehold::Locks::watch`](crate::Locks::watch).
    #[must_use]
    pub fn watch(&self, prefix: impl AsRef<[u8]>) -> Watch {
        Watch(self.0.watch(prefix))
    }

    /// Adopts a lock that another process transferred, as
    /// [`leasehold::Locks::adopt`](crate::Locks::adopt).
    ///
    /// # Errors
    ///
    /// [`TransferError`].
    pub fn adopt(&self, token: &TransferToken) -> Result<Guard, TransferError> {
        wait(self.0.adopt(token)).map(Guard)
    }

    /// Keeps a lock that was transferred for at least `within` from now, as
    /// [`leasehold::Locks::renew_transfer`](crate::Locks::renew_transfer).
    ///
    /// # Errors
    ///
    /// [`TransferError`].
    pub fn renew_transfer(&self, token: &TransferToken, within: Duration) -> Result<(), TransferError> {
        wait(self.0.renew_transfer(token, within))
    }

    /// Releases a lock that was transferred and that nobody adopts.
    ///
    /// # Errors
    ///
    /// [`TransferError`].
    pub fn release_transfer(&self, token: &TransferToken) -> Result<(), TransferError> {
        wait(self.0.release_transfer(token))
    }

    /// Ends the lease on a lock, whoever holds it, if it has this fence, as
    /// [`leasehold::Locks::break_lease`](crate::Locks::break_lease). Returns the holder that lost
    /// it.
    ///
    /// # Errors
    ///
    /// [`BreakError`]: nothing was broken; or the store did not answer, and then the lease may have
    /// been broken.
    pub fn break_lease(&self, name: impl AsRef<[u8]>, fence: Fence) -> Result<HolderInfo, BreakError> {
        wait(self.0.break_lease(name, fence))
    }

    /// The same, with a note for the record that [`last_break`](Self::last_break) returns, as
    /// [`leasehold::Locks::break_lease_noting`](crate::Locks::break_lease_noting).
    ///
    /// # Errors
    ///
    /// As [`break_lease`](Self::break_lease).
    pub fn break_lease_noting(
        &self,
        name: impl AsRef<[u8]>,
        fence: Fence,
        note: BreakNote,
    ) -> Result<HolderInfo, BreakError> {
        wait(self.0.break_lease_noting(name, fence, note))
    }

    /// The last lease on a lock that was broken, as
    /// [`leasehold::Locks::last_break`](crate::Locks::last_break).
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    pub fn last_break(&self, name: impl AsRef<[u8]>) -> Result<Option<BreakRecord>, InspectError> {
        wait(self.0.last_break(name))
    }

    /// The same for all names with this prefix, as
    /// [`leasehold::Locks::breaks`](crate::Locks::breaks).
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses.
    pub fn breaks(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<BreakRecord>, InspectError> {
        wait(self.0.breaks(prefix))
    }

    /// Returns whether the job of this name was done, as
    /// [`leasehold::Locks::marked`](crate::Locks::marked).
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    pub fn marked(&self, name: impl AsRef<[u8]>) -> Result<Marked, InspectError> {
        wait(self.0.marked(name))
    }

    /// The same for all names with this prefix, as
    /// [`leasehold::Locks::marks`](crate::Locks::marks).
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses.
    pub fn marks(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<(Key, Marked)>, InspectError> {
        wait(self.0.marks(prefix))
    }

    /// Deletes the mark of a name, as [`leasehold::Locks::forget`](crate::Locks::forget).
    ///
    /// # Errors
    ///
    /// [`InspectError`]; without an answer the mark may or may not be deleted.
    pub fn forget(&self, name: impl AsRef<[u8]>) -> Result<Option<Mark>, InspectError> {
        wait(self.0.forget(name))
    }

    /// The dangers to these locks in the settings of their store, the worst first, as
    /// [`leasehold::Locks::diagnose`](crate::Locks::diagnose). It does not fail, and blocks for at
    /// most a few seconds unless servers are slow.
    ///
    /// ```
    /// use leasehold::{Severity, blocking::Locks};
    /// let locks = Locks::unopened_with(leasehold::Locks::builder(), "redis://127.0.0.1:1")?;
    /// let worst = locks.diagnose().into_iter().next();
    /// assert!(worst.is_some_and(|finding| finding.severity > Severity::Note));     // nobody is there
    /// # Ok::<(), leasehold::ConnectError>(())
    /// ```
    #[must_use]
    pub fn diagnose(&self) -> Vec<Finding> {
        wait(self.0.diagnose())
    }

    /// The events of these locks and all their clones from now on, as
    /// [`leasehold::Locks::events`](crate::Locks::events).
    #[must_use]
    pub fn events(&self) -> Events {
        Events(self.0.events())
    }

    /// Descriptors whose end ends the leases of these locks, as
    /// [`leasehold::Locks::lifelines`](crate::Locks::lifelines).
    #[cfg(unix)]
    #[must_use]
    pub fn lifelines(&self) -> Vec<std::os::fd::OwnedFd> {
        self.0.lifelines()
    }

    /// Runs `work` while no request to the store is half done, as
    /// [`leasehold::Locks::at_rest`](crate::Locks::at_rest).
    pub fn at_rest(&self, work: impl FnOnce() + Send + 'static) {
        self.0.at_rest(work);
    }

    /// Waits until the store answers, as [`leasehold::Locks::ready`](crate::Locks::ready).
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the store did not answer within the outage limit, or refuses; or these locks
    /// are closed.
    pub fn ready(&self) -> Result<(), ConnectError> {
        wait(self.0.ready())
    }

    /// The same locks with another outage limit, as
    /// [`leasehold::Locks::with_outage_limit`](crate::Locks::with_outage_limit).
    #[must_use]
    pub fn with_outage_limit(self, limit: Duration) -> Self {
        Self(self.0.with_outage_limit(limit))
    }

    /// The store's name, without any password.
    #[must_use]
    pub fn store(&self) -> &str {
        self.0.store()
    }

    /// As [`leasehold::Locks::warnings`](crate::Locks::warnings).
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    /// The locks that this process holds here, in no particular order. Lost guards are left out.
    #[must_use]
    pub fn guards(&self) -> Vec<Held> {
        self.0.guards()
    }

    /// Closes these locks and all their clones, as
    /// [`leasehold::Locks::close`](crate::Locks::close): guards may be held for up to `within`
    /// longer. Blocks for at most `within` or a second, whichever is longer, and then `within` once more.
    ///
    /// # Errors
    ///
    /// [`CloseError`] with the guards that had to be ended, and the number of releases that the
    /// store did not confirm.
    pub fn close(&self, within: Duration) -> Result<(), CloseError> {
        wait(self.0.close(within))
    }
}

/// The same locks over the same connection, for parts of an async program that block.
///
/// The runtime that keeps them must run while a thread blocks for them. So block on another thread
/// than those of that runtime, or [keep the locks on a separate
/// thread](LocksBuilder::own_thread).
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{Locks, blocking};
/// let locks = Locks::in_memory();
/// let for_threads = blocking::Locks::from(locks.clone());
/// let job = tokio::task::spawn_blocking(move || {
///     let _guard = for_threads.mutex("report").lock().wait()?;
///     Ok::<_, leasehold::LockError>("written")
/// });
/// assert_eq!(job.await??, "written");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
impl From<crate::Locks> for Locks {
    fn from(locks: crate::Locks) -> Self {
        Self(locks)
    }
}

/// The same locks over the same connection, for the async parts of a program that blocks.
impl From<Locks> for crate::Locks {
    fn from(locks: Locks) -> Self {
        locks.0
    }
}
