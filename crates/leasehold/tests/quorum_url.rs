//! A quorum that is named by one string. Its members are files, which only Unix has.
#![cfg(unix)]

use std::time::Duration;

use leasehold::{ConnectError, LockError, Locks, Misuse};

#[tokio::test]
async fn a_quorum_is_connected_to_by_one_string() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| format!("file:{}/{name}.db", directory.path().display());
    let url = format!("quorum:max-ttl=40s, {},{}, {}", file("a"), file("b"), file("c"));
    let locks = Locks::connect(&url).await.unwrap();
    assert!(locks.store().starts_with("quorum of file:"), "{}", locks.store());
    // Its members have never been used, so that they abstain for the longest ttl and a second.
    let refused = locks.mutex("k").try_lock().await.unwrap_err();
    assert!(matches!(refused, LockError::NoQuorum { .. }), "{refused}");
    assert!(refused.to_string().contains(" 41"), "{refused}");
}

#[tokio::test]
async fn a_url_of_a_quorum_that_cannot_be_is_refused_before_anything_is_opened() {
    let refused = async |url: &str| match Locks::connect(url).await.unwrap_err() {
        ConnectError::Misuse(misuse) => misuse,
        other => panic!("{url}: {other}"),
    };
    assert_eq!(refused("quorum:").await, Misuse::NoMembers);
    assert!(matches!(refused("quorum:memory:,memory:").await, Misuse::SameMemberTwice { .. }));
    assert!(matches!(refused("quorum:file:/a,quorum:file:/b").await, Misuse::NoMember { .. }));
    assert!(matches!(refused("quorum:file:/a,etcd://b").await, Misuse::Url { .. }));
    assert!(matches!(refused("quorum:max-ttl=1s,file:/a").await, Misuse::MaxTtlTooShort { .. }));
    let short = refused("quorum:max-ttl=20s,file:/a").await;
    assert!(matches!(short, Misuse::TtlOverLongest { .. }), "{short}");
    let locks = Locks::builder().ttl(Duration::from_secs(20)).unopened("quorum:max-ttl=20s,file:/a");
    assert_eq!(locks.unwrap().store(), "quorum of file:/a");
}
