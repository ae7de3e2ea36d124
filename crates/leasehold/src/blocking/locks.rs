//! The locks of one place.

use std::sync::Arc;
use std::time::Duration;

use super::election::Election;
use super::events::Events;
use super::every::Every;
use super::mutex::Mutex;
use super::once::Once;
use super::rw_lock::RwLock;
use super::semaphore::Semaphore;
use super::survey::Survey;
use super::wait;
use crate::{
    AnyStore, BreakError, BreakNote, BreakRecord, CloseError, ConnectError, Fence, Finding, Held, HolderInfo,
    InspectError, Key, KeyState, LocksBuilder, Mark, Marked, Store,
};

/// The locks of one place, as [`leasehold::Locks`](crate::Locks). Cheap to clone.
#[derive(Clone, Debug)]
pub struct Locks(crate::Locks);

impl Locks {
    /// Connects to the store at a URL, with the defaults of [`LocksBuilder`]; [`leasehold::Locks::connect`](crate::Locks::connect)
    /// says which there are. Blocks for the outage limit at most.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: a URL that cannot be used, a store that does not answer within the outage limit, one that refuses, or no
    /// thread.
    pub fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::connect_with(crate::Locks::builder(), url)
    }

    /// The same with other defaults. Whatever the builder says of it, the locks are kept on a thread of their own.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use std::time::Duration;
    /// let defaults = leasehold::Locks::builder().ttl(Duration::from_secs(10)).label("nightly");
    /// let locks = leasehold::blocking::Locks::connect_with(defaults, "redis://127.0.0.1")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect), or a default that cannot be used.
    pub fn connect_with(builder: LocksBuilder, url: &str) -> Result<Self, ConnectError> {
        wait(builder.own_thread(true).connect(url)).map(Self)
    }

    /// Locks in a majority of stores, as [`leasehold::Locks::quorum`](crate::Locks::quorum).
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: stores or a longest ttl that cannot be used, or no thread.
    pub fn quorum<Member: Into<AnyStore>>(
        stores: impl IntoIterator<Item = Member>,
        max_ttl: Duration,
    ) -> Result<Self, ConnectError> {
        Self::quorum_with(crate::Locks::builder(), stores, max_ttl)
    }

    /// The same with other defaults. Whatever the builder says of it, the locks are kept on a thread of their own.
    ///
    /// # Errors
    ///
    /// As [`quorum`](Self::quorum), or a default that cannot be used.
    pub fn quorum_with<Member: Into<AnyStore>>(
        builder: LocksBuilder,
        stores: impl IntoIterator<Item = Member>,
        max_ttl: Duration,
    ) -> Result<Self, ConnectError> {
        builder.own_thread(true).quorum(stores, max_ttl).map(Self)
    }

    /// Locks of this process alone. They are gone with the last clone and guard.
    ///
    /// # Errors
    ///
    /// [`ConnectError::NoThread`], when the operating system gives none.
    pub fn in_memory() -> Result<Self, ConnectError> {
        Self::in_memory_with(crate::Locks::builder())
    }

    /// The same with other defaults.
    ///
    /// # Errors
    ///
    /// As [`in_memory`](Self::in_memory), or a default that cannot be used.
    pub fn in_memory_with(builder: LocksBuilder) -> Result<Self, ConnectError> {
        builder.own_thread(true).in_memory().map(Self)
    }

    /// The store at a URL, without connecting to it, as [`LocksBuilder::unopened`].
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: a URL or default that cannot be used, or no thread.
    pub fn unopened_with(builder: LocksBuilder, url: &str) -> Result<Self, ConnectError> {
        builder.own_thread(true).unopened(url).map(Self)
    }

    /// Locks on a store of your own, as [`LocksBuilder::over`].
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: a default that cannot be used, or no thread.
    pub fn over_with(builder: LocksBuilder, store: Arc<dyn Store>) -> Result<Self, ConnectError> {
        builder.own_thread(true).over(store).map(Self)
    }

    /// These locks, which are kept by another thread than those that will block for them.
    #[cfg(feature = "testing")]
    pub(crate) const fn kept_elsewhere(locks: crate::Locks) -> Self {
        Self(locks)
    }

    /// The lock of this name. Does no I/O; a name that cannot be a key is said when the lock is asked for.
    pub fn mutex(&self, name: impl AsRef<[u8]>) -> Mutex {
        Mutex(self.0.mutex(name))
    }

    /// Several locks taken together, or none of them, as [`leasehold::Locks::mutex_all`](crate::Locks::mutex_all).
    pub fn mutex_all<Name: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = Name>) -> Mutex {
        Mutex(self.0.mutex_all(names))
    }

    /// The reader-writer lock of this name. Does no I/O.
    pub fn rw_lock(&self, name: impl AsRef<[u8]>) -> RwLock {
        RwLock(self.0.rw_lock(name))
    }

    /// Several reader-writer locks taken together, or none of them.
    pub fn rw_lock_all<Name: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = Name>) -> RwLock {
        RwLock(self.0.rw_lock_all(names))
    }

    /// The semaphore of this name, of so many permits, as [`leasehold::Locks::semaphore`](crate::Locks::semaphore). Does no I/O.
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Semaphore {
        Semaphore(self.0.semaphore(name, permits))
    }

    /// Several semaphores of so many permits each, of which as many are taken of one as of the other, together or none.
    pub fn semaphore_all<Name: AsRef<[u8]>>(
        &self,
        names: impl IntoIterator<Item = Name>,
        permits: u32,
    ) -> Semaphore {
        Semaphore(self.0.semaphore_all(names, permits))
    }

    /// Something that is done once, ever, under the lock of this name. Does no I/O.
    pub fn once(&self, name: impl AsRef<[u8]>) -> Once {
        Once(self.0.once(name))
    }

    /// Something that is done once in each `period`, under the lock of this name. Does no I/O; a period that cannot be is said when it
    /// is to run.
    pub fn every(&self, period: Duration, name: impl AsRef<[u8]>) -> Every {
        Every(self.0.every(period, name))
    }

    /// The leadership of this name, for which several stand and which one has at a time. Does no I/O.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        Election(self.0.election(name))
    }

    /// Who holds a lock, and who waits for it, in order. Takes nothing and changes nothing; a moment later it may be different.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses, or the name cannot be a key.
    pub fn inspect(&self, name: impl AsRef<[u8]>) -> Result<KeyState, InspectError> {
        wait(self.0.inspect(name))
    }

    /// The same of every lock whose name begins so, as [`leasehold::Locks::list`](crate::Locks::list).
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses.
    pub fn list(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<KeyState>, InspectError> {
        wait(self.0.list(prefix))
    }

    /// The same, for whoever watches for a long time, as [`leasehold::Locks::survey`](crate::Locks::survey).
    #[must_use]
    pub fn survey(&self, prefix: impl AsRef<[u8]>) -> Survey {
        Survey(self.0.survey(prefix))
    }

    /// Ends the lease on a lock, whoever holds it, if its fence is this, as [`leasehold::Locks::break_lease`](crate::Locks::break_lease);
    /// what it was.
    ///
    /// # Errors
    ///
    /// [`BreakError`]: nothing was broken; or the store did not answer, and then it may have been.
    pub fn break_lease(&self, name: impl AsRef<[u8]>, fence: Fence) -> Result<HolderInfo, BreakError> {
        wait(self.0.break_lease(name, fence))
    }

    /// The same, with a note for the record that [`last_break`](Self::last_break) shows, as
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

    /// Which lease on a lock was broken last, as [`leasehold::Locks::last_break`](crate::Locks::last_break).
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses, or the name cannot be a key.
    pub fn last_break(&self, name: impl AsRef<[u8]>) -> Result<Option<BreakRecord>, InspectError> {
        wait(self.0.last_break(name))
    }

    /// The same of all names that begin so, as [`leasehold::Locks::breaks`](crate::Locks::breaks).
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses.
    pub fn breaks(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<BreakRecord>, InspectError> {
        wait(self.0.breaks(prefix))
    }

    /// Whether what a name stands for was done, as [`leasehold::Locks::marked`](crate::Locks::marked).
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses, or the name cannot be a key.
    pub fn marked(&self, name: impl AsRef<[u8]>) -> Result<Marked, InspectError> {
        wait(self.0.marked(name))
    }

    /// The same of all names that begin so, as [`leasehold::Locks::marks`](crate::Locks::marks).
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses.
    pub fn marks(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<(Key, Marked)>, InspectError> {
        wait(self.0.marks(prefix))
    }

    /// Takes back the mark of a name, as [`leasehold::Locks::forget`](crate::Locks::forget).
    ///
    /// # Errors
    ///
    /// [`InspectError`]; without an answer the mark may be gone or not.
    pub fn forget(&self, name: impl AsRef<[u8]>) -> Result<Option<Mark>, InspectError> {
        wait(self.0.forget(name))
    }

    /// What would endanger these locks where they live, the worst first, as [`leasehold::Locks::diagnose`](crate::Locks::diagnose). It does
    /// not fail, and blocks for a few seconds at most unless servers are slow.
    ///
    /// ```
    /// # fn example() -> Result<(), leasehold::ConnectError> {
    /// use leasehold::{Severity, blocking::Locks};
    /// let locks = Locks::unopened_with(leasehold::Locks::builder(), "redis://127.0.0.1:1")?;
    /// let worst = locks.diagnose().into_iter().next();
    /// assert!(worst.is_some_and(|finding| finding.severity > Severity::Note));     // nobody is there
    /// # Ok(())
    /// # }
    /// # example().unwrap();
    /// ```
    #[must_use]
    pub fn diagnose(&self) -> Vec<Finding> {
        wait(self.0.diagnose())
    }

    /// What happens to these locks and all their clones from now on, as [`leasehold::Locks::events`](crate::Locks::events).
    #[must_use]
    pub fn events(&self) -> Events {
        Events(self.0.events())
    }

    /// A descriptor that the leases of these locks hang on, as [`leasehold::Locks::lifeline`](crate::Locks::lifeline).
    #[cfg(unix)]
    #[must_use]
    pub fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        self.0.lifeline()
    }

    /// Does something while no request is half done at the store, as [`leasehold::Locks::at_rest`](crate::Locks::at_rest).
    pub fn at_rest(&self, work: impl FnOnce() + Send + 'static) {
        self.0.at_rest(work);
    }

    /// The same locks with another outage limit, as [`leasehold::Locks::with_outage_limit`](crate::Locks::with_outage_limit).
    #[must_use]
    pub fn with_outage_limit(self, limit: Duration) -> Self {
        Self(self.0.with_outage_limit(limit))
    }

    /// The store's name, without any password.
    #[must_use]
    pub fn store(&self) -> &str {
        self.0.store()
    }

    /// What a person should know of how the store is set up, each on one line.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.0.warnings()
    }

    /// What this process holds here, in no particular order. Lost guards are not among it.
    #[must_use]
    pub fn guards(&self) -> Vec<Held> {
        self.0.guards()
    }

    /// Closes these locks and all their clones, as [`leasehold::Locks::close`](crate::Locks::close): guards may be held on for as long
    /// as `within`. Blocks for twice that at most, or a second more than that if it is shorter.
    ///
    /// # Errors
    ///
    /// [`CloseError`] with the guards that had to be taken back, and the number of releases that the store did not confirm.
    pub fn close(&self, within: Duration) -> Result<(), CloseError> {
        wait(self.0.close(within))
    }
}
