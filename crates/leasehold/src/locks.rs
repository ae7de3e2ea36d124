//! The locks of one store: the entry point of this crate.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Claim, Escaped, Fault, Key, KeyState, Misuse};

use crate::error::{CloseError, ConnectError, InspectError};
use crate::event::{Event, Events};
use crate::lock::{Defaults, Held};
use crate::mutex::Mutex;
use crate::naming::Names;
use crate::recipe::{Election, Every, Once};
use crate::rw_lock::RwLock;
use crate::semaphore::Semaphore;
use crate::store_handle::{Askers, StoreHandle};

/// The locks of one store. Cheap to clone; all clones share their connection and the one task that
/// renews their guards.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::Locks;
///
/// let locks = Locks::in_memory(); // or Locks::connect("redis://127.0.0.1").await?
/// let guard = locks.mutex("invoice:42").lock().await?;
/// let reading = locks.rw_lock("doc:7").read().await?;
/// let permit = locks.semaphore("gpus", 4).acquire().await?;
/// # drop((guard, reading, permit));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Locks {
    pub(crate) askers: Arc<Askers>,
    defaults: Arc<Defaults>,
    names: Arc<Names>,
}

impl Locks {
    pub(crate) fn new(handle: Arc<StoreHandle>, defaults: Defaults, names: Names) -> Self {
        let (defaults, names) = (Arc::new(defaults), Arc::new(names));
        Self { askers: Arc::new(Askers { handle }), defaults, names }
    }

    /// The lock of this name. This does no I/O; a name that cannot be a key is an error of the
    /// request.
    #[doc(alias = "lock")]
    pub fn mutex(&self, name: impl AsRef<[u8]>) -> Mutex {
        self.mutex_on(self.key(name.as_ref()).map(Claim::exclusive))
    }

    /// Several locks that are taken together or not at all, under one fence that is greater than
    /// every earlier fence of each. A name given twice counts once. All callers take the locks in
    /// the same order, whatever the order of the names, so there is no deadlock. While it waits, a
    /// request keeps the locks that it already has. An empty list is a misuse, reported by the
    /// request.
    ///
    /// A server of Redis takes some 20 µs for each lock, and serves nobody else meanwhile. With more
    /// than 20,000 locks a request may exceed the time limit of a call: raise `call-limit` in the URL.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let locks = leasehold::Locks::in_memory();
    /// let both = locks.mutex_all(["account:2", "account:1"]).lock().await?;
    /// assert!(locks.mutex("account:1").try_lock().await?.is_none());
    /// both.release().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn mutex_all<Name: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = Name>) -> Mutex {
        self.mutex_on(self.keys(names).and_then(Claim::exclusive_all))
    }

    fn mutex_on(&self, claim: Result<Claim, Misuse>) -> Mutex {
        Mutex { askers: Arc::clone(&self.askers), claim, defaults: Defaults::clone(&self.defaults) }
    }

    /// A job that is done only once, ever, under the lock of this name. This does no I/O.
    pub fn once(&self, name: impl AsRef<[u8]>) -> Once {
        Once::new(self.mutex(name))
    }

    /// A job that is done once in each `period`, under the lock of this name. This does no I/O; an
    /// invalid period is an error when the job is to run.
    pub fn every(&self, period: Duration, name: impl AsRef<[u8]>) -> Every {
        Every::new(self.mutex(name), period)
    }

    /// The leadership of this name, which one of several candidates has at a time. This does no
    /// I/O.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        Election::new(self.mutex(name))
    }

    /// The reader-writer lock of this name: `read()` is shared and `write()` is exclusive. It
    /// excludes mutexes and semaphores of the same name, and other programs' locks, and they
    /// exclude it. This does no I/O.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let locks = leasehold::Locks::in_memory();
    /// let doc = locks.rw_lock("doc:7");
    /// let (one, other) = (doc.read().await?, doc.read().await?);
    /// assert!(doc.try_write().await?.is_none());
    /// # drop((one, other));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn rw_lock(&self, name: impl AsRef<[u8]>) -> RwLock {
        self.rw_lock_all([name])
    }

    /// Several reader-writer locks that are taken together or not at all, as with
    /// [`mutex_all`](Self::mutex_all).
    pub fn rw_lock_all<Name: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = Name>) -> RwLock {
        RwLock { askers: Arc::clone(&self.askers), keys: self.keys(names), defaults: self.defaults().clone() }
    }

    /// The semaphore of this name with 1 to 1,048,576 permits. All its users must name the same
    /// number; users of different numbers exclude each other. It excludes mutexes and reader-writer
    /// locks of the same name, and other programs' locks, and they exclude it. This does no I/O.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let locks = leasehold::Locks::in_memory();
    /// let gpus = locks.semaphore("gpus", 4);
    /// let (one, two) = (gpus.acquire().await?, gpus.acquire_many(2).await?);
    /// assert!(gpus.try_acquire_many(2).await?.is_none());
    /// # drop((one, two));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Semaphore {
        self.semaphore_all([name], permits)
    }

    /// Several semaphores with that many permits each. A request takes the same number of permits
    /// from each, all or nothing, as with [`mutex_all`](Self::mutex_all).
    pub fn semaphore_all<Name: AsRef<[u8]>>(
        &self,
        names: impl IntoIterator<Item = Name>,
        permits: u32,
    ) -> Semaphore {
        let (askers, defaults) = (Arc::clone(&self.askers), self.defaults().clone());
        Semaphore { askers, keys: self.keys(names), permits, defaults }
    }

    fn keys<Name: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = Name>) -> Result<Vec<Key>, Misuse> {
        names.into_iter().map(|name| self.key(name.as_ref())).collect()
    }

    /// The holders of a lock and its waiters, in order. This takes and changes nothing; the answer
    /// may change a moment later.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn inspect(&self, name: impl AsRef<[u8]>) -> Result<KeyState, InspectError> {
        self.handle().inspect(&self.key(name.as_ref())?).await
    }

    /// The same for every lock whose name has this prefix and that is held or waited for, in byte
    /// order. Each lock is shown as it was at some moment during the call. Locks of other programs
    /// are included only if one of our requests waits for them, because nothing distinguishes them
    /// from other strings.
    ///
    /// On a server this scans all keys, a thousand at a time. It blocks nobody, but takes long with
    /// millions of keys. A program that watches continuously uses [`watch`](Self::watch).
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn list(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<KeyState>, InspectError> {
        let (prefix, handle) = (self.full_prefix(prefix.as_ref()), self.handle());
        handle.looked(async { handle.store.inspector()?.list(&prefix).await }).await
    }

    /// The same for the part of a cluster that can be reached, with a fault for each node that cannot.
    /// Any other store is one part.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if no part of the store answers, or all refuse.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn list_reachable(
        &self,
        prefix: impl AsRef<[u8]>,
    ) -> Result<(Vec<KeyState>, Vec<Fault>), InspectError> {
        let (prefix, handle) = (self.full_prefix(prefix.as_ref()), self.handle());
        handle.looked(async { handle.store.inspector()?.list_reachable(&prefix).await }).await
    }

    /// Waits until the store answers, for at most the outage limit; of a quorum, a majority of its
    /// stores. [`connect`](Self::connect) has done so. It is for locks that were made without
    /// connecting, as those of a [`quorum`](Self::quorum), and for a program that reports whether it
    /// is ready.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the store did not answer within the outage limit, or refuses; or these locks
    /// are closed.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn ready(&self) -> Result<(), ConnectError> {
        let handle = self.handle();
        if let Some(reason) = handle.registry.closed_because() {
            return Err(ConnectError::Closed { reason });
        }
        handle.open(self.defaults().outage_limit).await
    }

    /// The same locks with another outage limit than the
    /// [builder](crate::LocksBuilder::outage_limit) set: how long requests wait for a store that
    /// does not answer. A program may wait longer once it has reached its store.
    #[must_use]
    pub fn with_outage_limit(self, limit: Duration) -> Self {
        let defaults = Defaults { outage_limit: limit, ..self.defaults().clone() };
        Self { defaults: Arc::new(defaults), ..self }
    }

    /// The store's name, without any password.
    #[must_use]
    pub fn store(&self) -> &str {
        self.askers.handle.store.name()
    }

    /// Warnings about the settings of the store and about lock names, each on one line. Examples
    /// are a quorum with an even number of members, and two names that are one lock under the
    /// [naming](crate::Naming::ExclusiveLock) of another library.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.askers.handle.store.warnings();
        warnings.extend(self.names.collided().iter().filter_map(|name| {
            let (key, name) = (self.names.key(name).ok()?, Escaped(name));
            Some(format!("{name}: another name of this program is the same lock, at {key}: give it one that differs in letters"))
        }));
        warnings
    }

    pub(crate) fn full_prefix(&self, prefix: &[u8]) -> Vec<u8> {
        self.names.beginning(prefix)
    }

    pub(crate) fn key(&self, name: &[u8]) -> Result<Key, Misuse> {
        let key = self.names.key(name)?;
        if let Some(first) = self.names.used(name, &key) {
            let names = [&*first, name].map(|name| Escaped(name).to_string());
            self.askers.handle.report.tell(|| Event::NamesCollide { key: key.clone(), names });
        }
        Ok(key)
    }

    pub(crate) fn defaults(&self) -> &Defaults {
        &self.defaults
    }

    pub(crate) fn handle(&self) -> &Arc<StoreHandle> {
        &self.askers.handle
    }

    /// The locks that this process holds here, in no particular order. Lost guards are left out.
    #[must_use]
    pub fn guards(&self) -> Vec<Held> {
        self.askers.handle.registry.holdings().into_iter().map(Held).collect()
    }

    /// The events of these locks and all their clones from now on: see [`Event`](crate::Event).
    /// There may be any number of readers, and each gets all events. Nothing waits for a reader,
    /// and without readers it costs nothing.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// use leasehold::Event;
    /// let locks = leasehold::Locks::in_memory();
    /// let mut events = locks.events();
    /// locks.mutex("deploy").lock().await?.release().await?;
    /// assert!(matches!(events.next().await, Some(Event::Acquired { .. })));
    /// assert!(matches!(events.next().await, Some(Event::Released { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn events(&self) -> Events {
        self.askers.handle.report.read()
    }

    /// Descriptors whose end ends the leases of these locks. While any process has them open, the
    /// leases last until their ends; when the last process closes one, the leases in its store end
    /// at once. This process has them open anyway, and closes them when it dies, or when the locks
    /// and all their guards are gone. So this is for a program that passes them to another process,
    /// which is to keep the leases alive; for example a supervisor that ends the work before the
    /// next holder may start.
    ///
    /// They are closed on exec, so the caller must pass them on explicitly. A file store has one,
    /// unless the file system refuses, and a quorum has those of its members. There are none where
    /// leases end only by their TTL, as in all other stores.
    #[cfg(unix)]
    #[must_use]
    pub fn lifelines(&self) -> Vec<std::os::fd::OwnedFd> {
        self.askers.handle.store.lifelines()
    }

    /// Runs `work` while no request to the store is half done. This blocks until `work` has run,
    /// mostly for less than a millisecond.
    ///
    /// It is for programs that stop themselves, as on Ctrl-Z: a process that is stopped during a
    /// transaction blocks the file of a file store for everybody until it continues. For other
    /// stores it makes no difference. All other requests of this process wait meanwhile, so `work`
    /// must not use these locks.
    pub fn at_rest(&self, work: impl FnOnce() + Send + 'static) {
        self.askers.handle.store.at_rest(Box::new(work));
    }

    /// Closes these locks and all their clones. Waiting and new requests fail with
    /// [`Closed`](crate::LockError::Closed) at once. Guards may be held for up to `within` longer;
    /// then they are lost and released. This resolves when the store has confirmed all releases,
    /// also those of requests that were under way; a request that is not polled meanwhile is awaited
    /// for a second at most.
    ///
    /// Call it last, when a program shuts down: the releases of dropped guards run in the
    /// background, and this waits for them.
    ///
    /// # Errors
    ///
    /// [`CloseError`] with the guards that had to be ended, and the number of releases that the
    /// store did not confirm.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the locks closed and the remaining guards held.
    pub async fn close(&self, within: Duration) -> Result<(), CloseError> {
        let handle = &self.askers.handle;
        let StoreHandle { registry, runtime, .. } = &**handle;
        let begun = runtime.now();
        registry.refuse("they were closed by this program");
        let had_requests = registry.has_requests();
        let is_quiet = runtime.within(within, handle.quiet()).await.is_some();
        let taken_back = if is_quiet { Vec::new() } else { registry.abandon(runtime.now()) };
        for attempt in &taken_back {
            handle.give_up(attempt.clone());
        }
        // A request ends when it is polled, and leaves a release in the background.
        runtime.before(begun + Self::LAST_RELEASES, registry.no_requests()).await;
        // The releases of requests and guards that were just ended have had no time yet.
        let is_new = if is_quiet { had_requests } else { !taken_back.is_empty() };
        let end = begun + within.max(Self::LAST_RELEASES);
        runtime.before(if is_new { end + within } else { end }, handle.quiet()).await;
        let unconfirmed = handle.under_way();
        if taken_back.is_empty() && unconfirmed == 0 {
            return Ok(());
        }
        let keys = taken_back.iter().flat_map(|attempt| attempt.claim.keys().cloned()).collect();
        Err(CloseError { taken_back: keys, unconfirmed })
    }

    /// The time for the last releases of a close, whatever its limit: one call to a slow store.
    const LAST_RELEASES: Duration = Duration::from_secs(1);
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Locks").field(&self.askers.handle).finish()
    }
}
