//! The store.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use leasehold_core::{
    Attempt, BoxFuture, Drift, Fault, GrantAnswer, HoldAnswer, Key, KeyState, Manner, Misuse, RaiseAnswer,
    Runtime, Store, Waiting, Wake,
};
use redis::aio::ConnectionLike;

use crate::address::Address;
use crate::client::{Client, Source};
use crate::clock::ServerClock;
use crate::connect::Connector;
use crate::fault::Faults;
use crate::link::Link;
use crate::release::Native;
use crate::settle::Unsettled;

/// Leases on one Redis, Valkey or KeyDB server.
///
/// All calls share one connection, which is made when it is first needed and made anew when it failed. Each call is tried
/// once and has a limit: half a second, or a quarter of the ttl where that is less.
///
/// Whoever waits stands in a line that the server keeps, and is told over that connection when its turn has come; in RESP2 over
/// a second one, made when somebody first waits. Where the server takes no subscription, waiters ask a few times a second.
#[derive(Clone)]
pub struct RedisStore {
    name: Arc<str>,
    client: Arc<Client>,
}

impl RedisStore {
    /// The store at a URL. Opens nothing.
    ///
    /// `redis://[user[:password]@]host[:port][/db]`, `rediss:` for TLS, or `redis+unix://[user[:password]@]/path/to.sock`.
    /// Behind a question mark may stand:
    ///
    /// | parameter | default | |
    /// |---|---|---|
    /// | `protocol=resp2` or `resp3` | RESP3, and RESP2 where the server refuses that | for proxies that mistreat one |
    /// | `db=N` | 0 | the number of the database |
    /// | `ca=/path.pem` | the system's | `rediss:` only: the authorities to trust, these and no others |
    /// | `call-limit=500ms` | 500 ms, and never above a quarter of the ttl | how long an answer may take |
    /// | `quarantine=no` | yes | in a quorum, where the server cannot forget; see below |
    /// | `user=`, `password=` | | `redis+unix:` only |
    ///
    /// As a member of a quorum, a server that was started anew, flushed or promoted from a replica abstains for the quorum's longest
    /// ttl and a second, because it may have forgotten leases. `quarantine=no` says that it never forgets: that is so only with
    /// `appendonly yes` and `appendfsync always`, without replicas that may take its place, and with nobody who flushes it. If it
    /// is said of another server, a restart can give one lock to two.
    ///
    /// # Errors
    ///
    /// [`Misuse::Url`], which says what is wrong and never the password.
    pub fn from_url(url: &str, runtime: Arc<dyn Runtime>) -> Result<Self, Misuse> {
        let address = Address::parse(url)?;
        let name = Arc::from(&*address.name);
        let user = address.user.as_deref().unwrap_or("default").into();
        let faults = Faults::new(Arc::clone(&name), Some(user));
        let (call_limit, quarantine) = (address.call_limit, address.quarantine);
        let connector = Connector::new(address, faults.clone());
        let ours = |me: &Weak<Client>| {
            let tell = Client::tell(me.clone());
            Source::Ours(Link::new(connector, faults.clone(), Arc::clone(&runtime), tell))
        };
        Ok(Self::new(name, faults.clone(), ours, call_limit, quarantine, runtime.clone()))
    }

    /// The store behind a connection that the program has already, under a name for errors.
    ///
    /// Each call takes a clone of it. Prefer [`RedisStore::from_url`] where you can: a connection of somebody else's can
    /// neither be dropped when it falls silent nor made anew, so an outage lasts as long as the connection makes it, and every
    /// attempt whose grant went unanswered takes up to half a second more to be given up. Nor can the server tell us anything on
    /// it: who waits keeps its place in line, and asks a few times a second whether its turn has come. It must not resend commands by
    /// itself, and must lead to one server, always the same one or the one that took its place: not to a cluster, not to
    /// replicas.
    pub fn from_connection<C>(connection: C, name: &str, runtime: Arc<dyn Runtime>) -> Self
    where
        C: ConnectionLike + Clone + Send + Sync + 'static,
    {
        let name = Arc::from(name);
        let faults = Faults::new(Arc::clone(&name), None);
        let lend = Box::new(move || Box::new(connection.clone()) as _);
        let source = Source::Lent { lend, clock: Arc::new(ServerClock::default()) };
        Self::new(name, faults, |_| source, crate::address::CALL_LIMIT, true, runtime)
    }

    fn new(
        name: Arc<str>,
        faults: Faults,
        source: impl FnOnce(&Weak<Client>) -> Source,
        call_limit: Duration,
        quarantine: bool,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        let seed = u64::try_from(runtime.random() >> 64).unwrap_or(0);
        let client = Arc::new_cyclic(|me| Client {
            source: source(me),
            runtime,
            faults,
            call_limit,
            unsettled: Unsettled::default(),
            waiting: Waiting::new(seed),
            tended: AtomicBool::new(false),
            native: Native::default(),
            quarantine,
            identity: Mutex::default(),
            me: me.clone(),
        });
        Self { name, client }
    }

    /// Why nobody can tell this process that its turn has come, if that is so: the server takes no subscription. Waiters then
    /// ask by themselves, a few times a second.
    #[must_use]
    pub fn deaf_because(&self) -> Option<Fault> {
        match &self.client.source {
            Source::Ours(link) => link.deaf(),
            Source::Lent { .. } => None,
        }
    }

    /// How many attempts wait in line. For tests and diagnosis.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.client.waiting.len()
    }
}

impl Store for RedisStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn drift(&self) -> Drift {
        Drift::BETWEEN_MACHINES
    }

    /// The run of the server, once a quorum has asked it for something.
    fn identity(&self) -> Option<Arc<str>> {
        self.client.identity()
    }

    fn warnings(&self) -> Vec<String> {
        let unless = "quarantine=no is safe only with appendonly yes, appendfsync always, and no failover";
        if self.client.quarantine { Vec::new() } else { vec![format!("{}: {unless}", self.name)] }
    }

    fn open(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.client.open())
    }

    fn grant<'a>(
        &'a self,
        attempt: &'a Attempt,
        manner: Manner,
    ) -> BoxFuture<'a, Result<GrantAnswer, Fault>> {
        Box::pin(self.client.grant(attempt, manner))
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(self.client.renew(attempts))
    }

    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(self.client.rejoin(attempts))
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<RaiseAnswer, Fault>> {
        Box::pin(self.client.raise(attempt))
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        Box::pin(async {
            let (answer, settles_at) = self.client.release(attempt).await?;
            if let Some(settles_at) = settles_at {
                self.client.give_up_later(attempt.clone(), settles_at);
            }
            Ok(answer)
        })
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<(), Fault>> {
        Box::pin(self.client.give_up(attempt))
    }

    fn inspect<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<KeyState, Fault>> {
        Box::pin(self.client.inspect(key))
    }

    /// A server is looked through with SCAN, a thousand keys at a time, which takes a while where there are millions; others are
    /// served in between. What is taken or let go meanwhile may be missing or there.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> BoxFuture<'a, Result<Vec<KeyState>, Fault>> {
        Box::pin(self.client.list(prefix))
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        self.client.waiting.called(attempt.holder, &*self.client.runtime)
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.name).finish()
    }
}
