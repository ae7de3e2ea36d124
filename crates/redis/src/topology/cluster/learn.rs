//! Finds the owners of slots.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::{Fault, Instant};
use redis::cmd;

use super::Cluster;
use super::map::Map;
use crate::client::Client;
use crate::redirect::Node;
use crate::slot::slot_of;

/// The pause between two requests in the background. A redirect already gives the owner of a moved
/// slot, and a failover takes seconds.
const REST: Duration = Duration::from_millis(100);

impl Cluster {
    /// The owner of a slot. Asks if nobody has asked yet or the slot had no owner.
    pub(super) async fn owner(&self, slot: u16) -> Result<Node, Fault> {
        let known = || self.known().map.owner(slot).cloned();
        if let Some(owner) = known() {
            return Ok(owner);
        }
        self.learn(self.runtime.now()).await?;
        known().ok_or_else(|| self.faults.passing(format_args!("no node of the cluster serves slot {slot}")))
    }

    /// Asks a node for the owners of all slots, unless somebody has asked since this instant.
    /// Cancel safe.
    pub(super) async fn learn(&self, since: Instant) -> Result<(), Fault> {
        let _one = self.learning.lock().await;
        if self.known().learnt.is_some_and(|learnt| learnt >= since) {
            return Ok(());
        }
        let mut faults = Vec::new();
        for node in self.to_ask() {
            let sent = self.runtime.now();
            match self.client(&node).owners(&node).await {
                Ok(map) => {
                    self.know(sent, |known| *known = map);
                    return Ok(());
                }
                Err(fault) => faults.push(fault),
            }
        }
        Err(self.of_all(&faults))
    }

    /// The same in the background: the caller has been answered, or asks again.
    pub(super) fn learn_later(&self) {
        if self.learns_soon.swap(true, Ordering::SeqCst) {
            return;
        }
        let (me, runtime) = (self.me.clone(), Arc::clone(&self.runtime));
        let learnt = self.known().learnt;
        let earliest = learnt.map_or(runtime.now(), |learnt| learnt + REST);
        self.runtime.spawn(Box::pin(async move {
            runtime.sleep_until(earliest).await;
            let Some(cluster) = me.upgrade() else { return };
            cluster.learns_soon.store(false, Ordering::SeqCst);
            // A caller that needs the owners gets the same fault, and reports it.
            let _ = cluster.learn(runtime.now()).await;
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
        let mut route = self.route(self.call_limit).await?;
        let heard = self.say_once(&mut route, cmd("CLUSTER").arg("SLOTS"), self.call_limit).await?;
        let value = heard.map_err(|error| self.faults.of_refusal(&error))?;
        let strange =
            || self.faults.lasting("unexpected answer to CLUSTER SLOTS: is this a node of a cluster?");
        Map::read(&value, &asked.host).ok_or_else(strange)
    }
}
