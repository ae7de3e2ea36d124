//! From the URL of a cluster to the nodes that are asked first.

use std::collections::BTreeSet;

use leasehold_core::Misuse;

use super::redirect::Node;
use crate::address::{Address, Place, refuse};

/// Where to begin, and how to speak with every node.
#[derive(Debug)]
pub(crate) struct Seeds {
    /// The URL without password and without parameters that say how to speak and not with whom.
    pub(crate) name: String,
    pub(crate) nodes: Vec<Node>,
    /// That of some node: all have the same users, and differ only in their places.
    pub(crate) address: Address,
}

impl Seeds {
    /// Reads `redis+cluster://[user[:password]@]host[:port][,host[:port]]…`, or the same with `rediss+cluster:`. As with one server,
    /// nothing of it is ever repeated in an error.
    pub(crate) fn parse(text: &str) -> Result<Self, Misuse> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let Some(alone) = scheme.strip_suffix("+cluster").filter(|alone| ["redis", "rediss"].contains(alone))
        else {
            return refuse("the store URL names no cluster: use redis+cluster:// or rediss+cluster://");
        };
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (format!("{login}@"), hosts),
            None => (String::new(), authority),
        };
        let addresses: Vec<_> = hosts
            .split(',')
            .map(|host| Address::parse(&format!("{alone}://{login}{host}{tail}")))
            .collect::<Result<_, _>>()?;
        let mut nodes = Vec::new();
        let mut shown = Vec::new();
        for address in &addresses {
            let (Place::Tcp { host, port } | Place::Tls { host, port, .. }) = &address.place else {
                unreachable!("neither scheme names a socket")
            };
            let node = Node { host: host.clone(), port: *port };
            if nodes.contains(&node) {
                continue;
            }
            nodes.push(node);
            let (_, place) = address.name.split_once("://").unwrap_or_default();
            shown.push(place.rsplit_once('@').map_or(place, |(_, host)| host));
        }
        let Some(address) = addresses.first() else { return refuse("the store URL names no host") };
        if address.db != 0 {
            return refuse("a cluster has no database but 0: leave the number out of the store URL");
        }
        if !address.quarantine {
            return refuse(
                "quarantine is for members of a quorum, which a cluster cannot be: leave it out of the store URL",
            );
        }
        let user = address.user.as_ref().map(|user| format!("{}@", user.escape_debug())).unwrap_or_default();
        let name = format!("{scheme}://{user}{}", shown.join(","));
        Ok(Self { name, nodes, address: address.clone() })
    }

    /// How to reach a node that was learnt of. Whoever trusts an authority for one trusts it for all.
    pub(crate) fn address(&self, node: &Node) -> Address {
        let Node { host, port } = node.clone();
        let place = match &self.address.place {
            Place::Tls { authority, .. } => Place::Tls { host, port, authority: authority.clone() },
            _ => Place::Tcp { host, port },
        };
        Address { place, name: node.to_string(), ..self.address.clone() }
    }

    /// All nodes that there are to ask: those that are known to own slots, and those named in the URL.
    pub(crate) fn and(&self, masters: BTreeSet<Node>) -> Vec<Node> {
        let named: Vec<_> = self.nodes.iter().filter(|node| !masters.contains(node)).cloned().collect();
        masters.into_iter().chain(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeds(url: &str) -> Seeds {
        Seeds::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    fn node(host: &str, port: u16) -> Node {
        Node { host: host.into(), port }
    }

    #[test]
    fn nodes_are_named_with_one_login_for_all_and_the_name_leaves_out_the_password() {
        let read =
            seeds("redis+cluster://app:s%40cret,7@a,b:7001,[::1]:7002?protocol=resp2&call-limit=250ms");
        assert_eq!(read.nodes, [node("a", 6379), node("b", 7001), node("::1", 7002)]);
        assert_eq!(read.name, "redis+cluster://app@a,b:7001,[::1]:7002");
        let address = read.address(&node("c", 7003));
        assert_eq!(address.place, Place::Tcp { host: "c".into(), port: 7003 });
        assert_eq!(address.password.unwrap().0, "s@cret,7");
        assert_eq!(seeds("redis+cluster://a,a:6379,a").name, "redis+cluster://a");
    }

    #[test]
    #[cfg(feature = "tls")]
    fn every_node_speaks_tls_if_the_first_does() {
        let read = seeds("rediss+cluster://a,b?ca=/ca.pem");
        let authority = Some("/ca.pem".into());
        assert_eq!(read.address(&node("c", 1)).place, Place::Tls { host: "c".into(), port: 1, authority });
        assert_eq!(read.name, "rediss+cluster://a,b");
    }

    #[test]
    fn a_wrong_url_says_what_is_wrong_and_never_the_password() {
        for url in [
            "redis+cluster:u:s3cret@h",
            "redis+unix+cluster://u:s3cret@h",
            "redis+cluster://",
            "redis+cluster://u:s3cret@",
            "redis+cluster://u:s3cret@a,",
            "redis+cluster://u:s3cret@,a",
            "redis+cluster://u:s3cret@a,b:x",
            "redis+cluster://u:s3cret@a,b:0",
            "redis+cluster://a,u:s3cret@b@c,d e",
            "redis+cluster://u:12/s3cret@a,b",
            "redis+cluster://u:12#s3cret@a,b",
            "redis+cluster://u:s3cret@a,b/1",
            "redis+cluster://u:s3cret@a,b?db=1",
            "redis+cluster://u:s3cret@a,b?quarantine=no",
            "redis+cluster://u:s3cret@a,b?password=x",
            "redis+cluster://u:s3cret@a,b?s3cret=x",
        ] {
            let error = Seeds::parse(url).expect_err(url).to_string();
            assert!(!error.contains("s3c"), "{url}: {error}");
            assert!(error.contains(':') && !error.contains('\n') && !error.ends_with('.'), "{url}: {error}");
        }
    }
}
