//! The shared connection: opened when it is first needed, dropped when it fails, and opened again
//! by the next caller.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use leasehold_core::{Channel, ConnectionId, Fault, FaultKind, Instant, Runtime, ServerClock, locked};
use redis::aio::MultiplexedConnection;
use tokio::sync::{Notify, Semaphore, oneshot, watch};

use crate::address::access::Channels;
use crate::address::server::ServerAddr;
use crate::batch::Batches;
use crate::connection::connect::{CALLS_TO_CONNECT, Connected};
use crate::connection::dial::{CONNECT_LIMIT, Latest};
use crate::connection::push_health::PushHealth;
use crate::connection::subscription::{OnPush, OwnChannel};
use crate::fault::Faults;
use crate::topology::Topology;

/// The last request for confirmation on a connection, and its result.
#[derive(Clone, Debug)]
pub(crate) struct Confirmed {
    pub(crate) sent: Instant,
    pub(crate) answer: Result<(), Fault>,
}

/// The most single grants in flight on a connection. A server takes about a tenth of a millisecond for
/// each. If thousands were sent at once, the last would exceed their time limit and be sent again, and
/// the server would answer requests for which nobody waits any more.
const MOST_GRANTS_IN_FLIGHT: usize = 256;

/// What is kept of the server behind a connection, or behind the connections that a program lends.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) clock: ServerClock,
    pub(crate) batches: Batches,
    /// A permit for each single grant in flight; others wait in turn.
    pub(crate) grants: Semaphore,
}

impl Endpoint {
    pub(crate) fn new(clock: ServerClock) -> Self {
        Self { clock, batches: Batches::default(), grants: Semaphore::const_new(MOST_GRANTS_IN_FLIGHT) }
    }
}

/// An open connection; it may have ended since.
pub(crate) struct Live {
    pub(crate) id: ConnectionId,
    pub(crate) connection: MultiplexedConnection,
    pub(crate) endpoint: Arc<Endpoint>,
    /// When the latest of its answered commands was sent.
    pub(crate) answered: Arc<Latest>,
    /// When something was last read from it.
    pub(crate) last_read: Arc<Latest>,
    pub(crate) own_channel: OwnChannel,
    /// The run of its server, once somebody asked. Another connection may lead to another run.
    pub(crate) run: OnceLock<Arc<str>>,
    pub(crate) addr: ServerAddr,
    /// True if the server is asked from time to time whether it is still a master.
    pub(crate) minds_roles: bool,
    pub(crate) confirmed: tokio::sync::Mutex<Option<Confirmed>>,
    /// True if it can receive pushes itself; otherwise it needs a second connection for them.
    pub(crate) has_push: bool,
    /// The [`Runtime::generation`] whose tasks drive it.
    generation: u64,
    /// True if we closed it because it was silent: other calls on it then fail for that reason.
    pub(crate) was_silent: AtomicBool,
    ended: EndMarker,
}

impl Live {
    fn is_up(&self, generation: u64) -> bool {
        !*self.ended.0.borrow() && self.generation == generation
    }
}

/// True when a connection has ended or is to be closed.
///
/// Dropping it marks the connection as ended: when nobody uses it any more, and when the task that
/// drives it ends, even together with its async runtime.
struct EndMarker(Arc<watch::Sender<bool>>);

impl Drop for EndMarker {
    fn drop(&mut self) {
        self.0.send_replace(true);
    }
}

pub(crate) struct Link {
    pub(crate) topology: Arc<Topology>,
    faults: Faults,
    /// How long a PING of the second connection may take.
    call_limit: Duration,
    runtime: Arc<dyn Runtime>,
    state: Arc<Mutex<State>>,
    on_push: OnPush,
    /// Notifies when a connection has ended.
    pub(crate) lost: Arc<Notify>,
    /// True once connections subscribe to reports of broken leases.
    hears_of_breaks: Arc<AtomicBool>,
    pub(crate) push_health: PushHealth,
}

/// A server that accepts no subscriptions, or no further connections, is asked again after this
/// time: somebody may have repaired it.
const RETRY_SUBSCRIBE: Duration = Duration::from_secs(30);

/// A caller that waits for as long as connecting may take gets its result, and does not time out.
const GRACE: Duration = Duration::from_millis(100);

type ConnectResult = Option<Result<Arc<Live>, Fault>>;

enum State {
    Down,
    /// A task is connecting, of a [`Runtime::generation`]; all callers wait for it.
    Connecting(watch::Receiver<ConnectResult>, u64),
    Up(Arc<Live>),
}

impl Link {
    pub(crate) fn new(
        topology: Topology,
        faults: Faults,
        call_limit: Duration,
        runtime: Arc<dyn Runtime>,
        on_push: OnPush,
        push_health: PushHealth,
    ) -> Self {
        let state = Arc::new(Mutex::new(State::Down));
        let topology = Arc::new(topology);
        let lost = Arc::new(Notify::new());
        let hears_of_breaks = Arc::new(AtomicBool::new(false));
        Self { topology, faults, call_limit, runtime, state, on_push, lost, hears_of_breaks, push_health }
    }

    /// The connection; opens a new one if there is none. Cancel safe: connecting continues for the
    /// next caller.
    pub(crate) async fn live(&self, limit: Duration) -> Result<Arc<Live>, Fault> {
        match self.look() {
            Ok(live) => Ok(live),
            // Rare, and a separate function, so that the futures of calls on an open connection are
            // small.
            Err(made) => Box::pin(self.making(made, limit)).await,
        }
    }

    async fn making(
        &self,
        mut made: watch::Receiver<ConnectResult>,
        limit: Duration,
    ) -> Result<Arc<Live>, Fault> {
        let waiting = made.wait_for(Option::is_some);
        let limit = limit.min(CONNECT_LIMIT + GRACE);
        match self.runtime.within(limit, waiting).await {
            Some(Ok(made)) => made.clone().unwrap_or_else(|| Err(self.abandoned())),
            Some(Err(_)) => Err(self.abandoned()),
            None => Err(self.topology.connector.no_connection(limit)),
        }
    }

    /// The connection, if one is open.
    pub(crate) fn up(&self) -> Option<Arc<Live>> {
        match &*locked(&self.state) {
            State::Up(live) if live.is_up(self.runtime.generation()) => Some(Arc::clone(live)),
            _ => None,
        }
    }

    /// Closes a connection for everybody.
    pub(crate) fn drop_connection(&self, live: &Arc<Live>) {
        live.ended.0.send_replace(true);
        let mut state = locked(&self.state);
        if matches!(&*state, State::Up(up) if up.id == live.id) {
            *state = State::Down;
        }
    }

    /// Closes a connection for everybody if nothing has come on it since this instant. A merely
    /// slow one is kept: other callers that wait for an answer on it would lose that answer, ask
    /// again, and make a busy server busier.
    pub(crate) fn drop_if_silent_since(&self, sent: Instant, live: &Arc<Live>) {
        if live.last_read.get() <= sent {
            live.was_silent.store(true, Ordering::Relaxed);
            self.drop_connection(live);
        }
    }

    /// The channel of this process, subscribed to if necessary. `None` if the server refuses.
    pub(crate) async fn listen(&self, live: &Arc<Live>, limit: Duration) -> Option<Channel> {
        match live.own_channel.channel.get() {
            Some(channel) => Some(channel.clone()),
            None => Box::pin(self.begin_to_listen(live, limit)).await,
        }
    }

    async fn begin_to_listen(&self, live: &Arc<Live>, limit: Duration) -> Option<Channel> {
        let mut refused = live.own_channel.subscribing.lock().await;
        if let Some(channel) = live.own_channel.channel.get() {
            return Some(channel.clone());
        }
        if refused.is_some_and(|again| self.runtime.now() < again) {
            return None;
        }
        let channel = self.topology.connector.channels().draw(self.runtime.random());
        let sent = self.runtime.now();
        let patience = if live.has_push { limit } else { limit * CALLS_TO_CONNECT };
        let subscribing = async {
            if live.has_push {
                let subscribed = live.connection.clone().subscribe(channel.as_bytes()).await;
                live.answered.note(sent);
                subscribed.map_err(|error| self.faults.of_error(error))
            } else {
                self.subscribe_beside(live, &channel).await
            }
        };
        match self.runtime.within(patience, subscribing).await {
            Some(Ok(())) => {
                self.push_health.is_good(&self.faults.store);
                Some(live.own_channel.channel.get_or_init(|| channel).clone())
            }
            // A connection without answers is of no use; the next one will subscribe.
            Some(Err(fault)) if fault.kind == FaultKind::Passing && live.has_push => {
                self.drop_connection(live);
                None
            }
            None if live.has_push => {
                self.drop_if_silent_since(sent, live);
                None
            }
            ended => {
                let silent = || self.faults.passing(format_args!("no subscription within {patience:?}"));
                self.push_health.is_bad(ended.and_then(Result::err).unwrap_or_else(silent));
                *refused = Some(self.runtime.now() + RETRY_SUBSCRIBE);
                None
            }
        }
    }

    /// From now on every connection subscribes to reports of broken leases, and the open one does
    /// so at once.
    pub(crate) fn hear_of_breaks(&self) {
        if self.hears_of_breaks.swap(true, Ordering::SeqCst) {
            return;
        }
        let state = locked(&self.state);
        if let State::Up(live) = &*state {
            hear_of_breaks(live, self.topology.connector.channels(), &self.runtime);
        }
    }

    /// Opens a second connection where the locks live: the caller may be in no runtime, or in another
    /// one. The two connections end together: an attempt that receives no pushes must not appear to be
    /// in the queue.
    async fn subscribe_beside(&self, live: &Live, channel: &Channel) -> Result<(), Fault> {
        let (topology, addr, channel) = (Arc::clone(&self.topology), live.addr.clone(), channel.clone());
        let (beat, on_push) = (Arc::clone(&live.own_channel.beat), Arc::clone(&self.on_push));
        let ended = Arc::clone(&live.ended.0);
        let (limit, runtime) = (self.call_limit, Arc::clone(&self.runtime));
        let (mut tell, told) = oneshot::channel();
        self.runtime.spawn(Box::pin(async move {
            let opened = tokio::select! {
                biased;
                () = tell.closed() => return,
                opened = topology.connector.listen(&addr, &channel) => opened,
            };
            let subscription = match opened {
                Ok(subscription) => subscription,
                Err(fault) => return drop(tell.send(Err(fault))),
            };
            if tell.send(Ok(())).is_err() {
                return;
            }
            let mut end = ended.subscribe();
            tokio::select! {
                () = subscription.hear(beat, limit, on_push, runtime) => {}
                _ = end.wait_for(|ended| *ended) => {}
            }
            ended.send_replace(true);
        }));
        told.await.unwrap_or_else(|_| Err(self.abandoned()))
    }

    fn look(&self) -> Result<Arc<Live>, watch::Receiver<ConnectResult>> {
        let generation = self.runtime.generation();
        let mut state = locked(&self.state);
        match &*state {
            State::Up(live) if live.is_up(generation) => return Ok(Arc::clone(live)),
            // Its task is alive as long as the channel is open, and runs as long as its runtime does.
            State::Connecting(made, of) if *of == generation && made.has_changed().is_ok() => {
                return Err(made.clone());
            }
            _ => {}
        }
        let (report, made) = watch::channel(None);
        *state = State::Connecting(made.clone(), generation);
        drop(state);
        self.connect(report, generation);
        Err(made)
    }

    fn connect(&self, report: watch::Sender<ConnectResult>, generation: u64) {
        let (topology, runtime) = (Arc::clone(&self.topology), Arc::clone(&self.runtime));
        let state = Arc::clone(&self.state);
        let (on_push, lost) = (Arc::clone(&self.on_push), Arc::clone(&self.lost));
        let hears_of_breaks = Arc::clone(&self.hears_of_breaks);
        self.runtime.spawn(Box::pin(async move {
            let connected = runtime.within(CONNECT_LIMIT, topology.connect(&on_push)).await;
            let silent = || Err(topology.connector.no_connection(CONNECT_LIMIT));
            let made = connected.unwrap_or_else(silent).map(|connected| {
                let Connected { addr, connection, driver, reading, answered, last_read, has_push } =
                    connected;
                let moved = Arc::clone(&topology).moved_from(addr.clone());
                static MADE: AtomicU64 = AtomicU64::new(0);
                let ended = Arc::new(watch::Sender::new(false));
                let live = Live {
                    id: ConnectionId(MADE.fetch_add(1, Ordering::Relaxed)),
                    connection,
                    endpoint: Arc::new(Endpoint::new(ServerClock::read(reading))),
                    answered,
                    last_read,
                    own_channel: OwnChannel::default(),
                    run: OnceLock::new(),
                    addr,
                    minds_roles: topology.connector.minds_roles,
                    confirmed: tokio::sync::Mutex::default(),
                    has_push,
                    generation,
                    was_silent: AtomicBool::new(false),
                    ended: EndMarker(Arc::clone(&ended)),
                };
                let mut end = ended.subscribe();
                let end_marker = EndMarker(ended);
                runtime.spawn(Box::pin(async move {
                    tokio::select! {
                        () = driver => {}
                        () = moved => {}
                        _ = end.wait_for(|ended| *ended) => {}
                    }
                    drop(end_marker);
                    lost.notify_one();
                }));
                Arc::new(live)
            });
            let mut state = locked(&state);
            *state = match &made {
                Ok(live) => State::Up(Arc::clone(live)),
                Err(_) => State::Down,
            };
            if let (Ok(live), true) = (&made, hears_of_breaks.load(Ordering::SeqCst)) {
                hear_of_breaks(live, topology.connector.channels(), &runtime);
            }
            drop(state);
            report.send_replace(Some(made));
        }));
    }

    /// The fault for a task that was dropped while connecting.
    fn abandoned(&self) -> Fault {
        self.faults
            .passing("no connection was made: the async runtime has ended, or was built without enable_all")
    }
}

/// Subscribes in the background, without anybody waiting for it. If the server refuses, the next
/// renewal finds out about breaks instead.
fn hear_of_breaks(live: &Live, channels: &Channels, runtime: &Arc<dyn Runtime>) {
    if live.has_push {
        let (mut connection, broken) = (live.connection.clone(), channels.broken());
        runtime.spawn(Box::pin(async move {
            let _ = connection.subscribe(broken).await;
        }));
    }
}
