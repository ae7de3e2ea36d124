//! Finds the master that sentinels report.
//!
//! A sentinel's answer alone is not enough: it may have missed a failover. So all sentinels are asked
//! at once, and if a majority names one master, no other is used. It must also say that it is a
//! master, on the very connection that is then used. The answer does not count for ever either: as
//! long as the connection lasts, a sentinel's messages are read, and all are asked again from time to
//! time. The sentinels are also asked again while no connection can be made.

mod asking;
mod poll;
pub(crate) mod state;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use leasehold_core::{Backoff, Fault, Runtime, majority_of};

use crate::address::access::Access;
use crate::address::server::{PORT as SERVER_PORT, SENTINEL_PORT as PORT, ServerAddr};
use crate::connection::connect::{Connected, Connector};
use crate::connection::dial::ANSWERS_WITHIN;
use crate::connection::subscription::OnPush;
use crate::fault::Faults;

/// Each sentinel has this long to name a master, divided by half of their number, rounded up. Nobody
/// waits for one without which there is a majority. As much time again remains to connect to the
/// master.
const ASKED_FOR: Duration = Duration::from_millis(900);

/// The interval for asking which server is the master while a sentinel's reports are read.
const ASKED_EVERY: Duration = Duration::from_secs(5);

/// The interval for asking whether a master that does not answer is still the master.
const DOUBT: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) struct Sentinels {
    addrs: Vec<ServerAddr>,
    master: String,
    access: Access,
    faults: Faults,
    runtime: Arc<dyn Runtime>,
    /// The sentinel to ask first: the last one with the right answer.
    first: AtomicUsize,
}

#[derive(Clone, Debug)]
enum SentinelReply {
    Master(ServerAddr),
    /// It knows no master of this name, but these others.
    Unknown(Vec<String>),
}

impl Sentinels {
    pub(crate) fn new(
        addrs: Vec<ServerAddr>,
        master: String,
        access: Access,
        faults: Faults,
        runtime: Arc<dyn Runtime>,
    ) -> Self {
        Self { addrs, master, access, faults, runtime, first: AtomicUsize::new(0) }
    }

    /// Connects to the master that a majority of the sentinels names. Without a majority, to each
    /// server that one names, until one says that it is a master.
    ///
    /// What a majority of the sentinels refuses, or the masters that they name, is refused for good,
    /// whatever the others might say. But a sentinel that does not answer may be the only one that
    /// knows a master of this name.
    pub(crate) async fn lead(&self, connector: &Connector, tell: &OnPush) -> Result<Connected, Fault> {
        let mut said = Vec::new();
        let mut tried = Vec::new();
        let mut refused = None;
        // The masters that refuse for good.
        let mut refusing = Vec::new();
        let (mut refuse, mut unknown) = (0, 0);
        let mut poll = self.poll();
        let majority = poll.majority().await;
        // One that has answered: others may be silent.
        let first = majority.as_ref().and_then(|most| poll.who_names(most));
        let first = first.unwrap_or_else(|| self.first.load(Ordering::Relaxed));
        // Without a majority there must be time for each of them: those before may be silent.
        let share = match majority {
            Some(_) => ANSWERS_WITHIN,
            None => ANSWERS_WITHIN / poll.count_named().max(1),
        };
        for nth in 0..self.addrs.len() {
            let nth = (first + nth) % self.addrs.len();
            let (says, lasts) = match poll.reply(nth).await {
                Ok(SentinelReply::Master(addr)) if majority.as_ref().is_some_and(|most| *most != addr) => {
                    let at = addr.written(SERVER_PORT);
                    (format!("the master is {at}, but most sentinels name another"), false)
                }
                Ok(SentinelReply::Master(addr)) if tried.contains(&addr) => {
                    ("says the same".to_owned(), refusing.contains(&addr))
                }
                Ok(SentinelReply::Master(addr)) => {
                    match self.follow(addr, share, &mut tried, connector, tell).await {
                        Ok(connected) => {
                            self.first.store(nth, Ordering::Relaxed);
                            return Ok(connected);
                        }
                        Err((addr, fault)) => {
                            let (at, reason) = (addr.written(SERVER_PORT), &fault.reason);
                            refused.get_or_insert_with(|| format!("{reason} (the master, {at})"));
                            let says = format!("the master is {at}; there: {reason}");
                            if fault.is_lasting() {
                                refusing.push(addr);
                            }
                            (says, fault.is_lasting())
                        }
                    }
                }
                Ok(SentinelReply::Unknown(names)) => {
                    unknown += 1;
                    (self.unknown(&names), false)
                }
                Err(fault) => (fault.reason.to_string(), fault.is_lasting()),
            };
            refuse += usize::from(lasts);
            said.push(format!("sentinel {}: {says}", self.addrs[nth].written(PORT)));
        }
        // If they all name one master, its refusal says enough.
        let is_lasting = refuse >= majority_of(self.addrs.len()) || refuse + unknown == self.addrs.len();
        let said = refused.filter(|_| is_lasting && tried.len() == 1).unwrap_or_else(|| said.join("; "));
        Err(if is_lasting { self.faults.lasting(said) } else { self.faults.passing(said) })
    }

    /// Connects to a master within this limit. If it is slow to answer, also follows the sentinels'
    /// answers meanwhile.
    async fn follow(
        &self,
        mut addr: ServerAddr,
        limit: Duration,
        tried: &mut Vec<ServerAddr>,
        connector: &Connector,
        tell: &OnPush,
    ) -> Result<Connected, (ServerAddr, Fault)> {
        loop {
            tried.push(addr.clone());
            let connecting = self.runtime.within(limit, connector.connect_to(&addr, tell));
            addr = tokio::select! {
                biased;
                connected = connecting => {
                    let silent = || Err(self.faults.timed_out(format_args!("no answer within {limit:?}")));
                    return connected.unwrap_or_else(silent).map_err(|fault| (addr, fault));
                }
                next = self.named_otherwise(tried) => next,
            };
        }
    }

    /// Resolves when the sentinels name a master that was not tried.
    async fn named_otherwise(&self, tried: &[ServerAddr]) -> ServerAddr {
        loop {
            self.runtime.sleep_until(self.runtime.now() + DOUBT).await;
            let named = self.poll().master(self.first.load(Ordering::Relaxed)).await;
            if let Some(other) = named.filter(|named| !tried.contains(named)) {
                return other;
            }
        }
    }

    /// Resolves when a sentinel says that the master has moved from this address.
    pub(crate) async fn moved_from(&self, addr: &ServerAddr, connector: &Connector) {
        let first = self.first.load(Ordering::Relaxed);
        let mut failures = 0;
        loop {
            let nth = (first + usize::try_from(failures).unwrap_or(0)) % self.addrs.len();
            if self.hears_of_a_move(nth, addr, connector).await {
                self.first.store(nth, Ordering::Relaxed);
                return;
            }
            let random = self.runtime.random_bits();
            self.runtime
                .sleep_until(self.runtime.now() + Backoff::WHILE_SILENT.delay(failures, random))
                .await;
            failures += 1;
        }
    }

    /// Listens to one sentinel until the master has moved, or the sentinel is of no use.
    async fn hears_of_a_move(&self, nth: usize, from: &ServerAddr, connector: &Connector) -> bool {
        let listening = self.runtime.within(ANSWERS_WITHIN, self.listen(nth)).await;
        let (_sink, mut stream) = match listening {
            Some(Ok(connection)) => {
                let (sink, stream) = connection.split();
                (Some(sink), stream.left_stream())
            }
            // It may answer all the same: its user may lack the permission.
            Some(Err(fault)) if fault.is_lasting() => (None, stream::pending().right_stream()),
            _ => return false,
        };
        loop {
            // A report from before it was listened to is missed, and a sentinel that hangs reports
            // nothing.
            let mut poll = self.poll();
            let Ok(SentinelReply::Master(named)) = poll.reply(nth).await else { return false };
            match poll.master(nth).await {
                Some(master) if master != *from => {
                    let tell: OnPush = Arc::new(|_, _, _| {});
                    let connecting = connector.connect_to(&master, &tell);
                    return matches!(self.runtime.within(ANSWERS_WITHIN, connecting).await, Some(Ok(_)));
                }
                // Most of the others contradict it.
                _ if named != *from => return false,
                _ => {}
            }
            let ask_at = self.runtime.now() + ASKED_EVERY;
            loop {
                tokio::select! {
                    biased;
                    message = stream.next() => {
                        let Some(message) = message else { return false };
                        let to = switched_to(message.get_payload_bytes(), &self.master);
                        if to.is_some_and(|to| to != *from) {
                            return true;
                        }
                    }
                    () = self.runtime.sleep_until(ask_at) => break,
                }
            }
        }
    }

    fn unknown(&self, names: &[String]) -> String {
        let known = match names {
            [] => "none".to_owned(),
            names => names.join(", "),
        };
        format!(
            "knows no master {}; it knows {known}: name one of these behind the hosts",
            self.master.escape_debug()
        )
    }
}

/// The new address of this master in a sentinel's message: `NAME OLD-HOST OLD-PORT HOST PORT`.
fn switched_to(payload: &[u8], master: &str) -> Option<ServerAddr> {
    let words: Vec<_> = std::str::from_utf8(payload).ok()?.split(' ').collect();
    match words[..] {
        [name, _, _, host, port] if name == master => {
            Some(ServerAddr::Tcp { host: host.to_owned(), port: port.parse().ok()? })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_read_and_that_of_another_master_is_not_ours() {
        let to = |payload: &str| switched_to(payload.as_bytes(), "locks");
        let addr = ServerAddr::Tcp { host: "10.0.0.2".into(), port: 6380 };
        assert_eq!(to("locks 10.0.0.1 6379 10.0.0.2 6380"), Some(addr));
        for other in
            ["cache 10.0.0.1 6379 10.0.0.2 6380", "locks 10.0.0.1 6379 10.0.0.2", "", "locks a b c d"]
        {
            assert_eq!(to(other), None);
        }
    }
}
