//! The locks of one place: where everything begins.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Claim, Escaped, Key, KeyState, Label, Misuse, Ttl};

use crate::any_store::AnyStore;
use crate::builder::LocksBuilder;
use crate::defaults::Defaults;
use crate::error::{CloseError, ConnectError, InspectError};
use crate::event::Event;
use crate::events::Events;
use crate::lock::Held;
use crate::mutex::Mutex;
use crate::naming::{Names, Naming};
use crate::place::Place;
use crate::recipe::{Election, Every, Once};
use crate::rw_lock::RwLock;
use crate::semaphore::Semaphore;

/// The locks of one place. Cheap to clone; all clones share their connection and the one task that renews their guards.
#[derive(Clone)]
pub struct Locks {
    askers: Arc<Askers>,
    defaults: Arc<Defaults>,
    names: Arc<Names>,
}

impl Locks {
    pub(crate) fn new(place: Arc<Place>, defaults: Defaults) -> Self {
        Self { askers: Arc::new(Askers(place)), defaults: Arc::new(defaults), names: Arc::default() }
    }

    /// Connects to the store at a URL, with the defaults of [`LocksBuilder`].
    ///
    /// - `memory:` — this process alone
    /// - `file:/path/to/leases.db` — the processes of one machine
    /// - `redis://[user:password@]host[:port][/db]`, `rediss://…` with TLS, `redis+unix:///path/to/socket`
    /// - `redis+sentinel://[user:password@]host[:port],host…/master-name`, or `rediss+sentinel://…`: the master that sentinels name
    /// - `redis+cluster://[user:password@]host[:port][,host[:port]]…`, `rediss+cluster://…` — a cluster; any of its nodes will do
    ///
    /// The calling runtime keeps the locks: when it ends, guards are lost.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: a URL that cannot be used, a store that does not answer within the outage limit, or one that refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder().connect(url).await
    }

    /// Locks in a majority of independent stores, of any kind and in any mix: what more than half of them grant is granted. Opens
    /// nothing, so that a store that is down does not matter while more than half are up.
    ///
    /// No lease may be longer than `max_ttl`, which must be the same for all who use these stores. 60 s is usual. For so long, and a
    /// second, a server or a file abstains after a restart without its state, **and at its first use**: nothing tells the two apart.
    /// A new quorum therefore grants its first lock after 61 s. `lock()` waits for that; `try_lock()` and a shorter `within` fail with
    /// [`LockError::NoQuorum`](crate::LockError::NoQuorum), which says so. In tests, `redis://…?quarantine=no` serves at once.
    ///
    /// ```no_run
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// use leasehold::{AnyStore, Locks};
    /// let hosts = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let stores: Result<Vec<_>, _> = hosts.into_iter().map(AnyStore::from_url).collect();
    /// let locks = Locks::quorum(stores?, std::time::Duration::from_secs(60))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError::Misuse`]: no store, one store twice, or a longest ttl that is too short.
    pub fn quorum<Member: Into<AnyStore>>(
        stores: impl IntoIterator<Item = Member>,
        max_ttl: Duration,
    ) -> Result<Self, ConnectError> {
        Self::builder().quorum(stores, max_ttl)
    }

    /// Locks of this process alone. They are gone with the last clone and guard.
    ///
    /// In a test whose runtime has tokio's clock paused by then (`start_paused`, `tokio::time::pause`), they follow that clock: an hour takes a
    /// moment, and leases, waits and the test's own timers agree on it. Locks on other stores go by real time always.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, when the operating system gives no thread for one.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::builder().in_memory().expect("a thread to keep the locks on")
    }

    /// Other defaults for ttl, renewal, label, key prefix and outage limit.
    pub fn builder() -> LocksBuilder {
        LocksBuilder::default()
    }

    /// The lock of this name. Does no I/O; a name that cannot be a key is said when the lock is asked for.
    pub fn mutex(&self, name: impl AsRef<[u8]>) -> Mutex {
        let claim = self.key(name.as_ref()).map(Claim::exclusive);
        Mutex::new(self.askers.clone(), claim, Defaults::clone(&self.defaults))
    }

    /// Several locks taken together, or none of them, under one fence that is greater than every earlier one of each. A name
    /// given twice counts once. Whatever order the names are given in, all callers take them in one, so nobody waits in a
    /// circle; while it waits, a request keeps those that it has. No name at all is a misuse, said when the locks are asked for.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let locks = leasehold::Locks::in_memory();
    /// let both = locks.mutex_all(["account:2", "account:1"]).lock().await?;
    /// assert!(locks.mutex("account:1").try_lock().await?.is_none());
    /// both.release().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn mutex_all<Name: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = Name>) -> Mutex {
        let claim = self.keys(names).and_then(Claim::exclusive_all);
        Mutex::new(self.askers.clone(), claim, Defaults::clone(&self.defaults))
    }

    /// Something that is done once, ever, under the lock of this name. Does no I/O.
    pub fn once(&self, name: impl AsRef<[u8]>) -> Once {
        let claim = self.key(name.as_ref()).map(Claim::exclusive);
        Once::new(self.askers.clone(), claim, Defaults::clone(&self.defaults))
    }

    /// Something that is done once in each `period`, under the lock of this name. Does no I/O; a period that cannot be is said when it
    /// is to run.
    pub fn every(&self, period: Duration, name: impl AsRef<[u8]>) -> Every {
        let claim = self.key(name.as_ref()).map(Claim::exclusive);
        Every::new(self.askers.clone(), claim, Defaults::clone(&self.defaults), period)
    }

    /// The leadership of this name, for which several stand and which one has at a time. Does no I/O.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        let claim = self.key(name.as_ref()).map(Claim::exclusive);
        Election::new(self.askers.clone(), claim, Defaults::clone(&self.defaults))
    }

    /// The lock of this name, for readers and writers: readers hold it together, a writer alone. It keeps out mutexes and
    /// semaphores of the same name, and other programs' locks, and they keep it out. Does no I/O.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let locks = leasehold::Locks::in_memory();
    /// let doc = locks.rw_lock("doc:7");
    /// let (one, other) = (doc.read().await?, doc.read().await?);
    /// assert!(doc.try_write().await?.is_none());
    /// # drop((one, other));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rw_lock(&self, name: impl AsRef<[u8]>) -> RwLock {
        self.rw_lock_all([name])
    }

    /// Several reader-writer locks taken together, or none of them, as [`mutex_all`](Self::mutex_all) takes mutexes.
    pub fn rw_lock_all<Name: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = Name>) -> RwLock {
        RwLock::new(self.askers.clone(), self.keys(names), Defaults::clone(&self.defaults))
    }

    /// The semaphore of this name, of so many permits: 1 to 1,048,576. All who use it must name the same number; those who do not
    /// keep each other out. It keeps out mutexes and reader-writer locks of the same name, and other programs' locks, and they keep
    /// it out. Does no I/O.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let locks = leasehold::Locks::in_memory();
    /// let gpus = locks.semaphore("gpus", 4);
    /// let (one, two) = (gpus.acquire().await?, gpus.acquire_many(2).await?);
    /// assert!(gpus.try_acquire_many(2).await?.is_none());
    /// # drop((one, two));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn semaphore(&self, name: impl AsRef<[u8]>, permits: u32) -> Semaphore {
        self.semaphore_all([name], permits)
    }

    /// Several semaphores of so many permits each, of which as many are taken of one as of the other, together or none, as
    /// [`mutex_all`](Self::mutex_all) takes mutexes.
    pub fn semaphore_all<Name: AsRef<[u8]>>(
        &self,
        names: impl IntoIterator<Item = Name>,
        permits: u32,
    ) -> Semaphore {
        Semaphore::new(self.askers.clone(), self.keys(names), permits, Defaults::clone(&self.defaults))
    }

    fn keys<Name: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = Name>) -> Result<Vec<Key>, Misuse> {
        names.into_iter().map(|name| self.key(name.as_ref())).collect()
    }

    /// Who holds a lock, and who waits for it, in order. Takes nothing and changes nothing; a moment later it may be different.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses, or the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn inspect(&self, name: impl AsRef<[u8]>) -> Result<KeyState, InspectError> {
        let key = self.key(name.as_ref())?;
        self.askers.place().inspect(&key).await.map_err(InspectError::Store)
    }

    /// The same of every lock whose name begins so and that is held or waited for, in the order of their bytes. Each is shown as it
    /// was at some moment of the call. Locks of other programs are among them only where one of ours waits for them: nothing
    /// tells them from other strings.
    ///
    /// On a server this looks through all its keys, a thousand at a time; it holds nobody up, but takes its time where there are
    /// millions. Whoever watches takes [`survey`](Self::survey).
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn list(&self, prefix: impl AsRef<[u8]>) -> Result<Vec<KeyState>, InspectError> {
        let prefix = self.full_prefix(prefix.as_ref());
        let place = self.askers.place();
        let listed = async { place.store.inspector()?.list(&prefix).await }.await;
        place.report.answered(&listed);
        listed.map_err(InspectError::Store)
    }

    /// The same locks, whose requests wait so long for a store that does not answer, whatever the
    /// [builder](LocksBuilder::outage_limit) was told. A program that has reached its store once may wait for longer from then on.
    #[must_use]
    pub fn with_outage_limit(self, limit: Duration) -> Self {
        let defaults = Defaults { outage_limit: limit, ..Defaults::clone(&self.defaults) };
        Self { defaults: Arc::new(defaults), ..self }
    }

    /// The store's name, without any password.
    #[must_use]
    pub fn store(&self) -> &str {
        self.askers.place().store.name()
    }

    /// What a person should know of how the store is set up and its locks are called, each on one line: an even number of stores in a
    /// quorum, for one, or two names that are one lock under the [naming](crate::Naming::ExclusiveLock) of another library.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.askers.place().store.warnings();
        warnings.extend(self.names.collided().iter().filter_map(|name| {
            let (key, name) = (self.defaults.key(name).ok()?, Escaped(name));
            Some(format!("{name}: another name of this program is the same lock, at {key}: give it one that differs in letters"))
        }));
        warnings
    }

    pub(crate) fn askers(&self) -> Arc<Askers> {
        self.askers.clone()
    }

    pub(crate) fn full_prefix(&self, prefix: &[u8]) -> Vec<u8> {
        self.defaults.beginning(prefix)
    }

    pub(crate) fn key(&self, name: &[u8]) -> Result<Key, Misuse> {
        let key = self.defaults.key(name)?;
        if self.defaults.naming == Naming::ExclusiveLock
            && let Some(first) = self.names.used(name, &key)
        {
            let names = [&*first, name].map(|name| Escaped(name).to_string());
            self.askers.place().report.tell(|| Event::NamesCollide { key: key.clone(), names });
        }
        Ok(key)
    }

    /// What who asks here says of itself.
    pub(crate) fn label(&self) -> Result<Option<Label>, Misuse> {
        self.defaults.label.clone()
    }

    pub(crate) fn place(&self) -> &Arc<Place> {
        self.askers.place()
    }

    pub(crate) fn check(&self, ttl: Ttl) -> Result<(), Misuse> {
        self.askers.place().check(ttl)
    }

    /// What this process holds here, in no particular order. Lost guards are not among it.
    #[must_use]
    pub fn guards(&self) -> Vec<Held> {
        self.askers.place().roster.holdings().into_iter().map(Held).collect()
    }

    /// What happens to these locks and all their clones from now on: see [`Event`](crate::Event). Any number may read, each all of it; nobody
    /// waits for a reader, and where nobody reads it costs nothing.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// use leasehold::Event;
    /// let locks = leasehold::Locks::in_memory();
    /// let mut events = locks.events();
    /// locks.mutex("deploy").lock().await?.release().await?;
    /// assert!(matches!(events.next().await, Some(Event::Acquired { .. })));
    /// assert!(matches!(events.next().await, Some(Event::Released { .. })));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn events(&self) -> Events {
        self.askers.place().report.read()
    }

    /// A descriptor that the leases of these locks hang on: as long as any process has it open, they last until their ends;
    /// when the last one closes it, they end at once. This process has it open anyway, and closes it when it dies or when
    /// the locks and all their guards are gone, so this is for whoever hands it to another process that is to keep the leases
    /// alive, such as one that ends the work before the next holder may begin.
    ///
    /// It is closed on exec; whoever passes it on takes care of that. `None` where leases hang on nothing but their ends: on
    /// all stores but the file store, and there too if the file system refuses.
    #[cfg(unix)]
    #[must_use]
    pub fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        self.askers.place().store.lifeline()
    }

    /// Does something while no request is half done at the store; it blocks until that is done, mostly for less than a millisecond.
    ///
    /// For programs that stop themselves, as on Ctrl-Z: a process that is stopped in the middle of a transaction keeps the file of a file
    /// store from everybody else until it goes on. On other stores it makes no difference. Whatever else this process does meanwhile
    /// waits, so `work` must not ask for anything at these locks.
    pub fn at_rest(&self, work: impl FnOnce() + Send + 'static) {
        self.askers.place().store.at_rest(Box::new(work));
    }

    /// Closes these locks and all their clones: requests that wait and requests to come are answered
    /// [`Closed`](crate::LockError::Closed) at once; guards may be held on for as long as `within` and then are lost and
    /// released. Resolves when all releases are confirmed by the store.
    ///
    /// Call it last, when a program shuts down: releases of dropped guards run in the background, and this waits for them.
    ///
    /// # Errors
    ///
    /// [`CloseError`] with the guards that had to be taken back, and the number of releases that the store did not confirm.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future leaves the locks closed and the remaining guards held.
    pub async fn close(&self, within: Duration) -> Result<(), CloseError> {
        let place = self.askers.place();
        let Place { roster, runtime, .. } = &**place;
        roster.refuse("they were closed by this program");
        let end = runtime.now() + within;
        tokio::select! {
            biased;
            () = place.quiet() => return Ok(()),
            () = runtime.sleep_until(end) => {}
        }
        let taken_back = roster.abandon(runtime.now());
        for attempt in &taken_back {
            place.give_up(attempt.clone());
        }
        // The releases of the guards that were just taken back have had no time yet; all others have had theirs.
        let more = if taken_back.is_empty() { Duration::ZERO } else { within.max(Self::LAST_RELEASES) };
        let end = runtime.now() + more;
        tokio::select! {
            biased;
            () = place.quiet() => {}
            () = runtime.sleep_until(end) => {}
        }
        let unconfirmed = place.under_way();
        if taken_back.is_empty() && unconfirmed == 0 {
            return Ok(());
        }
        let keys = taken_back.iter().flat_map(|attempt| attempt.claim.keys().cloned()).collect();
        Err(CloseError { taken_back: keys, unconfirmed })
    }

    /// How long the releases of a close may take, whatever it was given: one call to a store that answers slowly.
    const LAST_RELEASES: Duration = Duration::from_secs(1);
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Locks").field(self.askers.place()).finish()
    }
}

/// Everybody who can ask for a lock here: [`Locks`], [`Mutex`] and its like, and requests, but not guards. When the last of them is gone the
/// keeper is told, so that it ends with the last guard.
#[derive(Debug)]
pub(crate) struct Askers(Arc<Place>);

impl Askers {
    pub(crate) const fn place(&self) -> &Arc<Place> {
        &self.0
    }
}

impl Drop for Askers {
    fn drop(&mut self) {
        self.0.roster.orphan();
    }
}
