//! One connection for everybody: made when it is first needed, dropped when it fails, made anew by the next who needs it.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use leasehold_core::{Fault, Runtime};
use redis::aio::MultiplexedConnection;
use tokio::sync::{Notify, watch};

use crate::clock::ServerClock;
use crate::connect::{CONNECT_LIMIT, Connector};
use crate::deadline::within;
use crate::fault::Faults;
use crate::settle::ConnectionId;

/// A connection that was made; it may have ended since.
pub(crate) struct Live {
    pub(crate) id: ConnectionId,
    pub(crate) connection: MultiplexedConnection,
    pub(crate) clock: Arc<ServerClock>,
    ended: Arc<AtomicBool>,
    close: Arc<Notify>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Whoever still waits on it is told that it broke.
impl Drop for Live {
    fn drop(&mut self) {
        self.close.notify_one();
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    connector: Arc<Connector>,
    faults: Faults,
    runtime: Arc<dyn Runtime>,
    state: Arc<Mutex<State>>,
}

/// Whoever waits for as long as connecting may take should hear how it ended, and not stop a moment before.
const GRACE: Duration = Duration::from_millis(100);

type Made = Option<Result<Arc<Live>, Fault>>;

#[derive(Debug)]
enum State {
    Down,
    /// A task is making one; everybody waits for that one.
    Connecting(watch::Receiver<Made>),
    Up(Arc<Live>),
}

impl Link {
    pub(crate) fn new(connector: Connector, faults: Faults, runtime: Arc<dyn Runtime>) -> Self {
        let state = Arc::new(Mutex::new(State::Down));
        Self { connector: Arc::new(connector), faults, runtime, state }
    }

    /// The connection, new if there is none. Cancel safe: the connecting goes on for whoever comes next.
    pub(crate) async fn live(&self, limit: Duration) -> Result<Arc<Live>, Fault> {
        let mut made = match self.look() {
            Ok(live) => return Ok(live),
            Err(made) => made,
        };
        let waiting = made.wait_for(Option::is_some);
        let limit = limit.min(CONNECT_LIMIT + GRACE);
        match within(&*self.runtime, limit, waiting).await {
            Some(Ok(made)) => made.clone().unwrap_or_else(|| Err(self.abandoned())),
            Some(Err(_)) => Err(self.abandoned()),
            None => Err(self.faults.passing(format_args!("no connection within {limit:?}"))),
        }
    }

    /// Ends a connection for everybody.
    pub(crate) fn drop_connection(&self, live: &Arc<Live>) {
        live.ended.store(true, Ordering::Relaxed);
        live.close.notify_one();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(&*state, State::Up(up) if up.id == live.id) {
            *state = State::Down;
        }
    }

    fn look(&self) -> Result<Arc<Live>, watch::Receiver<Made>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Up(live) if !live.ended.load(Ordering::Relaxed) => return Ok(Arc::clone(live)),
            // Its task is alive as long as the channel is open.
            State::Connecting(made) if made.has_changed().is_ok() => return Err(made.clone()),
            _ => {}
        }
        let (report, made) = watch::channel(None);
        *state = State::Connecting(made.clone());
        drop(state);
        self.connect(report);
        Err(made)
    }

    fn connect(&self, report: watch::Sender<Made>) {
        let (connector, runtime) = (Arc::clone(&self.connector), Arc::clone(&self.runtime));
        let (state, faults) = (Arc::clone(&self.state), self.faults.clone());
        self.runtime.spawn(Box::pin(async move {
            let connected = within(&*runtime, CONNECT_LIMIT, connector.connect(&runtime)).await;
            let silent = || Err(faults.passing(format_args!("no connection within {CONNECT_LIMIT:?}")));
            let made = connected.unwrap_or_else(silent).map(|(connection, driver, reading)| {
                static MADE: AtomicU64 = AtomicU64::new(0);
                let ended = Arc::new(AtomicBool::new(false));
                let close = Arc::new(Notify::new());
                let live = Live {
                    id: ConnectionId(MADE.fetch_add(1, Ordering::Relaxed)),
                    connection,
                    clock: Arc::new(ServerClock::read(reading)),
                    ended: Arc::clone(&ended),
                    close: Arc::clone(&close),
                };
                runtime.spawn(Box::pin(async move {
                    tokio::select! {
                        () = driver => {}
                        () = close.notified() => {}
                    }
                    ended.store(true, Ordering::Relaxed);
                }));
                Arc::new(live)
            });
            *state.lock().unwrap_or_else(PoisonError::into_inner) = match &made {
                Ok(live) => State::Up(Arc::clone(live)),
                Err(_) => State::Down,
            };
            report.send_replace(Some(made));
        }));
    }

    /// The task that connects was dropped.
    fn abandoned(&self) -> Fault {
        self.faults.passing("nobody makes connections any more: the async runtime has ended")
    }
}
