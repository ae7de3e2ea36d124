//! The list of checks, in full, on every store.

use conformance::target::Target;
use servers::Flavor;

conformance::every_check! {
    memory: super::Target::memory();
    quorum_of_memory: super::Target::quorum_of_memory();
    quorum_of_redis: super::Target::quorum_of_redis(
        [super::Flavor::Redis70, super::Flavor::Redis82, super::Flavor::Valkey91],
    );
    file: super::Target::file();
    redis_6_2: super::Target::redis(super::Flavor::Redis62, "resp2");
    redis_7_0: super::Target::redis(super::Flavor::Redis70, "resp3");
    redis_8_2: super::Target::redis(super::Flavor::Redis82, "resp2");
    cluster_6_2: super::Target::cluster(super::Flavor::Redis62, "resp2");
    cluster_7_0: super::Target::cluster(super::Flavor::Redis70, "resp3");
    cluster_9_1: super::Target::cluster(super::Flavor::Valkey91, "resp3");
    valkey_9_1: super::Target::redis(super::Flavor::Valkey91, "resp3");
    fred_on_7_0: super::Target::lent_by_fred(super::Flavor::Redis70, fred::types::RespVersion::RESP2);
    fred_on_9_1: super::Target::lent_by_fred(super::Flavor::Valkey91, fred::types::RespVersion::RESP3);
}

/// In RESP2, only a process that waits has a connection for push messages.
mod told_after_waiting {
    use conformance::target::Target;
    use servers::Flavor;

    conformance::every_check! {
        @ Target::redis(Flavor::Redis62, "resp2");
        a_holder_that_waited_is_notified_at_once_that_its_lease_was_broken,
    }

    mod on_a_cluster {
        use super::{Flavor, Target};

        conformance::every_check! {
            @ Target::cluster(Flavor::Redis62, "resp2");
            a_holder_that_waited_is_notified_at_once_that_its_lease_was_broken,
        }
    }
}

mod transferred {
    use conformance::target::Target;
    use servers::Flavor;

    conformance::every_check_of_transfers! {
        memory: super::Target::memory();
        quorum_of_memory: super::Target::quorum_of_memory();
        quorum_of_redis: super::Target::quorum_of_redis(
            [super::Flavor::Redis70, super::Flavor::Redis82, super::Flavor::Valkey91],
        );
        file: super::Target::file();
        redis_6_2: super::Target::redis(super::Flavor::Redis62, "resp2");
        redis_7_0: super::Target::redis(super::Flavor::Redis70, "resp3");
        valkey_9_1: super::Target::redis(super::Flavor::Valkey91, "resp3");
        cluster_7_0: super::Target::cluster(super::Flavor::Redis70, "resp3");
    }
}

mod told {
    use conformance::target::Target;
    use servers::Flavor;

    conformance::every_check_of_notices! {
        memory: super::Target::memory();
        quorum_of_memory: super::Target::quorum_of_memory();
        quorum_of_redis: super::Target::quorum_of_redis(
            [super::Flavor::Redis70, super::Flavor::Redis82, super::Flavor::Valkey91],
        );
        file: super::Target::file();
        redis_7_0: super::Target::redis(super::Flavor::Redis70, "resp3");
        cluster_7_0: super::Target::cluster(super::Flavor::Redis70, "resp3");
        cluster_9_1: super::Target::cluster(super::Flavor::Valkey91, "resp3");
        valkey_9_1: super::Target::redis(super::Flavor::Valkey91, "resp3");
    }
}
