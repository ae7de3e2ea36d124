//! Looking after the connection on which those who wait hear.
//!
//! Nobody may call on it for long while many wait. So while they do, a PING now and then finds out whether the server is still
//! there; a connection that is lost is made anew at once, and everybody asks again, for what was said meanwhile is lost.

use std::sync::Arc;
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::{Backoff, ConnectionId, Instant, Runtime};
use redis::cmd;
use tokio::sync::Notify;

use crate::client::{Client, Route, Source};
use crate::deadline::within;
use crate::link::{Link, Live};
use crate::topology::is_master;

/// What was known when last looked.
struct Tending {
    /// The connection that everybody who waits has asked on, or was told to.
    on: ConnectionId,
    /// How often none could be made since.
    failures: u32,
}

impl Client {
    /// Somebody waits, by this route: looks after it from now on until nobody does.
    pub(crate) fn tend(&self, route: &Route) {
        let (Source::Ours(link), Some(live)) = (&self.source, &route.live) else { return };
        if !self.tended.swap(true, Ordering::SeqCst) {
            let tending = Tending { on: live.id, failures: 0 };
            let (me, runtime, lost) = (self.me.clone(), Arc::clone(&self.runtime), Arc::clone(&link.lost));
            self.runtime.spawn(Box::pin(tend(me, runtime, lost, tending)));
        }
    }

    /// Hears of leases that are broken from now on, where the connection can.
    pub(crate) fn hear_of_breaks(&self) {
        if let Source::Ours(link) = &self.source {
            link.hear_of_breaks();
        }
    }

    /// Whether this can end. A waiter that comes between two looks begins it anew.
    fn is_done(&self) -> bool {
        if self.waiting.len() > 0 {
            return false;
        }
        self.tended.store(false, Ordering::SeqCst);
        self.waiting.len() == 0 || self.tended.swap(true, Ordering::SeqCst)
    }

    /// Says when to look again.
    async fn look(&self, link: &Link, tending: &mut Tending) -> Instant {
        let Ok(route) = self.route(self.call_limit).await else {
            if tending.failures == 0 {
                // An outage is limited by those who ask, and those who wait in line do not.
                self.waiting.ask_for_all();
            }
            let random = u64::try_from(self.runtime.random() >> 64).unwrap_or(0);
            let rest = Backoff::WHILE_SILENT.delay(tending.failures, random);
            tending.failures += 1;
            return self.runtime.now() + rest;
        };
        tending.failures = 0;
        let Some(live) = &route.live else { return self.runtime.now() + self.beat() };
        let hears = self.listen(&route, self.call_limit).await.is_some();
        if tending.on != live.id {
            tending.on = live.id;
            self.waiting.ask_for_all();
        }
        if !hears {
            // Whoever cannot be told asks for itself, and so finds out.
            return self.runtime.now() + self.beat();
        }
        if live.hears {
            self.ping(link, live).await
        } else {
            live.ear.beat.notify_one();
            self.runtime.now() + self.beat()
        }
    }

    /// Sends a PING, or asks whether it is still a master where others might be that, unless something was answered lately.
    async fn ping(&self, link: &Link, live: &Arc<Live>) -> Instant {
        let sent = self.runtime.now();
        let fresh_until = live.answered.since() + self.beat();
        if sent < fresh_until {
            return fresh_until;
        }
        let (mut connection, ping) =
            (live.connection.clone(), cmd(if live.minds_roles { "ROLE" } else { "PING" }));
        let pong = within(&*self.runtime, self.call_limit, connection.send_packed_command(&ping)).await;
        match pong {
            Some(Ok(role)) if live.minds_roles && is_master(&role) == Some(false) => {
                link.drop_connection(live);
            }
            // A refusal is an answer, too.
            Some(Ok(_)) => live.answered.note(sent),
            Some(Err(_)) => link.drop_connection(live),
            None => link.drop_if_silent_since(sent, live),
        }
        sent + self.beat()
    }

    /// How old a lease may seem at most when it is handed over: most of a window must be left for the first renewal.
    fn beat(&self) -> Duration {
        self.window() / 4
    }
}

async fn tend(me: Weak<Client>, runtime: Arc<dyn Runtime>, lost: Arc<Notify>, mut tending: Tending) {
    while let Some(client) = me.upgrade() {
        let Source::Ours(link) = &client.source else { return };
        if client.is_done() {
            return;
        }
        let next = client.look(link, &mut tending).await;
        drop(client);
        tokio::select! {
            () = runtime.sleep_until(next) => {}
            () = lost.notified() => {}
        }
    }
}
