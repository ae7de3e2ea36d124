//! The client of one server: its connection, its limits, and what is known of its waiters and of
//! grants in doubt. The requests are in `requests` and `batch`.

mod call;
pub(crate) mod monitor;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use leasehold_core::{
    Attempt, Channel, Contended, Fault, InDoubtGrants, Instant, Notice, NoticeBus, Proof, PushEvent, Runtime,
    Ttl, WaitQueue, WaiterRegistry, call_limit,
};

use crate::address::access::Channels;
use crate::address::parameters::Confirmation;
use crate::connection::connect::CALLS_TO_CONNECT;
use crate::connection::lent::Lend;
use crate::connection::link::{Endpoint, Link};
use crate::connection::push_health::PushHealth;
use crate::connection::route::Route;
use crate::connection::subscription::OnPush;
use crate::fault::Faults;
use crate::topology::Topology;
use crate::wire::{PushMessage, read_push};

pub(crate) struct Client {
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) faults: Faults,
    pub(crate) source: Source,
    pub(crate) call_limit: Duration,
    pub(crate) shared: SharedState,
    /// True while a task monitors the connection for the waiters.
    pub(crate) is_monitored: AtomicBool,
    /// The keys for which batches would only redirect to the script of a single request.
    pub(crate) contended: Contended,
    /// True if the server, as a member of a quorum, abstains after it may have forgotten leases.
    pub(crate) quarantine: bool,
    pub(crate) confirmation: Option<Confirmation>,
    /// The run of the server that was reached last, if a quorum asked for it.
    pub(crate) identity: Mutex<Option<Arc<str>>>,
    /// For its background tasks, which must not keep it alive.
    pub(crate) me: Weak<Self>,
}

/// The state that the nodes of a cluster share. A standalone server has its own.
#[derive(Clone)]
pub(crate) struct SharedState {
    pub(crate) unsettled: Arc<InDoubtGrants>,
    pub(crate) waiting: Arc<WaiterRegistry>,
    pub(crate) notice_bus: Arc<NoticeBus>,
    /// True once a quorum uses this store as a member.
    pub(crate) is_member: Arc<AtomicBool>,
    /// The cluster of this node, which knows where keys are when they have moved away.
    pub(crate) cluster: Option<InCluster>,
}

/// A node's request to its cluster: give an attempt up at an instant, in the background, at
/// whichever node owns its keys by then.
#[derive(Clone)]
pub(crate) struct InCluster(pub(crate) Arc<dyn Fn(Attempt, Instant) + Send + Sync>);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) call_limit: Duration,
    pub(crate) quarantine: bool,
    pub(crate) confirmation: Option<Confirmation>,
}

impl SharedState {
    pub(crate) fn new(runtime: &dyn Runtime, cluster: Option<InCluster>) -> Self {
        let seed = runtime.random_bits();
        Self {
            unsettled: Arc::default(),
            waiting: Arc::new(WaiterRegistry::new(seed)),
            notice_bus: Arc::default(),
            is_member: Arc::default(),
            cluster,
        }
    }
}

pub(crate) enum Source {
    /// Our own connection, which can be dropped and replaced.
    Ours(Link),
    /// The program's own connection, which may be a different one each time.
    Lent { lend: Box<dyn Lend>, endpoint: Arc<Endpoint> },
}

impl Client {
    pub(crate) fn new(
        source: impl FnOnce(&Weak<Self>) -> Source,
        faults: Faults,
        Bounds { call_limit, quarantine, confirmation }: Bounds,
        shared: SharedState,
        runtime: Arc<dyn Runtime>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            source: source(me),
            contended: Contended::new(runtime.random()),
            runtime,
            faults,
            call_limit,
            shared,
            is_monitored: AtomicBool::new(false),
            quarantine,
            confirmation,
            identity: Mutex::default(),
            me: me.clone(),
        })
    }

    /// A client with its own connection.
    pub(crate) fn over(
        topology: Topology,
        faults: Faults,
        bounds: Bounds,
        shared: SharedState,
        runtime: Arc<dyn Runtime>,
    ) -> Arc<Self> {
        let (linked, said) = (Arc::clone(&runtime), faults.clone());
        let push_health = PushHealth::new(Arc::clone(&shared.notice_bus));
        let ours = |me: &Weak<Self>| {
            Source::Ours(Link::new(
                topology,
                said,
                bounds.call_limit,
                linked,
                Self::tell(me.clone()),
                push_health,
            ))
        };
        Self::new(ours, faults, bounds, shared, runtime)
    }

    /// Why this process cannot be notified by the server, if so.
    pub(crate) fn push_unavailable(&self) -> Option<Fault> {
        self.push_health().and_then(PushHealth::push_unavailable)
    }

    /// `None` for the program's own connection, which is never notified.
    pub(crate) const fn push_health(&self) -> Option<&PushHealth> {
        match &self.source {
            Source::Ours(link) => Some(&link.push_health),
            Source::Lent { .. } => None,
        }
    }

    pub(crate) const fn is_node(&self) -> bool {
        self.shared.cluster.is_some()
    }

    /// The time limit for an answer about a lease of this TTL.
    pub(crate) fn limit(&self, ttl: Ttl) -> Duration {
        call_limit(self.call_limit, ttl)
    }

    /// A route whose answers may take this long. Without one, nothing is sent.
    pub(crate) async fn route(&self, limit: Duration) -> Result<Route, Fault> {
        let route = match &self.source {
            Source::Ours(link) => {
                link.live(limit * CALLS_TO_CONNECT).await.map(|live| Route::on(live, limit))
            }
            Source::Lent { lend, endpoint } => {
                let lent = lend.connection(limit).await;
                lent.map(|lent| Route::on_lent(lent, limit, Arc::clone(endpoint)))
            }
        };
        route.map_err(Fault::unsent)
    }

    /// A route for a request about an attempt.
    pub(crate) async fn route_for(&self, attempt: &Attempt) -> Result<Route, Fault> {
        self.route(self.limit(attempt.ttl)).await
    }

    /// A route for any other request.
    pub(crate) async fn any_route(&self) -> Result<Route, Fault> {
        self.route(self.call_limit).await
    }

    /// How long a lock that is handed over may remain unclaimed: long enough for a PING and a
    /// renewal, each sent twice.
    pub(crate) fn window(&self) -> Duration {
        WaitQueue::CLAIM_WINDOW.max(4 * self.call_limit)
    }

    /// The channel on which this process is notified on this route; subscribes if necessary.
    pub(crate) async fn listen(&self, route: &Route) -> Option<Channel> {
        match (&self.source, route.live()) {
            (Source::Ours(link), Some(live)) => link.listen(live, route.limit).await,
            _ => None,
        }
    }

    pub(crate) fn channels(&self) -> Option<&Channels> {
        match &self.source {
            Source::Ours(link) => Some(link.topology.connector.channels()),
            Source::Lent { .. } => None,
        }
    }

    /// Handles a push that came at `since` at the earliest.
    ///
    /// Anybody who may publish may have sent it. So a push causes no request to the server except
    /// those of the attempt itself. For example, the lease of an attempt that has gone is released
    /// by the release of that attempt, and not because of a push with a grant.
    fn told(&self, channel: &[u8], payload: &[u8], since: Instant) {
        let Some(PushMessage { holder, mut event, nonce }) = read_push(payload) else { return };
        match &mut event {
            PushEvent::Broken => return self.shared.notice_bus.say(&Notice::Broken { holder }),
            // Nothing proves it, also to a waiter that cannot be told anything.
            PushEvent::Granted { .. } if nonce.is_none() => event = PushEvent::AskAgain,
            PushEvent::Granted { lasts, .. } => *lasts = lasts.up_to(self.window()),
            PushEvent::First { .. } | PushEvent::AskAgain => {}
        }
        let proof = nonce.map(|nonce| Proof { channel: Channel::new(channel), nonce });
        self.shared.waiting.hears(holder, event, proof.as_ref(), since, self.runtime.now());
    }

    pub(crate) fn tell(me: Weak<Self>) -> OnPush {
        Arc::new(move |channel, payload, since| {
            if let Some(client) = me.upgrade() {
                client.told(channel, payload, since);
            }
        })
    }

    /// Removes the waiter. Returns true if the attempt was ever in a queue.
    pub(crate) fn leave(&self, attempt: &Attempt) -> bool {
        self.shared.waiting.leave(attempt.holder, self.runtime.now())
    }
}

/// What an operator risks who switches the quarantine off.
pub(crate) fn quarantine_warning(store: &str, quarantine: bool) -> Option<String> {
    let unless = "quarantine=no is safe only with appendonly yes, appendfsync always, and no failover";
    (!quarantine).then(|| format!("{store}: {unless}"))
}
