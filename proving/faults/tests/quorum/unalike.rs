//! Users whose lists of members contradict each other or themselves.

use faults::Plan;
use leasehold::{AnyStore, LockError, Locks};
use tokio::time::Instant;

use crate::scene::{SECOND, servers};

fn quorum(urls: &[String]) -> Locks {
    let stores: Result<Vec<_>, _> = urls.iter().map(|url| AnyStore::from_url(url)).collect();
    Locks::builder().ttl(2 * SECOND).quorum(stores.unwrap(), Plan::MAX_TTL).unwrap()
}

/// Two names look like two servers; the run id that the server reports shows that they are one.
#[tokio::test]
async fn one_server_under_two_names_is_refused_before_anything_is_granted() {
    let servers = servers(2);
    let port = servers[0].port();
    let urls = [servers[0].url(), format!("redis://localhost:{port}"), servers[1].url()];
    let locks = quorum(&urls);
    let begun = Instant::now();
    let error = loop {
        match locks.mutex("k").lock().within(SECOND).await {
            Err(error @ LockError::Refused { .. }) => break error,
            Err(_) if begun.elapsed() < 5 * SECOND => {}
            other => panic!("{other:?}"),
        }
    };
    let words = format!("localhost:{port} are one server and would be counted twice: name it once");
    assert!(error.to_string().contains(&words), "{error}");
}
