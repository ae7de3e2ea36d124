//! The lists of checks that each store passes.

use conformance::target::Target;
use fred::types::RespVersion;
use servers::Flavor;

fn quorum_of_redis() -> Target {
    Target::quorum_of_redis([Flavor::Redis70, Flavor::Redis82, Flavor::Valkey91])
}

conformance::every_check! {
    memory: Target::memory() => all, readers, permits, transfers, notices, members;
    quorum_of_memory: Target::quorum_of_memory() => all, readers, transfers, notices;
    quorum_of_redis: quorum_of_redis() => all, readers, transfers, notices;
    file: Target::file() => all, readers, permits, transfers, notices, members;
    redis_5_0: Target::redis(Flavor::Redis50, "resp2") => all, readers, permits, transfers, members;
    redis_6_2: Target::redis(Flavor::Redis62, "resp2")
        => all, readers, permits, transfers, notices_after_waiting, members;
    redis_7_0: Target::redis(Flavor::Redis70, "resp3")
        => all, readers, permits, transfers, notices, members;
    redis_8_2: Target::redis(Flavor::Redis82, "resp2") => all, readers, permits, members;
    valkey_9_1: Target::redis(Flavor::Valkey91, "resp3")
        => all, readers, permits, transfers, notices, members;
    cluster_5_0: Target::cluster(Flavor::Redis50, "resp2") => all;
    cluster_6_2: Target::cluster(Flavor::Redis62, "resp2") => all, notices_after_waiting;
    cluster_7_0: Target::cluster(Flavor::Redis70, "resp3") => all, transfers, notices;
    cluster_9_1: Target::cluster(Flavor::Valkey91, "resp3") => all, notices;
    fred_on_7_0: Target::lent_by_fred(Flavor::Redis70, RespVersion::RESP2) => all, readers, permits;
    fred_on_9_1: Target::lent_by_fred(Flavor::Valkey91, RespVersion::RESP3) => all;
}

#[tokio::test]
async fn a_quorum_refuses_permits_by_name_before_it_asks_anybody() {
    let locks = leasehold::Locks::builder().over(Target::quorum_of_memory().store()).unwrap();
    let error = locks.semaphore("k", 2).try_acquire().await.unwrap_err();
    assert!(
        matches!(error, leasehold::LockError::Misuse(leasehold::Misuse::PermitsOfAQuorum { .. })),
        "{error:?}"
    );
    assert!(error.to_string().starts_with("quorum of memory:a, memory:b, memory:c: "), "{error}");
}
