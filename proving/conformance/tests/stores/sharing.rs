//! The lists of checks of readers and permits, on every store that has them.

use conformance::target::Target;
use servers::Flavor;

mod readers {
    use super::{Flavor, Target};

    conformance::every_check_of_readers! {
        memory: super::Target::memory();
        quorum_of_memory: super::Target::quorum_of_memory();
        quorum_of_redis: super::Target::quorum_of_redis(
            [super::Flavor::Redis70, super::Flavor::Redis82, super::Flavor::Valkey91],
        );
        file: super::Target::file();
        redis_6_2: super::Target::redis(super::Flavor::Redis62, "resp2");
        redis_7_0: super::Target::redis(super::Flavor::Redis70, "resp3");
        redis_8_2: super::Target::redis(super::Flavor::Redis82, "resp2");
        valkey_9_1: super::Target::redis(super::Flavor::Valkey91, "resp3");
        fred_on_7_0: super::Target::lent_by_fred(super::Flavor::Redis70, fred::types::RespVersion::RESP2);
    }
}

mod permits {
    use super::{Flavor, Target};

    conformance::every_check_of_permits! {
        memory: super::Target::memory();
        file: super::Target::file();
        redis_6_2: super::Target::redis(super::Flavor::Redis62, "resp2");
        redis_7_0: super::Target::redis(super::Flavor::Redis70, "resp3");
        redis_8_2: super::Target::redis(super::Flavor::Redis82, "resp2");
        valkey_9_1: super::Target::redis(super::Flavor::Valkey91, "resp3");
        fred_on_7_0: super::Target::lent_by_fred(super::Flavor::Redis70, fred::types::RespVersion::RESP2);
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
}
