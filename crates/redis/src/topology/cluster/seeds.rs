//! The nodes in the URL of a cluster, which are asked first.

use std::collections::BTreeSet;

use leasehold_core::Misuse;

use crate::address::access::Access;
use crate::address::server::ServerAddr;
use crate::address::text::refuse;
use crate::address::{Address, Site};
use crate::redirect::Node;

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

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_credentials::Secret;

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
