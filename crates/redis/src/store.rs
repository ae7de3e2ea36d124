//! The store.

use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Attempt, BoxFuture, Drift, Fault, GrantAnswer, HoldAnswer, Instant, Key, KeyState, Manner, Misuse,
    Runtime, Store, Wake,
};
use redis::aio::ConnectionLike;

use crate::address::Address;
use crate::client::{Client, Source};
use crate::clock::ServerClock;
use crate::connect::Connector;
use crate::fault::Faults;
use crate::link::Link;
use crate::settle::Unsettled;

/// Leases on one Redis, Valkey or KeyDB server.
///
/// All calls share one connection, which is made when it is first needed and made anew when it failed. Each call is tried
/// once and has a limit: half a second, or a quarter of the ttl where that is less.
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
    /// | `user=`, `password=` | | `redis+unix:` only |
    ///
    /// # Errors
    ///
    /// [`Misuse::Url`], which says what is wrong and never the password.
    pub fn from_url(url: &str, runtime: Arc<dyn Runtime>) -> Result<Self, Misuse> {
        let address = Address::parse(url)?;
        let name = Arc::from(&*address.name);
        let user = address.user.as_deref().unwrap_or("default").into();
        let faults = Faults::new(Arc::clone(&name), Some(user));
        let call_limit = address.call_limit;
        let connector = Connector::new(address, faults.clone());
        let source = Source::Ours(Link::new(connector, faults.clone(), Arc::clone(&runtime)));
        Ok(Self::new(name, faults, source, call_limit, runtime))
    }

    /// The store behind a connection that the program has already, under a name for errors.
    ///
    /// Each call takes a clone of it. Prefer [`RedisStore::from_url`] where you can: a connection of somebody else's can
    /// neither be dropped when it falls silent nor made anew, so an outage lasts as long as the connection makes it, and every
    /// attempt whose grant went unanswered takes up to half a second more to be given up. It must not resend commands by
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
        Self::new(name, faults, source, crate::address::CALL_LIMIT, runtime)
    }

    fn new(
        name: Arc<str>,
        faults: Faults,
        source: Source,
        call_limit: Duration,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        let client = Client { runtime, faults, source, call_limit, unsettled: Unsettled::default() };
        Self { name, client: Arc::new(client) }
    }

    /// Releases again, without anybody waiting for it, when a grant that is still on its way has settled.
    fn release_later(&self, attempt: Attempt, settles_at: Instant) {
        let client = Arc::clone(&self.client);
        let runtime = Arc::clone(&self.client.runtime);
        self.client.runtime.spawn(Box::pin(async move {
            runtime.sleep_until(settles_at).await;
            // By then it has ended by itself.
            let end = settles_at + attempt.ttl.duration();
            while client.give_up(&attempt).await.is_err() && runtime.now() < end {
                runtime.sleep_until(runtime.now() + REST).await;
            }
        }));
    }
}

/// Between tries of a release that nobody waits for: the server is away, and others knock too.
const REST: Duration = Duration::from_secs(1);

impl Store for RedisStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn drift(&self) -> Drift {
        Drift::BETWEEN_MACHINES
    }

    fn open(&self) -> BoxFuture<'_, Result<(), Fault>> {
        Box::pin(self.client.open())
    }

    fn grant<'a>(
        &'a self,
        attempt: &'a Attempt,
        _manner: Manner,
    ) -> BoxFuture<'a, Result<GrantAnswer, Fault>> {
        Box::pin(self.client.grant(attempt))
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(self.client.renew(attempts))
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<HoldAnswer, Fault>> {
        Box::pin(async {
            let (answer, settles_at) = self.client.release(attempt).await?;
            if let Some(settles_at) = settles_at {
                self.release_later(attempt.clone(), settles_at);
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

    /// Never resolves: there is no line on the server yet, so the caller asks again by itself.
    fn woken<'a>(&'a self, _attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        Box::pin(pending())
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.name).finish()
    }
}
