//! The store on one server.

use std::error::Error;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::{
    AdminStore, Attempt, Baseline, BaselineStore, BatchServed, BoxFuture, BreakAnswer, BreakRecord,
    Diagnosis, Drift, Fault, GrantAnswer, HoldAnswer, InspectStore, Key, KeyState, LeaseBreak, Limits, Mark,
    MarkStore, Marked, MemberStore, Misuse, Notices, Parts, RaiseAnswer, Runtime, ScanPage, ScanPosition,
    ServerClock, Store, StoreFuture, StoreRole, Successor, TransferStore, WaitMode, Wake,
};
use redis::aio::ConnectionLike;

use crate::address::access::Access;
use crate::address::text::refuse;
use crate::address::{Address, CALL_LIMIT, Site};
use crate::client::{Bounds, Client, SharedState, Source, quarantine_warning};
#[cfg(feature = "fred")]
use crate::connection::fred::LentFred;
use crate::connection::lent::{Lend, Lent, Pool};
use crate::connection::link::Endpoint;
use crate::connection::push_health::PushHealth;
use crate::fault::Faults;
use crate::requests::confirm::confirmed_first;
use crate::requests::remembered::{breaks_of, marks_of};
use crate::requests::renew::Verb;
use crate::slot::Side;
use crate::topology::{Place, Sentinels, Topology};

/// Leases on one Redis, Valkey or KeyDB server, or on the master that sentinels report.
///
/// All calls share one connection, which is opened when it is first needed and opened again after a
/// failure. Each call is tried once and has a time limit, which counts from when it is sent: half a
/// second, or a quarter of the TTL if that is shorter. A grant or a release that has waited for so
/// long behind others is not sent.
///
/// Waiters are in a queue on the server, and are notified over that connection when their turn has
/// come; in RESP2 over a second one, which is opened when somebody first waits. If the server
/// refuses the subscription, waiters poll a few times a second.
#[derive(Clone)]
pub struct RedisStore {
    client: Arc<Client>,
}

impl RedisStore {
    /// The store at a URL. This opens nothing.
    ///
    /// `redis://[user[:password]@]host[:port][/db]`, `rediss:` for TLS, or
    /// `redis+unix://[user[:password]@]/path/to.sock`; and
    /// `redis+sentinel://[user[:password]@]host[:port],host[:port]…/master-name`, or
    /// `rediss+sentinel:`, for the master that these sentinels report, also after failovers.
    /// `valkey:`, `valkeys:` and `unix:` mean the same as `redis:`, `rediss:` and `redis+unix:`.
    /// The query may contain these parameters:
    ///
    /// | parameter | default | |
    /// |---|---|---|
    /// | `protocol=resp2` or `resp3` | RESP3, and RESP2 where the server refuses that | for proxies that mistreat one |
    /// | `db=N` | 0 | the number of the database |
    /// | `ca=/path.pem` | the system's | `rediss:` only: the authorities to trust, these and no others |
    /// | `call-limit=500ms` | 500 ms, and never above a quarter of the ttl | how long an answer may take; a quorum waits for a member for 600 ms at most |
    /// | `quarantine=no` | yes | in a quorum, where the server cannot forget; see below |
    /// | `user=`, `password=` | | `redis+unix:` only |
    /// | `password-file=/path` | | the password, alone in a file that others cannot read; read for each connection |
    /// | `cert=/path.pem`, `key=/path.pem` | | `rediss:` only: the client certificate and its private key, in a file that others cannot read |
    /// | `sentinel-user=`, `sentinel-password=`, `sentinel-password-file=` | | how to log in at sentinels; the servers' password is not told to them |
    /// | `replicas=N` | 0 | how many replicas must have a grant, a renewal or a mark (`WAIT`) for it to count |
    /// | `fsync=yes` | no | whether it must be on disk too, here and there (`WAITAOF`); needs `appendfsync always` |
    /// | `channels=PREFIX` | | the prefix of the keys, where an ACL keeps tenants of the server apart; see below |
    /// | `replicas-limit=250ms` | 250 ms, half of the call limit at most | how long these may take; other calls wait meanwhile, so choose less than a quarter of the shortest TTL |
    ///
    /// With `channels=app:` the channels on which this process is notified begin with
    /// `leasehold:app:`, and a user needs `&leasehold:app:*` instead of `&leasehold:*`. Then the
    /// users of other prefixes can neither receive nor publish there. All programs that lock these
    /// keys must use the same prefix. Waiters for keys without that prefix are not notified, and
    /// poll several times a second.
    ///
    /// A grant or renewal that replicas do not confirm is a fault, and nothing may rely on it; a
    /// repeated request may find it confirmed. This narrows the window in which a failover loses a
    /// lease, but does not close it: `docs/design.md` says what remains.
    ///
    /// As a member of a quorum, a server that was restarted, flushed or promoted from a replica
    /// abstains for the quorum's longest TTL and a second, because it may have forgotten leases.
    /// `quarantine=no` says that it never forgets. That is true only with `appendonly yes` and
    /// `appendfsync always`, without replicas that may replace it, and if nobody flushes it. For
    /// any other server, a restart could then grant one lock to two holders.
    ///
    /// # Errors
    ///
    /// [`Misuse::Url`], which says what is wrong and never the password.
    pub fn from_url(url: &str, runtime: Arc<dyn Runtime>) -> Result<Self, Misuse> {
        let address = Address::parse(url)?;
        let user = address.access.user.as_deref().unwrap_or("default").into();
        let faults = Faults::new(address.name.into(), Some(user));
        let place = match address.site {
            Site::One(addr) => Place::Single(addr),
            Site::Sentinels { addrs, master, user, password } => {
                let access = Access { user, password, ..address.access.clone() };
                let (faults, runtime) = (faults.clone(), Arc::clone(&runtime));
                Place::Sentinels(Box::new(Sentinels::new(addrs, master, access, faults, runtime)))
            }
            Site::Cluster(_) => {
                return refuse(
                    "the store URL names a cluster, which is more than one server: open it as a cluster",
                );
            }
        };
        let bounds = Bounds {
            call_limit: address.call_limit,
            quarantine: address.quarantine,
            confirmation: address.confirmation,
        };
        let topology = Topology::new(place, address.access, faults.clone(), Arc::clone(&runtime));
        let shared = SharedState::new(&*runtime, None);
        Ok(Self { client: Client::over(topology, faults, bounds, shared, runtime) })
    }

    /// The store on an existing connection of the program, under a name for errors.
    ///
    /// Pass a connection that reconnects automatically: redis-rs's `ConnectionManager`. A
    /// `MultiplexedConnection` does not, nor does a clone from a pool: once its connection is lost
    /// (`CLIENT KILL`, a restart), every call of this store fails for good. For a pool, use
    /// [`from_pool`](Self::from_pool). A manager reconnects once its connection has broken. If a
    /// failover leaves it connected to the former master, which is a replica then, it stays there, and
    /// every call is refused (`READONLY`); locks over a pool or by a URL go on to the new master.
    ///
    /// Each call takes a clone of it. Prefer [`RedisStore::from_url`] where possible. The store can
    /// neither drop such a connection when it falls silent nor reopen it, so an outage lasts as
    /// long as the connection makes it. Each attempt whose grant was not answered takes up to half
    /// a second more to be given up. The server cannot notify us on it either: waiters keep their
    /// place in the queue, and poll a few times a second. The connection must not resend commands
    /// automatically. It must lead to one server, always the same one or its replacement: not to a
    /// cluster, and not to replicas.
    pub fn from_connection<C>(connection: C, name: &str, runtime: Arc<dyn Runtime>) -> Self
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let lent = Lent { connection, runtime: Arc::clone(&runtime) };
        Self::lent(|_| Box::new(lent), name, runtime)
    }

    /// The store on connections that the program makes, one after the other, under a name for
    /// errors: on those of a pool of deadpool-redis or bb8-redis, or of any function.
    ///
    /// The store calls `take` when it first needs a connection, and again after that one failed, did
    /// not answer in time or turned out to lead to a replica, so it recovers from `CLIENT KILL`,
    /// restarts and failovers. It keeps one connection of the pool for as long as it works, and does
    /// not take one for each call: otherwise, tasks that hold all connections of the pool while they
    /// wait for locks would prevent the renewal of those locks. So a pool must have room for one
    /// connection more. A connection that leads to a replica is ended (`QUIT`) before it goes back into
    /// its pool, which would lend it again.
    ///
    /// `take` runs in a task of `runtime`. What it returns dereferences to a connection of
    /// redis-rs; the objects of both pools do, and a [`Box`] of any connection does. The rest is as
    /// with [`from_connection`](Self::from_connection).
    pub fn from_pool<P, E, Taking>(
        take: impl Fn() -> Taking + Send + Sync + 'static,
        name: &str,
        runtime: Arc<dyn Runtime>,
    ) -> Self
    where
        P: Deref<Target: ConnectionLike + Clone + Send + Sync + 'static> + Send + Sync + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
        Taking: Future<Output = Result<P, E>> + Send + 'static,
    {
        let take = Arc::new(take);
        let make = move || -> BoxFuture<'static, _> {
            let take = Arc::clone(&take);
            Box::pin(async move { take().await.map_err(Into::into) })
        };
        let spawner = Arc::clone(&runtime);
        Self::lent(|faults| Box::new(Pool::new(make, faults, spawner)), name, runtime)
    }

    /// The store on an existing client of the fred crate, under a name for errors.
    ///
    /// It must have been started, by `init` or `connect`, and have a reconnect policy; otherwise
    /// its first connection is its last. Everything that [`from_connection`](Self::from_connection)
    /// says holds here too, except about resends: however the client is configured, each of our
    /// commands is sent at most once. A command that is unanswered when a connection breaks is a
    /// fault, and one that is still in the client's queue at its time limit is not sent.
    ///
    /// Use a client that nothing else uses: `clone_new` creates one with the same configuration. On
    /// a shared client, a blocking command (`BLPOP` and the like) delays the locks behind it, or is
    /// ended by them under `Blocking::Interrupt`. Moreover, fred 10 takes an array of three or four
    /// elements for a channel message if it starts like one, with `message` or `subscribe`. It
    /// drops that array, and gives every later answer to the command before. So anybody who can
    /// write a list that the program reads there can exchange the answers that its locks get. No
    /// command of the store itself has such an answer.
    ///
    /// * **Units.** Times are [`Duration`]s and ttls as everywhere; fred's own, its default timeout
    ///   among them, play no part.
    /// * **Errors.** They are [`Fault`]s, with the texts of any Redis store; if fred itself failed,
    ///   with its kind and never with a password. A client without a connection is a passing fault,
    ///   and is asked again.
    /// * **Cancel safety.** That of any store. A command of a dropped request may still be sent
    ///   within its limit, and its effect is undone.
    ///
    /// # Errors
    ///
    /// [`Misuse::NotLendable`] if the client is one of a cluster.
    #[cfg(feature = "fred")]
    pub fn from_fred(
        client: fred::clients::Client,
        name: &str,
        runtime: Arc<dyn Runtime>,
    ) -> Result<Self, Misuse> {
        use fred::interfaces::ClientLike as _;

        if client.is_clustered() {
            let reason = "the fred client is one of a cluster, and can only lend one server: open the cluster by its URL, \
                          redis+cluster://HOST";
            return Err(Misuse::NotLendable { name: name.into(), reason: reason.into() });
        }
        let lent = LentFred { client, runtime: Arc::clone(&runtime) };
        Ok(Self::lent(|_| Box::new(lent), name, runtime))
    }

    fn lent(lend: impl FnOnce(Faults) -> Box<dyn Lend>, name: &str, runtime: Arc<dyn Runtime>) -> Self {
        let faults = Faults::new(name.into(), None);
        let lend = lend(faults.clone());
        let source = Source::Lent { lend, endpoint: Arc::new(Endpoint::new(ServerClock::default())) };
        let shared = SharedState::new(&*runtime, None);
        let bounds = Bounds { call_limit: CALL_LIMIT, quarantine: true, confirmation: None };
        Self { client: Client::new(|_| source, faults, bounds, shared, runtime) }
    }

    /// Why this process cannot be notified of its turn, if so: the server refuses the subscription.
    /// Waiters then poll, a few times a second.
    #[must_use]
    pub fn push_unavailable(&self) -> Option<Fault> {
        self.client.push_unavailable()
    }

    /// The number of waiting attempts. For tests and diagnosis.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.client.shared.waiting.len()
    }
}

impl Store for RedisStore {
    fn name(&self) -> &str {
        &self.client.faults.store
    }

    fn limits(&self) -> Limits {
        Limits::with_drift(Drift::BETWEEN_MACHINES)
    }

    fn open(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.client.open())
    }

    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer> {
        Box::pin(async move {
            self.client.grant(attempt, wait_mode, &mut self.client.route_for(attempt).await?).await
        })
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(self.client.keep(attempts, Verb::Renew))
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async {
            let (answer, settles_at) = self.client.release(attempt).await?;
            if let Some(settles_at) = settles_at {
                self.client.give_up_later(attempt.clone(), settles_at);
            }
            Ok(answer)
        })
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()> {
        Box::pin(self.client.give_up(attempt))
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        let called = self.client.shared.waiting.called(attempt.holder, &*self.client.runtime);
        confirmed_first(called, self.client.confirmation)
    }

    fn parts(&self) -> Parts<'_> {
        Parts {
            member: Some(self),
            inspect: Some(self),
            marks: Some(self),
            transfer: Some(self),
            admin: Some(self),
            baseline: Some(self),
            ..Parts::default()
        }
    }
}

impl MemberStore for RedisStore {
    fn as_member(&self) -> Result<(), Misuse> {
        self.client.shared.is_member.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The run of the server, once a quorum has asked it for something.
    fn identity(&self) -> Option<Arc<str>> {
        self.client.identity()
    }

    fn serves_batches(&self) -> bool {
        true
    }

    fn serve_batch<'a>(
        &'a self,
        grants: &'a [&'a Attempt],
        releases: &'a [&'a Attempt],
    ) -> StoreFuture<'a, BatchServed> {
        Box::pin(self.client.serve_batch(grants, releases))
    }

    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(self.client.keep(attempts, Verb::Rejoin))
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, RaiseAnswer> {
        Box::pin(async move { self.client.raise(attempt, &mut self.client.route_for(attempt).await?).await })
    }
}

impl TransferStore for RedisStore {
    fn transfer<'a>(&'a self, attempt: &'a Attempt, successor: &'a Successor) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async move {
            self.client.transfer(attempt, successor, &mut self.client.route_for(attempt).await?).await
        })
    }
}

impl InspectStore for RedisStore {
    fn inspect<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, KeyState> {
        Box::pin(async move { self.client.inspect(key, &mut self.client.any_route().await?).await })
    }

    /// From now on each connection subscribes to notices for holders, and the open one does so at
    /// once. In RESP2 they are received only while somebody waits, because that needs a second
    /// connection.
    fn notices(&self) -> Option<Box<dyn Notices>> {
        // A notice that comes right after the subscription is read, too.
        let notices = PushHealth::read(self.client.push_health().into_iter(), &self.client.shared.notice_bus);
        self.client.hear_of_breaks();
        Some(notices)
    }

    /// This scans the server with SCAN, a thousand keys at a time, which takes a while with
    /// millions of keys; others are served in between. Changes during the call may be included.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<KeyState>> {
        Box::pin(self.client.list(prefix, None))
    }

    /// Also with SCAN, but with few commands, for continuous watching. A user needs `+scan` for it.
    fn scan<'a>(&'a self, prefix: &'a [u8], from: ScanPosition) -> StoreFuture<'a, ScanPage> {
        Box::pin(self.client.scan(prefix, from.at))
    }

    fn inspect_all<'a>(&'a self, keys: &'a [Key]) -> StoreFuture<'a, Vec<KeyState>> {
        Box::pin(self.client.inspect_many(keys))
    }

    fn inspected_at_once(&self) -> usize {
        Client::INSPECTED_AT_ONCE
    }
}

impl MarkStore for RedisStore {
    /// It is as durable as the server: with `appendfsync everysec`, a crash of its machine may undo
    /// the last second. With `replicas` or `fsync` in the URL, it counts when a lease would.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async move {
            self.client.mark(attempt, mark, keep, &mut self.client.route_for(attempt).await?).await
        })
    }

    fn marked<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Marked> {
        Box::pin(async move { self.client.marked(key, &mut self.client.any_route().await?).await })
    }

    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<Mark>> {
        Box::pin(async move { self.client.forget(key, &mut self.client.any_route().await?).await })
    }

    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<(Key, Marked)>> {
        Box::pin(async move { Ok(marks_of(self.client.remembered(Side::Mark, prefix, None).await?)) })
    }
}

impl AdminStore for RedisStore {
    fn warnings(&self) -> Vec<String> {
        quarantine_warning(self.name(), self.client.quarantine).into_iter().collect()
    }

    fn break_lease<'a>(&'a self, key: &'a Key, lease: &'a LeaseBreak) -> StoreFuture<'a, BreakAnswer> {
        Box::pin(
            async move { self.client.break_lease(key, lease, &mut self.client.any_route().await?).await },
        )
    }

    fn last_break<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<BreakRecord>> {
        Box::pin(async move { self.client.last_break(key, &mut self.client.any_route().await?).await })
    }

    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<BreakRecord>> {
        Box::pin(async move { Ok(breaks_of(self.client.remembered(Side::Break, prefix, None).await?)) })
    }

    fn diagnose(&self, role: StoreRole) -> BoxFuture<'_, Diagnosis> {
        Box::pin(self.client.diagnose(role))
    }
}

impl BaselineStore for RedisStore {
    /// `PING`; and `SET NX PX` with a compare-and-delete script, on the connection of the locks.
    fn run_baseline<'a>(&'a self, what: &'a Baseline) -> StoreFuture<'a, ()> {
        Box::pin(async move { self.client.run_baseline(what, &mut self.client.any_route().await?).await })
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.name()).finish()
    }
}
