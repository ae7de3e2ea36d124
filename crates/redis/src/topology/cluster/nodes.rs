//! The nodes, each with a client that is created when it is first needed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::{Fault, Notices};

use super::{Cluster, Known};
use crate::address::server::ServerAddr;
use crate::client::{Client, Source};
use crate::connection::push_health::PushHealth;
use crate::redirect::Node;
use crate::topology::{Place, Topology};

/// How long nodes are asked last that may be cut off from the others.
const DOUBTED_FOR: Duration = Duration::from_secs(5);

impl Cluster {
    pub(super) fn client(&self, node: &Node) -> Arc<Client> {
        let mut known = self.known();
        let made = known.clients.entry(node.clone()).or_insert_with(|| {
            let faults = self.faults.at(&node.to_string());
            let place = ServerAddr::Tcp { host: node.host.clone(), port: node.port };
            let access = self.seeds.access.clone();
            let (shared, runtime) = (self.shared.clone(), Arc::clone(&self.runtime));
            let topology = Topology::new(Place::Single(place), access, faults.clone(), Arc::clone(&runtime));
            let client = Client::over(topology, faults, self.bounds, shared, runtime);
            if self.hears_of_breaks.load(Ordering::SeqCst) {
                client.hear_of_breaks();
            }
            client
        });
        Arc::clone(made)
    }

    /// The nodes to ask for the owners of slots: those with a connection first, because a node that
    /// cannot be reached has none; then the known owners, because a node of the URL may have joined
    /// another cluster; and last those that may be cut off from the others.
    pub(super) fn to_ask(&self) -> Vec<Node> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let now = self.runtime.now();
        let mut known = self.known();
        known.doubted.retain(|_, since| now < *since + DOUBTED_FOR);
        let masters = known.map.masters();
        let mut nodes = self.seeds.and(masters.clone());
        let begin = turn % nodes.len().max(1);
        nodes.rotate_left(begin);
        nodes.sort_by_key(|node| {
            let is_up = known.clients.get(node).is_some_and(|client| client.is_up());
            (known.doubted.contains_key(node), !is_up, !masters.contains(node))
        });
        nodes
    }

    /// Notes that a slot has no owner, or that this owner accepts no requests. The owner may be cut off
    /// from the other nodes, and so may the node that named it: it still answers, with the owners that it
    /// knew.
    pub(super) fn doubt(&self, owner: Option<&Node>) {
        let now = self.runtime.now();
        let mut known = self.known();
        let doubted: Vec<_> = known.named_by.iter().chain(owner).map(|node| (node.clone(), now)).collect();
        known.doubted.extend(doubted);
    }

    /// Makes all connections subscribe to notices for holders from now on.
    pub(super) fn hear_of_breaks(&self) {
        if !self.hears_of_breaks.swap(true, Ordering::SeqCst) {
            self.known().clients.values().for_each(|client| client.hear_of_breaks());
        }
    }

    /// Notices for holders and of the nodes' push: its current state, and all changes from now on.
    pub(super) fn notices(&self) -> Box<dyn Notices> {
        let known = self.known();
        let healths = known.clients.values().filter_map(|client| client.push_health());
        PushHealth::read(healths, &self.shared.notice_bus)
    }

    /// Why this process cannot be notified by some node, if so.
    pub(super) fn push_unavailable(&self) -> Option<Fault> {
        self.known().clients.values().find_map(|client| client.push_unavailable())
    }
}

impl Known {
    /// Removes nodes that own no slots any more.
    pub(super) fn prune(&mut self) {
        let masters = self.map.masters();
        let gone = self.clients.extract_if(|node, _| !masters.contains(node));
        for (_, client) in gone {
            // Nobody waits there any more.
            client.push_health().into_iter().for_each(|health| health.retire(&client.faults.store));
        }
        self.vouched.retain(|node, _| masters.contains(node));
    }
}

impl Client {
    fn is_up(&self) -> bool {
        match &self.source {
            Source::Ours(link) => link.up().is_some(),
            Source::Lent { .. } => false,
        }
    }
}
