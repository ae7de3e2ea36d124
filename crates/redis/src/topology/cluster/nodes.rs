//! The nodes, of which the URL names the first: each has a client, which is created when it is first
//! needed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::{Attempt, Fault, FaultKind, Misuse, Notices, Ttl};

use super::{Cluster, Known};
use crate::address::access::Access;
use crate::address::server::ServerAddr;
use crate::address::text::refuse;
use crate::address::{Address, Site};
use crate::client::{Client, Source};
use crate::connection::push_health::PushHealth;
use crate::redirect::Node;
use crate::topology::{Place, Topology};

/// How long nodes are asked last that may be cut off from the others.
const DOUBTED_FOR: Duration = Duration::from_secs(5);

/// The first nodes to ask, and the credentials for every node.
#[derive(Debug)]
pub(crate) struct Seeds {
    pub(crate) nodes: Vec<Node>,
    pub(crate) access: Access,
}

impl Seeds {
    pub(crate) fn of(address: Address) -> Result<Self, Misuse> {
        let Site::Cluster(places) = address.site else {
            return refuse("the store URL names no cluster: use redis+cluster:// or rediss+cluster://");
        };
        if address.access.db != 0 {
            return refuse("locks on a cluster are in its database 0: leave the number out of the store URL");
        }
        let node = |place| match place {
            ServerAddr::Tcp { host, port } => Some(Node { host, port }),
            ServerAddr::Unix { .. } => None,
        };
        let nodes = places.into_iter().filter_map(node).collect();
        Ok(Self { nodes, access: address.access })
    }

    /// All nodes that may be asked: the known owners of slots, and the nodes in the URL.
    pub(crate) fn and(&self, masters: BTreeSet<Node>) -> Vec<Node> {
        let named: Vec<_> = self.nodes.iter().filter(|node| !masters.contains(node)).cloned().collect();
        masters.into_iter().chain(named).collect()
    }
}

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

    /// Checks whether a node abstains, and if so starts the quarantine of its other slots.
    pub(super) fn note_abstention<T>(&self, asked: &Node, attempt: &Attempt, answer: &Result<T, Fault>) {
        let Some(proposal) = attempt.proposal else { return };
        if matches!(answer, Err(fault) if fault.kind == FaultKind::Quarantined) {
            self.vouch_later(asked, proposal.max_ttl);
        }
    }

    /// Starts the quarantine of all slots of a node, which may have forgotten leases of a quorum.
    ///
    /// The run of the node that owns a slot vouches for it, in a key in that slot. So a node that
    /// was restarted, one that replaced its master, and one to which a slot moved all abstain for
    /// slots that they were not asked for before. Alone, they would do so slot by slot, each at its
    /// first request; this makes them ready together.
    ///
    /// In the background, and once for as long as a node abstains: a quarantine that starts now
    /// ends before the next one is started.
    fn vouch_later(&self, node: &Node, longest: Ttl) {
        let now = self.runtime.now();
        let slots = {
            let mut known = self.known();
            let begun = known.vouched.get(node);
            if begun.is_some_and(|begun| now < *begun + longest.duration()) {
                return;
            }
            known.vouched.insert(node.clone(), now);
            known.map.slots_of(node)
        };
        let client = self.client(node);
        self.runtime.spawn(Box::pin(async move {
            // A slot that was not reached now starts its quarantine at its first request; that
            // takes longer, and nothing else.
            let _ = client.vouch(&slots, longest).await;
        }));
    }

    /// The smallest run of its known nodes: two URLs of one cluster soon know the same nodes.
    pub(super) fn identity(&self) -> Option<Arc<str>> {
        self.known().clients.values().filter_map(|client| client.identity()).min()
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

#[cfg(test)]
mod tests {
    use leasehold_credentials::Secret;

    use super::*;

    fn seeds(url: &str) -> Result<Seeds, Misuse> {
        Seeds::of(Address::parse(url)?)
    }

    fn node(host: &str, port: u16) -> Node {
        Node { host: host.into(), port }
    }

    #[test]
    fn nodes_are_named_with_one_login_for_all_and_the_name_leaves_out_the_password() {
        let url = "redis+cluster://app:s%40cret,7@a,b:7001,[::1]:7002?protocol=resp2&call-limit=250ms";
        let read = seeds(url).unwrap();
        assert_eq!(read.nodes, [node("a", 6379), node("b", 7001), node("::1", 7002)]);
        assert_eq!(Address::parse(url).unwrap().name, "redis+cluster://app@a,b:7001,[::1]:7002");
        assert!(matches!(read.access.password.unwrap(), Secret::Text(password) if password.0 == "s@cret,7"));
    }

    #[test]
    fn a_url_of_no_cluster_or_with_a_database_is_refused_without_the_password() {
        for url in
            ["redis://u:s3cret@a", "redis+cluster://u:s3cret@a,b/1", "redis+cluster://u:s3cret@a,b?db=1"]
        {
            let error = seeds(url).expect_err(url).to_string();
            assert!(!error.contains("s3c"), "{url}: {error}");
            assert!(error.contains(':') && !error.contains('\n') && !error.ends_with('.'), "{url}: {error}");
        }
    }
}
