//! The lists of checks of readers and permits, on every store that has them.

use conformance::target::Target;
use fred::types::RespVersion;
use servers::Flavor;

use super::every_store::quorum_of_redis;

mod readers {
    use super::*;

    conformance::every_check! { of readers:
        memory: Target::memory();
        quorum_of_memory: Target::quorum_of_memory();
        quorum_of_redis: quorum_of_redis();
        file: Target::file();
        redis_5_0: Target::redis(Flavor::Redis50, "resp2");
        redis_6_2: Target::redis(Flavor::Redis62, "resp2");
        redis_7_0: Target::redis(Flavor::Redis70, "resp3");
        redis_8_2: Target::redis(Flavor::Redis82, "resp2");
        valkey_9_1: Target::redis(Flavor::Valkey91, "resp3");
        fred_on_7_0: Target::lent_by_fred(Flavor::Redis70, RespVersion::RESP2);
    }
}

mod permits {
    use super::*;

    conformance::every_check! { of permits:
        memory: Target::memory();
        file: Target::file();
        redis_5_0: Target::redis(Flavor::Redis50, "resp2");
        redis_6_2: Target::redis(Flavor::Redis62, "resp2");
        redis_7_0: Target::redis(Flavor::Redis70, "resp3");
        redis_8_2: Target::redis(Flavor::Redis82, "resp2");
        valkey_9_1: Target::redis(Flavor::Valkey91, "resp3");
        fred_on_7_0: Target::lent_by_fred(Flavor::Redis70, RespVersion::RESP2);
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
