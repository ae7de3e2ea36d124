//! Making locks: the entry points of [`Locks`], and a builder for locks with other defaults.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Backoff, Drift, Label, Misuse, Renewal, Runtime, Signal, Store, Ttl};

use crate::any_store::{self, AnyStore};
use crate::error::ConnectError;
use crate::lock::Defaults;
use crate::locks::Locks;
use crate::memory::MemoryStore;
use crate::naming::{Names, Naming};
use crate::quorum::QuorumStore;
use crate::runtime::TokioRuntime;
use crate::store_handle::{StoreHandle, check_ttl};

/// Defaults for the locks of one store; a lock or a request can override them.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::Locks;
/// use std::time::Duration;
///
/// let locks = Locks::builder().ttl(Duration::from_secs(10)).label("billing").in_memory()?;
/// let guard = locks.mutex("invoice:42").lock().await?;
/// assert!(guard.remaining() <= Duration::from_secs(10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder does nothing until it connects"]
pub struct LocksBuilder {
    defaults: Defaults,
    /// The prefix of the name of every key.
    prefix: Vec<u8>,
    naming: Naming,
    own_thread: bool,
    drift: Option<Drift>,
    runtime: Option<Arc<dyn Runtime>>,
}

impl LocksBuilder {
    /// Sets the TTL: how long a lease lasts without renewal; 30 s by default. That is long enough
    /// that nobody loses a lock while a server restarts, and short enough that others can wait
    /// after a crash.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = Ttl::new(ttl);
        self
    }

    /// Sets whether leases are renewed; [`Renewal::Automatic`] by default. Jobs and elections are
    /// always renewed, whatever is set here: a job has a limit of its own,
    /// [`Once::at_most`](crate::Once::at_most).
    pub const fn renewal(mut self, renewal: Renewal) -> Self {
        self.defaults.renewal = renewal;
        self
    }

    /// Sets what holders say about themselves to observers; nothing by default, and if it is empty.
    pub fn label(mut self, label: &str) -> Self {
        let given = Some(label).filter(|label| !label.is_empty());
        self.defaults.label = given.map(Label::new).transpose();
        self
    }

    /// Sets a prefix for the name of every key, taken literally; none by default.
    pub fn prefix(mut self, prefix: impl AsRef<[u8]>) -> Self {
        self.prefix = prefix.as_ref().to_vec();
        self
    }

    /// Sets how names become keys, so that locks of another library with the same names and ours
    /// exclude each other: [`Naming`] lists the libraries. A prefix is then a part of the name. By
    /// default, a key is its name.
    ///
    /// ```
    /// use leasehold::{Locks, Naming};
    /// let locks = Locks::builder().naming(Naming::RedisSemaphore).in_memory()?;
    /// let mutex = locks.mutex("invoice:42");                       // the key `mutex:invoice:42`
    /// # Ok::<(), leasehold::ConnectError>(())
    /// ```
    pub fn naming(mut self, naming: Naming) -> Self {
        self.defaults.signal = naming.signal();
        self.naming = naming;
        self
    }

    /// Sets which waiters of other libraries a release wakes in addition to our own, for programs
    /// that write their keys in full. [`naming`](Self::naming) sets it automatically.
    pub const fn signal(mut self, signal: Option<Signal>) -> Self {
        self.defaults.signal = signal;
        self
    }

    /// Makes waiters poll instead of queueing, for keys that other libraries poll. Without it,
    /// Leasehold's waiters hand a busy key over among themselves, and the other libraries hardly
    /// ever find it free.
    ///
    /// Each waiter asks every half to whole `interval`. After a release, this process waits for
    /// such a time before it asks for that key again, so that the key is free for the others. A
    /// single try asks at once. So a free key may stay unused for a while, and there is no order
    /// among waiters: a library that polls more often gets the lock more often. Choose the interval
    /// of the other libraries, mostly 100 ms.
    ///
    /// All Leasehold programs that lock these keys must poll; one that does not still queues. For
    /// keys that only Leasehold locks, use [`Locks`] without this.
    ///
    /// ```
    /// use std::time::Duration;
    /// use leasehold::{Locks, Naming};
    /// let every = Duration::from_millis(100);
    /// let locks = Locks::builder().naming(Naming::RedisSemaphore).poll_every(every).in_memory()?;
    /// # Ok::<(), leasehold::ConnectError>(())
    /// ```
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.defaults.poll = Backoff::new(interval, interval).map(Some);
        self
    }

    /// Sets how long requests wait for a store that does not answer; 10 s by default. That is
    /// longer than most failovers and restarts, and shorter than people wait before they
    /// investigate. It begins anew if the process was stopped or the machine slept meanwhile.
    pub const fn outage_limit(mut self, limit: Duration) -> Self {
        self.defaults.outage_limit = limit;
        self
    }

    /// Keeps the locks on a separate thread, so that guards outlive the runtime that connected, and
    /// a blocked runtime does not delay renewals. By default, the calling runtime keeps them.
    ///
    /// A guard that is dropped outside any runtime then blocks until the store has confirmed its
    /// release, for at most 2 s, because the program may be about to end. Of several that are dropped
    /// one after the other, only the first waits for a store that does not answer.
    pub const fn own_thread(mut self) -> Self {
        self.own_thread = true;
        self
    }

    /// Sets how much earlier than the store a holder stops relying on its lease. By default this is
    /// what the store needs, and for a quorum the most that any member needs.
    /// [`Drift::BETWEEN_MACHINES`] derives the numbers. Set more where clocks are not disciplined;
    /// with less, two guards of a key may consider themselves valid at once.
    pub const fn drift(mut self, drift: Drift) -> Self {
        self.drift = Some(drift);
        self
    }

    /// Sets the source of clock, timers, tasks and randomness, for simulations and for tests with
    /// their own clock.
    pub fn runtime(mut self, runtime: Arc<dyn Runtime>) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Connects to the store at a URL; see [`Locks::connect`].
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the URL or a default is invalid, or the store did not answer within the
    /// outage limit or refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn connect(self, url: &str) -> Result<Locks, ConnectError> {
        let locks = self.unopened(url)?;
        locks.ready().await?;
        Ok(locks)
    }

    /// The store at a URL, without connecting to it: the first request connects, or
    /// [`Locks::ready`]. It is for programs that want to [diagnose](Locks::diagnose) a store that
    /// cannot be connected to, or to start while it is down.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the URL or a default is invalid, or no thread could be started.
    pub fn unopened(self, url: &str) -> Result<Locks, ConnectError> {
        self.over_made(clock_for(url), |runtime| any_store::from_url(url, runtime))
    }

    /// Locks in a majority of stores; see [`Locks::quorum`].
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the stores, the longest TTL or a default are invalid, or no thread could
    /// be started.
    pub fn quorum<Member: Into<AnyStore>>(
        self,
        stores: impl IntoIterator<Item = Member>,
        max_ttl: Duration,
    ) -> Result<Locks, ConnectError> {
        self.over_made(TokioRuntime::current, |runtime| {
            let stores: Result<Vec<_>, _> =
                stores.into_iter().map(|store| store.into().make(runtime)).collect();
            Ok(Arc::new(QuorumStore::new(stores?, max_ttl, runtime.clone())?))
        })
    }

    /// Locks of this process alone; see [`Locks::in_memory`].
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: a default is invalid, or no thread could be started.
    pub fn in_memory(self) -> Result<Locks, ConnectError> {
        self.over_made(TokioRuntime::current_or_paused, |runtime| {
            Ok(Arc::new(MemoryStore::new(runtime.clone())))
        })
    }

    /// Locks on a store of your own. This opens nothing. For an existing connection, use
    /// `redis_connection`, `redis_pool` or `fred_client`.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: a default is invalid, or no thread could be started.
    pub fn over(self, store: Arc<dyn Store>) -> Result<Locks, ConnectError> {
        self.over_made(TokioRuntime::current, |_| Ok(store))
    }

    /// Locks on a store that is made for the runtime that will keep them.
    pub(crate) fn over_made(
        self,
        current: fn() -> Option<TokioRuntime>,
        make: impl FnOnce(&Arc<dyn Runtime>) -> Result<Arc<dyn Store>, Misuse>,
    ) -> Result<Locks, ConnectError> {
        // Report an invalid default at once, and not with the first lock.
        let (ttl, _) = self.defaults.checked()?;
        let runtime = self.any_runtime(current)?;
        let store = make(&runtime)?;
        check_ttl(&*store, ttl)?;
        let drift = self.drift.unwrap_or_else(|| store.limits().drift);
        let poll = self.defaults.poll.clone().ok().flatten();
        let names = Names::new(self.prefix, self.naming);
        Ok(Locks::new(StoreHandle::new(store, runtime, drift, poll), self.defaults, names))
    }

    /// The runtime that was set, or the one in which this is called, or a new one on a separate
    /// thread.
    fn any_runtime(&self, current: fn() -> Option<TokioRuntime>) -> Result<Arc<dyn Runtime>, ConnectError> {
        if let Some(runtime) = &self.runtime {
            return Ok(runtime.clone());
        }
        if let Some(runtime) = current().filter(|_| !self.own_thread) {
            runtime.demand_timers();
            return Ok(Arc::new(runtime));
        }
        let runtime = TokioRuntime::on_own_thread();
        Ok(Arc::new(runtime.map_err(|error| ConnectError::NoThread { reason: error.to_string().into() })?))
    }
}

/// Only a store in this process can follow a clock that a test has paused.
fn clock_for(url: &str) -> fn() -> Option<TokioRuntime> {
    if url == "memory:" { TokioRuntime::current_or_paused } else { TokioRuntime::current }
}

impl Locks {
    /// Connects to the store at a URL, with the defaults of [`LocksBuilder`].
    ///
    /// - `memory:`: this process alone
    /// - `file:/path/to/leases.db`: the processes of one machine. The first lock creates the file
    /// - `redis://[user:password@]host[:port][/db]`, `rediss://…` with TLS,
    ///   `redis+unix:///path/to/socket`: a server
    /// - `redis+sentinel://[user:password@]host[:port],host…/master-name`, `rediss+sentinel://…`: the
    ///   master that the sentinels report
    /// - `redis+cluster://[user:password@]host[:port],host…`, `rediss+cluster://…`: a cluster, by any
    ///   of its nodes
    /// - `postgres://[user:password@]host[:port]/database`: a PostgreSQL database, with the feature
    ///   `postgres`
    /// - `quorum:[max-ttl=60s,]URL,URL,URL`: a majority of these stores, as one string. Unlike
    ///   [`Locks::quorum`], this waits until a majority of them answers
    ///
    /// `valkey` may stand for `redis`, and `unix` for `redis+unix`. The parameters of a URL are listed
    /// at `RedisStore::from_url` and `PostgresStore::from_url`.
    ///
    /// The calling runtime keeps the locks: when it ends, the guards are lost.
    ///
    /// # Errors
    ///
    /// [`ConnectError`]: the URL is invalid, or the store did not answer within the outage limit or
    /// refuses.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn connect(url: &str) -> Result<Self, ConnectError> {
        Self::builder().connect(url).await
    }

    /// Locks in a quorum: a majority of independent stores, of any kind and in any mix. A lock is
    /// held once a majority of the stores grants it. This opens nothing, so a minority of the
    /// stores may be down.
    ///
    /// No lease may be longer than `max_ttl`, which must be the same for all users of these stores.
    /// 60 s is usual. After a restart without its state, **and at its first use**, a server or a
    /// file abstains for that time plus a second, because nothing distinguishes the two cases. So a
    /// new quorum grants its first lock after 61 s. `lock()` waits for that; `try_lock()` and a
    /// shorter `within` fail with [`LockError::NoQuorum`](crate::LockError::NoQuorum), which says
    /// so. In tests, `redis://…?quarantine=no` serves at once.
    ///
    /// One string can name a quorum too:
    /// [`Locks::connect`]`("quorum:redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3")`.
    ///
    /// ```no_run
    /// use leasehold::{AnyStore, Locks};
    /// let hosts = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];
    /// let stores: Result<Vec<_>, _> = hosts.into_iter().map(AnyStore::from_url).collect();
    /// let locks = Locks::quorum(stores?, std::time::Duration::from_secs(60))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ConnectError::Misuse`]: there is no store, a store is listed twice or cannot be a member, or
    /// the longest TTL is below 5 s or below the TTL of the locks, 30 s by default.
    #[doc(alias = "redlock")]
    pub fn quorum<Member: Into<AnyStore>>(
        stores: impl IntoIterator<Item = Member>,
        max_ttl: Duration,
    ) -> Result<Self, ConnectError> {
        Self::builder().quorum(stores, max_ttl)
    }

    /// Locks of this process alone. They end with the last clone and guard.
    ///
    /// In a test whose runtime already has tokio's clock paused (`start_paused`,
    /// `tokio::time::pause`), they follow that clock: an hour passes in a moment, and leases, waits
    /// and the test's own timers agree on it. Locks in other stores always use real time.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime, if the operating system cannot start a thread for one; in a runtime
    /// without timers, which the message says how to enable.
    #[must_use]
    pub fn in_memory() -> Self {
        Self::builder().in_memory().expect("a thread to keep the locks on")
    }

    /// Sets other defaults for these locks, and makes them.
    pub fn builder() -> LocksBuilder {
        LocksBuilder::default()
    }
}
