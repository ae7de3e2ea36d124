//! The store on a cluster.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::{
    AdminStore, Attempt, Baseline, BaselineStore, BoxFuture, BreakAnswer, BreakRecord, Claim, Diagnosis,
    Drift, Fault, GrantAnswer, HoldAnswer, InspectStore, Instant, Key, KeyState, LeaseBreak, Limits, Mark,
    MarkStore, Marked, MemberStore, Misuse, Notices, Parts, RaiseAnswer, Runtime, ScanPage, ScanPosition,
    Store, StoreFuture, StoreRole, Successor, TransferStore, WaitMode, Wake, call_limit,
};

use super::nodes::Seeds;
use super::{Cluster, one_slot};
use crate::address::Address;
use crate::client::{Bounds, Client, quarantine_warning};
use crate::connection::route::Route;
use crate::fault::Faults;
use crate::requests::confirm::confirmed_first;
use crate::requests::later::retry_give_up;
use crate::requests::renew::Verb;
use crate::slot::slot_of;

/// Leases on a Redis or Valkey cluster.
///
/// Each lease is one key at one master, as on a single server, and its side keys are in the same
/// slot. Any node can be asked where a key is. Slots are followed wherever they move, and a replica
/// that replaces its master is found within a second. While a slot moves, requests for its keys
/// wait until it has arrived. A failover that loses writes may lose leases: the holder learns of
/// that at its next renewal, and fences rise nevertheless.
///
/// Several keys can be locked together if they are in one slot, which a hash tag ensures:
/// `{order:7}:stock` and `{order:7}:bill`.
///
/// As a member of a quorum, each node that owns a slot abstains for that slot as a single server
/// does for all of its keys: after a restart, after it replaced its master, and also after the slot
/// came from another node, for the quorum's longest TTL and a second.
#[derive(Clone)]
pub struct ClusterStore {
    cluster: Arc<Cluster>,
}

impl ClusterStore {
    /// The store at a URL. This opens nothing.
    ///
    /// `redis+cluster://[user[:password]@]host[:port][,host[:port]]…`, or `rediss+cluster:` for TLS
    /// to every node. Any node may be named; it gives the addresses of the others that the cluster
    /// announces. Name several, in case one is down. All nodes use the same user and password. The
    /// parameters are those of [`RedisStore::from_url`](crate::RedisStore::from_url), without those
    /// of sentinels and of sockets; `replicas` counts those of the master that owns the key.
    ///
    /// # Errors
    ///
    /// [`Misuse::Url`], which says what is wrong and never the password.
    pub fn from_url(url: &str, runtime: Arc<dyn Runtime>) -> Result<Self, Misuse> {
        let address = Address::parse(url)?;
        let Address { call_limit, quarantine, confirmation, .. } = address;
        let bounds = Bounds { call_limit, quarantine, confirmation };
        let user = address.access.user.as_deref().unwrap_or("default").into();
        let faults = Faults::new(address.name.as_str().into(), Some(user));
        let seeds = Seeds::of(address)?;
        Ok(Self { cluster: Cluster::new(seeds, bounds, faults, runtime) })
    }

    /// Why this process cannot be notified of its turn by some node, if so. Waiters then poll, a
    /// few times a second.
    #[must_use]
    pub fn push_unavailable(&self) -> Option<Fault> {
        self.cluster.push_unavailable()
    }
}

/// A request to the client of a node, on a route that is returned with the redirects on it.
macro_rules! asking {
    ($request:ident($($argument:expr),*)) => {
        move |client: Arc<Client>, mut route: Route| async move {
            (client.$request($($argument,)* &mut route).await, route)
        }
    };
}

impl Cluster {
    /// Finds the owners of the slots, and checks that scripts may be run.
    async fn open(&self) -> Result<(), Fault> {
        self.learn(self.runtime.now()).await?;
        let masters = self.known().map.masters().into_iter().collect();
        let open = |node| -> BoxFuture<'_, _> {
            let client = self.client(&node);
            Box::pin(async move {
                match client.open().await {
                    // A refusal is an answer, too.
                    Err(fault) if fault.is_lasting() => Ok(Err(fault)),
                    opened => opened.map(Ok),
                }
            })
        };
        let none = || self.faults.passing("no node of the cluster serves any slot: give its slots to nodes");
        let opened = self.first_to_answer(masters, open).await;
        opened.unwrap_or_else(|mut faults| Err(faults.pop().unwrap_or_else(none)))
    }

    async fn grant(&self, attempt: &Attempt, wait_mode: WaitMode) -> Result<GrantAnswer, Fault> {
        let answer = self.for_attempt(attempt, asking!(grant(attempt, wait_mode))).await;
        if matches!(answer, Ok(GrantAnswer::Busy { place: Some(_), .. })) {
            self.watch();
        }
        answer
    }

    /// Releases what the attempt holds now. If a grant of it is still in doubt, also returns when
    /// to release again.
    ///
    /// The owner of the slot has everything of a key: what a grant created elsewhere before the
    /// slot moved has moved with it, and what comes there later is refused.
    pub(super) async fn release(&self, attempt: &Attempt) -> Result<(HoldAnswer, Option<Instant>), Fault> {
        let waited = self.waiting().leave(attempt.holder, self.runtime.now());
        let limit = call_limit(self.bounds.call_limit, attempt.ttl);
        let slot = self.slot(&attempt.claim)?;
        let attempt = &*without_far_signal(attempt, slot);
        // After a redirect, the script is used: at a node that is not the owner, each command needs
        // `ASKING`, and the slot is moving.
        let mut by_script = waited;
        let release = |client: Arc<Client>, mut route: Route| {
            let by_script = std::mem::replace(&mut by_script, true);
            async move { (client.let_go_on(attempt, by_script, &mut route).await, route) }
        };
        self.follow(slot, limit, None, release).await
    }

    /// When this resolves without a fault, nothing of the attempt is left and nothing of it can
    /// appear.
    pub(super) async fn give_up(&self, attempt: &Attempt) -> Result<(), Fault> {
        while let (_, Some(settles_at)) = self.release(attempt).await? {
            self.runtime.sleep_until(settles_at).await;
        }
        Ok(())
    }

    pub(crate) fn give_up_later(&self, attempt: Attempt, at: Instant) {
        retry_give_up(self.me.clone(), &self.runtime, attempt, at, |cluster, attempt| {
            Box::pin(cluster.give_up(attempt))
        });
    }

    pub(super) async fn inspect(&self, key: &Key) -> Result<KeyState, Fault> {
        self.at_owner(key, asking!(inspect(key))).await
    }

    pub(super) async fn marked(&self, key: &Key) -> Result<Marked, Fault> {
        self.at_owner(key, asking!(marked(key))).await
    }

    pub(super) async fn last_break(&self, key: &Key) -> Result<Option<BreakRecord>, Fault> {
        self.at_owner(key, asking!(last_break(key))).await
    }
}

/// Waiters of other libraries are woken only if their list is in the key's slot, which needs a hash
/// tag in its name: no script, and no request of theirs, accesses two slots.
fn without_far_signal(attempt: &Attempt, slot: u16) -> Cow<'_, Attempt> {
    let far = |key: &Key| {
        let place = attempt.signal.and_then(|signal| signal.place(key));
        place.is_some_and(|place| slot_of(&place) != slot)
    };
    if attempt.claim.keys().any(far) {
        Cow::Owned(attempt.clone().with_signal(None))
    } else {
        Cow::Borrowed(attempt)
    }
}

impl Store for ClusterStore {
    fn name(&self) -> &str {
        &self.cluster.faults.store
    }

    fn limits(&self) -> Limits {
        Limits::with_drift(Drift::BETWEEN_MACHINES)
    }

    fn admit(&self, claim: &Claim) -> Result<(), Misuse> {
        one_slot(claim).map(drop)
    }

    fn open(&self) -> StoreFuture<'_, ()> {
        Box::pin(self.cluster.open())
    }

    fn grant<'a>(&'a self, attempt: &'a Attempt, wait_mode: WaitMode) -> StoreFuture<'a, GrantAnswer> {
        Box::pin(self.cluster.grant(attempt, wait_mode))
    }

    fn renew<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(self.cluster.keep(attempts, Verb::Renew))
    }

    fn release<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(async {
            let (answer, settles_at) = self.cluster.release(attempt).await?;
            if let Some(settles_at) = settles_at {
                self.cluster.give_up_later(attempt.clone(), settles_at);
            }
            Ok(answer)
        })
    }

    fn give_up<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, ()> {
        Box::pin(self.cluster.give_up(attempt))
    }

    fn woken<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Wake> {
        let called = self.cluster.waiting().called(attempt.holder, &*self.cluster.runtime);
        confirmed_first(called, self.cluster.bounds.confirmation)
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

impl MemberStore for ClusterStore {
    fn as_member(&self) -> Result<(), Misuse> {
        self.cluster.shared.is_member.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// An identity that is the same for all users of these slots.
    fn identity(&self) -> Option<Arc<str>> {
        self.cluster.identity()
    }

    fn rejoin<'a>(&'a self, attempts: &'a [Attempt]) -> BoxFuture<'a, Vec<Result<HoldAnswer, Fault>>> {
        Box::pin(self.cluster.keep(attempts, Verb::Rejoin))
    }

    fn raise<'a>(&'a self, attempt: &'a Attempt) -> StoreFuture<'a, RaiseAnswer> {
        Box::pin(self.cluster.for_attempt(attempt, asking!(raise(attempt))))
    }
}

impl TransferStore for ClusterStore {
    fn transfer<'a>(&'a self, attempt: &'a Attempt, successor: &'a Successor) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(self.cluster.for_attempt(attempt, asking!(transfer(attempt, successor))))
    }
}

impl InspectStore for ClusterStore {
    fn inspect<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, KeyState> {
        Box::pin(self.cluster.inspect(key))
    }

    /// A break is published to the subscribers at all nodes, so any connection receives it; several
    /// may bring it.
    fn notices(&self) -> Option<Box<dyn Notices>> {
        let notices = self.cluster.notices();
        self.cluster.hear_of_breaks();
        Some(notices)
    }

    /// Each master is scanned like a single server. Keys of a slot that moves meanwhile may be
    /// missing.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<KeyState>> {
        Box::pin(async move {
            let (listed, faults) = self.cluster.list(prefix).await?;
            faults.into_iter().next().map_or(Ok(listed), Err)
        })
    }

    fn list_reachable<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, (Vec<KeyState>, Vec<Fault>)> {
        Box::pin(self.cluster.list(prefix))
    }

    /// One master after the other.
    fn scan<'a>(&'a self, prefix: &'a [u8], from: ScanPosition) -> StoreFuture<'a, ScanPage> {
        Box::pin(self.cluster.scan(prefix, from))
    }

    fn inspect_all<'a>(&'a self, keys: &'a [Key]) -> StoreFuture<'a, Vec<KeyState>> {
        Box::pin(self.cluster.inspect_all(keys))
    }

    /// Keys of different slots cannot share a command.
    fn inspected_at_once(&self) -> usize {
        1
    }
}

impl MarkStore for ClusterStore {
    /// It is as durable as the master of its slot, and is lost with what a failover loses.
    fn mark<'a>(
        &'a self,
        attempt: &'a Attempt,
        mark: &'a Mark,
        keep: Duration,
    ) -> StoreFuture<'a, HoldAnswer> {
        Box::pin(self.cluster.for_attempt(attempt, asking!(mark(attempt, mark, keep))))
    }

    fn marked<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Marked> {
        Box::pin(self.cluster.marked(key))
    }

    fn forget<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<Mark>> {
        Box::pin(self.cluster.at_owner(key, asking!(forget(key))))
    }

    fn list_marks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<(Key, Marked)>> {
        Box::pin(self.cluster.list_marks(prefix))
    }
}

impl AdminStore for ClusterStore {
    fn warnings(&self) -> Vec<String> {
        quarantine_warning(self.name(), self.cluster.bounds.quarantine).into_iter().collect()
    }

    fn break_lease<'a>(&'a self, key: &'a Key, lease: &'a LeaseBreak) -> StoreFuture<'a, BreakAnswer> {
        Box::pin(self.cluster.at_owner(key, asking!(break_lease(key, lease))))
    }

    fn last_break<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<BreakRecord>> {
        Box::pin(self.cluster.last_break(key))
    }

    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<BreakRecord>> {
        Box::pin(self.cluster.list_breaks(prefix))
    }

    /// Each master in turn.
    fn diagnose(&self, role: StoreRole) -> BoxFuture<'_, Diagnosis> {
        Box::pin(self.cluster.diagnose(role))
    }
}

impl BaselineStore for ClusterStore {
    /// At the owner of the key's slot; a round trip goes to any master.
    fn run_baseline<'a>(&'a self, what: &'a Baseline) -> StoreFuture<'a, ()> {
        let slot = match what {
            Baseline::Pair { key, .. } => slot_of(key.as_bytes()),
            _ => 0,
        };
        let limit = self.cluster.bounds.call_limit;
        Box::pin(self.cluster.follow(slot, limit, None, asking!(run_baseline(what))))
    }
}

impl fmt::Debug for ClusterStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClusterStore").field(&self.name()).finish()
    }
}
