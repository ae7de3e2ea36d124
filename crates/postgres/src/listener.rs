//! The connection on which waiters are notified of their turn: opened when somebody first waits,
//! and reopened when it is lost.
//!
//! A listening process holds an advisory lock with the number of its channel. So another process
//! can check that it is alive without asking it, and hands nothing to a dead one.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Backoff, Fault, locked};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio_postgres::types::Type;

use crate::channel;
use crate::connect::{Live, OnNotification, connect};
use crate::push;
use crate::push_monitor::PushState;
use crate::table::row::Columns;
use crate::worker::{Inner, Job};

/// A server that refuses to listen is asked again after this time: somebody may have repaired it.
const RETRY_LISTEN: Duration = Duration::from_secs(30);

/// While nobody waits, the connection is only checked at this interval.
const IDLE_BEAT: Duration = Duration::from_secs(30);

/// The only task that listens. It may panic, or be dropped with its runtime: then nobody can be notified
/// on its channel any more, and the next one that waits starts another task.
pub(crate) struct Listening(Arc<Inner>);

impl Listening {
    /// `None` if a task listens already, or tries to.
    pub(crate) fn begin(inner: &Arc<Inner>) -> Option<Self> {
        inner.push_monitor.begins().then(|| Self(Arc::clone(inner)))
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.push_monitor.ends(&self.0.faults.store);
    }
}

/// Listens until the store is dropped.
pub(crate) async fn run(task: Listening, mut alive: watch::Receiver<()>) {
    let inner = &task.0;
    let listening = async {
        let push_monitor = &inner.push_monitor;
        let (mut failures, mut number) = (0, new_number(inner));
        loop {
            let rest = match listen(inner, number).await {
                Ok(listener) => {
                    (failures, number) = (0, new_number(inner));
                    push_monitor.set(&inner.faults.store, PushState::Listening(listener.number));
                    // Messages since the waiters last asked were lost.
                    inner.waiting.ask_for_all();
                    listener.check_until_lost(inner).await;
                    push_monitor.set(&inner.faults.store, PushState::NotYet);
                    inner.waiting.ask_for_all();
                    Duration::ZERO
                }
                Err(ListenFailure { fault, rest, is_tested }) => {
                    // A pooler may keep the session that listens. Otherwise the same channel is
                    // tried again, so that such sessions do not collect channels.
                    if is_tested {
                        number = new_number(inner);
                    }
                    push_monitor.set(&inner.faults.store, PushState::Unavailable(fault));
                    failures += 1;
                    let random = inner.runtime.random_bits();
                    rest.unwrap_or_else(|| Backoff::WHILE_SILENT.delay(failures - 1, random))
                }
            };
            inner.runtime.sleep_until(inner.runtime.now() + rest).await;
        }
    };
    tokio::select! {
        () = listening => {}
        _ = alive.changed() => {}
    }
}

/// The reason why no notifications arrive, and when to try again.
struct ListenFailure {
    fault: Fault,
    rest: Option<Duration>,
    /// True if notifications arrived. Then a session may hold the lock of the channel.
    is_tested: bool,
}

impl From<Fault> for ListenFailure {
    fn from(fault: Fault) -> Self {
        Self { fault, rest: None, is_tested: false }
    }
}

/// The connection on which notifications arrive.
struct Listener {
    live: Live,
    number: i64,
    /// The session of the requests during which it was opened, and so on the same server.
    session: u64,
}

/// The number of a channel that nobody has used.
fn new_number(inner: &Inner) -> i64 {
    channel::of_bits(inner.runtime.random() as u64)
}

async fn listen(inner: &Arc<Inner>, number: i64) -> Result<Listener, ListenFailure> {
    let session = inner.readings.session();
    let name = channel::name(number);
    // Not the message of an earlier test of this channel.
    let (proof, tested) = (format!("test {}", inner.runtime.random_bits()), Arc::new(Notify::new()));
    let on_notification: OnNotification = {
        let (inner, name, proof, tested) =
            (Arc::downgrade(inner), name.clone(), proof.clone(), Arc::clone(&tested));
        Arc::new(move |channel, payload| {
            let Some(inner) = inner.upgrade() else { return };
            if channel == name && payload == proof {
                return tested.notify_one();
            }
            if let Some(message) = push::read(payload).filter(|_| channel == name) {
                inner.receive(Some(number), &message);
            }
        })
    };
    let faults = &inner.faults;
    let live = connect(&inner.address, faults, &inner.runtime, Some(on_notification)).await?;
    let limit = 2 * inner.address.call_limit;
    inner.asked(limit, live.client.batch_execute(&format!("LISTEN {name}"))).await?;
    // Checks that a message on another connection arrives here. Behind a pooler that changes
    // sessions between transactions, it does not.
    let (sent, is_sent) = oneshot::channel();
    let queue = locked(&inner.queue).as_ref().and_then(mpsc::WeakUnboundedSender::upgrade);
    if let Some(queue) = queue {
        let _ = queue.send(Job::Notify { said: vec![(name, proof)], sent: Some(sent) });
    }
    if !matches!(inner.runtime.within(limit, is_sent).await, Some(Ok(()))) {
        return Err(faults.passing("no notification could be sent").into());
    }
    if inner.runtime.within(limit, tested.notified()).await.is_none() {
        let reason = "no notification comes through: behind a connection pooler in transaction mode waiters are not told of their turn \
            and ask for it; name the server itself in the store URL to be told";
        let (fault, rest) = (faults.passing(reason), Some(RETRY_LISTEN));
        return Err(ListenFailure { fault, rest, is_tested: false });
    }
    let own = [(&number as _, Type::INT8)];
    let locked = inner.asked(limit, live.client.query_typed("SELECT pg_advisory_lock($1)", &own)).await;
    locked.map_err(|fault| ListenFailure { fault, rest: None, is_tested: true })?;
    Ok(Listener { live, number, session })
}

impl Listener {
    /// Resolves when no messages can be received any more, or the requests have another connection,
    /// which may lead to another server. While somebody waits, reads the server's clock often enough
    /// to know the age of a hand-over, and so checks that the connection works.
    async fn check_until_lost(&self, inner: &Inner) {
        loop {
            let asked = inner.runtime.now();
            let clock = self.live.client.query_typed_one(&inner.scope.sql.clock, &[]);
            let Ok(row) = inner.asked(2 * inner.address.call_limit, clock).await else { return };
            let Ok(said) = Columns(&row).stamp(0) else { return };
            if !inner.readings.note(self.session, asked, said) {
                return;
            }
            let next = asked + if inner.waiting.len() > 0 { inner.scope.window / 4 } else { IDLE_BEAT };
            let is_idle = inner.waiting.len() == 0;
            while inner.runtime.now() < next && (inner.waiting.len() == 0) == is_idle {
                let look = next.min(inner.runtime.now() + inner.scope.window / 8);
                inner.runtime.sleep_until(look).await;
                if self.live.client.is_closed() || inner.readings.session() != self.session {
                    return;
                }
            }
        }
    }
}
