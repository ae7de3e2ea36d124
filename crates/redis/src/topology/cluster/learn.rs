//! Finds the owners of slots.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use leasehold_core::{Fault, FaultCause, Instant, StoreFuture, WaitQueue};
use redis::{Value, cmd};

use super::Cluster;
use super::map::Map;
use crate::client::Client;
use crate::client::monitor::nobody_waits;
use crate::redirect::Node;
use crate::slot::slot_of;

/// The pause between two requests after a fault or a redirect. A redirect already gives the owner
/// of a moved slot, and a failover takes seconds.
const REST: Duration = Duration::from_millis(100);

/// A node that has not answered in this time may hang. The next one is asked as well, and the
/// first answer counts.
const NEXT_AFTER: Duration = Duration::from_millis(200);

/// The interval for asking whether a node that accepts no connection still owns its slots.
const DOUBT: Duration = Duration::from_millis(200);

/// A waiter that was skipped because its subscription was unknown waits for this long, and a key
/// may be free meanwhile.
const LOOKS: Duration = Duration::from_nanos(WaitQueue::CLAIM_WINDOW.as_nanos() as u64 / 4);

/// The last time that no node told the owners, and why.
#[derive(Debug)]
pub(super) struct Unlearnt {
    began: Instant,
    fault: Fault,
}

impl Cluster {
    /// The owner of a slot. Asks if nobody has asked yet or the slot had no owner.
    pub(super) async fn owner(&self, slot: u16) -> Result<Node, Fault> {
        let known = || self.known().map.owner(slot).cloned();
        if let Some(owner) = known() {
            return Ok(owner);
        }
        self.learn(self.runtime.now()).await?;
        known().ok_or_else(|| {
            self.doubt(None);
            let reason = format!("no node of the cluster serves slot {slot}: give it to a node");
            self.faults.passing(reason).caused_by(FaultCause::NotServing)
        })
    }

    /// Asks for the owners of all slots, unless somebody has asked since this instant: then the
    /// result of that counts, also if no node answered.
    /// Cancel safe.
    pub(super) async fn learn(&self, since: Instant) -> Result<(), Fault> {
        let mut unlearnt = self.learning.lock().await;
        if self.known().learnt.is_some_and(|learnt| learnt >= since) {
            return Ok(());
        }
        if let Some(Unlearnt { fault, .. }) = unlearnt.as_ref().filter(|unlearnt| unlearnt.began >= since) {
            return Err(fault.clone());
        }
        let began = self.runtime.now();
        let ask = |node: Node| -> StoreFuture<'_, _> {
            let client = self.client(&node);
            Box::pin(async move {
                let sent = self.runtime.now();
                let map = client.owners(&node).await?;
                Ok((sent, node, map))
            })
        };
        match Box::pin(self.first_to_answer(self.to_ask(), ask)).await {
            Ok((sent, node, map)) => {
                self.know(sent, |known| *known = map);
                self.known().named_by = Some(node);
                Ok(())
            }
            Err(faults) => {
                let fault = self.of_all(&faults);
                *unlearnt = Some(Unlearnt { began, fault: fault.clone() });
                Err(fault)
            }
        }
    }

    /// Asks one node after the other, and does not wait long for a silent one. Returns the first
    /// answer, or the faults of all nodes.
    pub(super) async fn first_to_answer<'a, T>(
        &'a self,
        nodes: Vec<Node>,
        ask: impl Fn(Node) -> StoreFuture<'a, T>,
    ) -> Result<T, Vec<Fault>> {
        let mut nodes = nodes.into_iter();
        let (mut asked, mut faults) = (FuturesUnordered::new(), Vec::new());
        loop {
            asked.extend(nodes.next().map(&ask));
            let next_at = self.runtime.now() + NEXT_AFTER;
            tokio::select! {
                biased;
                answer = asked.next() => match answer {
                    Some(Ok(answer)) => return Ok(answer),
                    Some(Err(fault)) => faults.push(fault),
                    None => return Err(faults),
                },
                () = self.runtime.sleep_until(next_at), if nodes.len() > 0 => {}
            }
        }
    }

    /// When a node may be asked again after a fault or a redirect.
    fn rested(&self) -> Instant {
        self.known().learnt.map_or(Instant::from_nanos(0), |learnt| learnt + REST)
    }

    /// The owner of a slot, if it is another node than this one by now.
    pub(super) async fn other_owner(&self, slot: u16, than: &Node) -> Option<Node> {
        let since = self.rested().max(self.runtime.now());
        self.runtime.sleep_until(since).await;
        self.learn(since).await.ok()?;
        self.known().map.owner(slot).filter(|owner| *owner != than).cloned()
    }

    /// Resolves when another node owns a slot. Meanwhile the owner is asked for from time to time.
    pub(super) async fn replaced(&self, slot: u16, owner: &Node) -> Node {
        loop {
            self.runtime.sleep_until(self.runtime.now() + DOUBT).await;
            if let Some(other) = self.other_owner(slot, owner).await {
                return other;
            }
        }
    }

    /// The same in the background: the caller has been answered, or asks again.
    pub(super) fn learn_later(&self) {
        if self.learns_soon.swap(true, Ordering::SeqCst) {
            return;
        }
        let (me, runtime) = (self.me.clone(), Arc::clone(&self.runtime));
        let earliest = self.rested();
        self.runtime.spawn(Box::pin(async move {
            runtime.sleep_until(earliest).await;
            let Some(cluster) = me.upgrade() else { return };
            cluster.learns_soon.store(false, Ordering::SeqCst);
            // A caller that needs the owners gets the same fault, and reports it.
            let _ = cluster.learn(runtime.now()).await;
        }));
    }

    /// Watches for slots that move, from now on until nobody waits.
    ///
    /// A waiter is notified on a connection to the node that has its queue. When the slot moves, the
    /// queue moves with it, but nobody is subscribed at the new node, and the old node sends
    /// nothing. Once the new owner is known, each waiter for a key that has moved asks there, with
    /// its ticket, and gets its old place.
    pub(super) fn watch(&self) {
        if self.watched.swap(true, Ordering::SeqCst) {
            return;
        }
        let (me, runtime) = (self.me.clone(), Arc::clone(&self.runtime));
        self.runtime.spawn(Box::pin(async move {
            while let Some(cluster) = me.upgrade() {
                if nobody_waits(cluster.waiting(), &cluster.watched) {
                    return;
                }
                // A caller gets the same fault, and reports it.
                let _ = cluster.learn(runtime.now()).await;
                drop(cluster);
                runtime.sleep_until(runtime.now() + LOOKS).await;
            }
        }));
    }

    /// Notes that a node named the new owner of a slot.
    pub(super) fn moved(&self, slot: u16, owner: &Node) {
        if self.known().map.owner(slot) != Some(owner) {
            let learnt = self.known().learnt;
            self.know(learnt.unwrap_or(Instant::from_nanos(0)), |map| map.put(slot, owner.clone()));
            // Slots seldom move alone.
            self.learn_later();
        }
    }

    /// Changes what is known. Waiters for a key that moved ask at its new node: they are not
    /// subscribed there yet, so they would be skipped.
    fn know(&self, learnt: Instant, change: impl FnOnce(&mut Map)) {
        let waited_for = self.waiting().keys();
        let mut known = self.known();
        let owners = |map: &Map| -> Vec<_> {
            waited_for.iter().map(|key| map.owner(slot_of(key.as_bytes())).cloned()).collect()
        };
        let before = owners(&known.map);
        change(&mut known.map);
        known.learnt = Some(learnt);
        let after = owners(&known.map);
        known.prune();
        drop(known);
        let now = self.runtime.now();
        for (key, (before, after)) in waited_for.iter().zip(before.iter().zip(&after)) {
            if before != after {
                self.waiting().ask_for(key, now);
            }
        }
    }

    /// The fault if no node could be asked. It is lasting only if it is lasting at all of them.
    fn of_all(&self, faults: &[Fault]) -> Fault {
        let reasons: Vec<_> = faults.iter().map(|fault| &*fault.reason).collect();
        let reasons = reasons.join("; ");
        if !faults.is_empty() && faults.iter().all(Fault::is_lasting) {
            return self.faults.lasting(reasons);
        }
        self.faults.passing(format_args!("no node of the cluster answers ({reasons})"))
    }
}

impl Client {
    async fn owners(&self, asked: &Node) -> Result<Map, Fault> {
        let mut route = self.any_route().await?;
        let heard = self.say_once(&mut route, cmd("CLUSTER").arg("SLOTS"), self.call_limit).await?;
        let value = heard.map_err(|error| self.faults.of_refusal(&error))?;
        let strange =
            || self.faults.lasting("unexpected answer to CLUSTER SLOTS: is this a node of a cluster?");
        let map = Map::read(&value, &asked.host).ok_or_else(strange)?;
        if map.masters().is_empty() {
            return Err(self.faults.passing(match &value {
                Value::Array(ranges) if !ranges.is_empty() => {
                    "it knows no host of a node with slots: set cluster-announce-hostname on each, or \
                     cluster-preferred-endpoint-type ip"
                }
                _ => "it knows no slots: it has left the cluster, or else give the cluster's slots to nodes",
            }));
        }
        Ok(map)
    }
}
