//! Monitors the connection on which waiters are notified.
//!
//! While many requests wait, nobody may use the connection for long. So while they wait, a PING
//! from time to time checks that the server is still there. A lost connection is replaced at once,
//! and all waiters ask again, because messages in between are lost.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Backoff, ConnectionId, Instant, Runtime, WaiterRegistry};
use redis::cmd;
use tokio::sync::Notify;

use super::{Client, Source};
use crate::connection::link::{Link, Live};
use crate::connection::route::Route;
use crate::reply::is_master;

struct Checked {
    /// The connection on which all waiters have asked, or were told to ask.
    on: ConnectionId,
    failures: u32,
}

impl Client {
    /// Monitors this route's connection from now on, until nobody waits.
    pub(crate) fn monitor(&self, route: &Route) {
        let (Source::Ours(link), Some(live)) = (&self.source, route.live()) else { return };
        if !self.is_monitored.swap(true, Ordering::SeqCst) {
            let checked = Checked { on: live.id, failures: 0 };
            let (me, runtime, lost) = (self.me.clone(), Arc::clone(&self.runtime), Arc::clone(&link.lost));
            self.runtime.spawn(Box::pin(monitor(me, runtime, lost, checked)));
        }
    }

    /// Subscribes to reports of broken leases from now on, if the connection can.
    pub(crate) fn hear_of_breaks(&self) {
        if let Source::Ours(link) = &self.source {
            link.hear_of_breaks();
        }
    }

    /// Returns when to check again.
    async fn look(&self, link: &Link, checked: &mut Checked) -> Instant {
        let Ok(route) = self.any_route().await else {
            if checked.failures == 0 {
                // Requests to the store limit an outage, and waiters in the queue make none.
                self.shared.waiting.ask_for_all();
            }
            let random = self.runtime.random_bits();
            let rest = Backoff::WHILE_SILENT.delay(checked.failures, random);
            checked.failures += 1;
            return self.runtime.now() + rest;
        };
        checked.failures = 0;
        let Some(live) = route.live() else { return self.runtime.now() + self.beat() };
        let has_push = self.listen(&route).await.is_some();
        if checked.on != live.id {
            checked.on = live.id;
            self.shared.waiting.ask_for_all();
        }
        if !has_push {
            // A waiter that cannot be notified polls, and so finds out.
            return self.runtime.now() + self.beat();
        }
        if !live.has_push {
            live.own_channel.beat.notify_one();
        }
        if live.has_push || live.minds_roles {
            self.ping(link, live).await
        } else {
            self.runtime.now() + self.beat()
        }
    }

    /// Sends a PING, or asks whether the server is still a master if another one may be, unless
    /// something was answered lately.
    async fn ping(&self, link: &Link, live: &Arc<Live>) -> Instant {
        let sent = self.runtime.now();
        let fresh_until = live.answered.get() + self.beat();
        if sent < fresh_until {
            return fresh_until;
        }
        let (mut connection, ping) =
            (live.connection.clone(), cmd(if live.minds_roles { "ROLE" } else { "PING" }));
        let pong = self.runtime.within(self.call_limit, connection.send_packed_command(&ping)).await;
        match pong {
            Some(Ok(role)) if live.minds_roles && is_master(&role) == Some(false) => {
                link.drop_connection(live);
            }
            // A refusal is an answer too.
            Some(Ok(_)) => live.answered.note(sent),
            Some(Err(_)) => link.drop_connection(live),
            None => link.drop_if_silent_since(sent, live),
        }
        sent + self.beat()
    }

    /// The greatest apparent age of a lease that is handed over: most of the claim window must be
    /// left for the first renewal.
    fn beat(&self) -> Duration {
        self.window() / 4
    }
}

/// True if a task that runs while somebody waits can end. A waiter after that starts it again.
pub(crate) fn nobody_waits(waiting: &WaiterRegistry, is_running: &AtomicBool) -> bool {
    if waiting.len() > 0 {
        return false;
    }
    is_running.store(false, Ordering::SeqCst);
    waiting.len() == 0 || is_running.swap(true, Ordering::SeqCst)
}

async fn monitor(me: Weak<Client>, runtime: Arc<dyn Runtime>, lost: Arc<Notify>, mut checked: Checked) {
    while let Some(client) = me.upgrade() {
        let Source::Ours(link) = &client.source else { return };
        if nobody_waits(&client.shared.waiting, &client.is_monitored) {
            return;
        }
        let next = client.look(link, &mut checked).await;
        drop(client);
        tokio::select! {
            () = runtime.sleep_until(next) => {}
            () = lost.notified() => {}
        }
    }
}
