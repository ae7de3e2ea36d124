//! A cluster whose nodes use TLS for clients and for each other.

use std::path::Path;

use leasehold_core::{Fault, HoldAnswer, Store, WaitMode};
use leasehold_redis::ClusterStore;
use servers::{Authority, Cluster, Flavor, Reply, TlsFiles};

use crate::world::{attempt, cluster_store, granted, lasting};

/// All nodes show the same certificate. Debian's build of 7.0 is the only one here that has TLS.
fn cluster(files: &TlsFiles, authority: &Authority, announced: Option<&str>) -> Cluster {
    Cluster::start_with(Flavor::Redis70, 3, 0, |setup| {
        let setup = setup.tls(files.clone()).arg("tls-cluster", "yes").arg("tls-replication", "yes");
        // The nodes are clients of each other.
        let setup = setup.arg("tls-ca-cert-file", &authority.pem.display().to_string());
        match announced {
            Some(host) => setup
                .arg("cluster-announce-hostname", host)
                .arg("cluster-preferred-endpoint-type", "hostname"),
            None => setup,
        }
    })
}

/// The URL names one node, so that the others are known from it alone.
fn store(cluster: &Cluster, ca: &Path) -> ClusterStore {
    let (port, ca) = (cluster.nodes()[0].port(), ca.display());
    cluster_store(&format!("rediss+cluster://127.0.0.1:{port}?ca={ca}"))
}

async fn take_and_release(store: &ClusterStore, name: &str) -> Result<(), Fault> {
    let ours = attempt(&[name]);
    granted(store.grant(&ours, WaitMode::Try).await);
    assert_eq!(store.renew(std::slice::from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
    store.release(&ours).await.map(drop)
}

#[tokio::test]
async fn every_node_is_spoken_to_by_tls_and_must_show_its_name() {
    let (authority, other) = (Authority::new("right"), Authority::new("other"));
    let files = authority.certify("127.0.0.1");
    let cluster = cluster(&files, &authority, None);
    let ours = store(&cluster, &authority.pem);
    ours.open().await.unwrap();
    for n in 0..12 {
        take_and_release(&ours, &format!("k{n}")).await.unwrap();
    }
    for node in cluster.nodes() {
        assert!(matches!(node.text(&["DBSIZE"]), Reply::Integer(1..)), "{} has nothing", node.port());
    }

    lasting(store(&cluster, &other.pem).open().await, &["authority", "not trusted"]);
    // Plain connections are refused: the port accepts only TLS.
    let plainly = format!("redis+cluster://127.0.0.1:{}", cluster.nodes()[0].port());
    let plainly = cluster_store(&plainly);
    assert!(plainly.open().await.is_err());
}

/// The certificate of the node in the URL is checked for the name in the URL, and those of the
/// other nodes for the names that it announces.
#[tokio::test]
async fn a_node_that_is_named_by_another_is_checked_by_that_name() {
    let authority = Authority::new("right");
    let files = authority.certify("127.0.0.1");
    let cluster = cluster(&files, &authority, Some("localhost"));
    let fault = store(&cluster, &authority.pem).open().await;
    lasting(fault, &["certificate", "localhost"]);
}
