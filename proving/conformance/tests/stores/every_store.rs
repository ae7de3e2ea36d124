//! The list of checks, in full, on every store.

use conformance::target::Target;
use fred::types::RespVersion;
use servers::Flavor;

pub(crate) fn quorum_of_redis() -> Target {
    Target::quorum_of_redis([Flavor::Redis70, Flavor::Redis82, Flavor::Valkey91])
}

conformance::every_check! { of all:
    memory: Target::memory();
    quorum_of_memory: Target::quorum_of_memory();
    quorum_of_redis: quorum_of_redis();
    file: Target::file();
    redis_5_0: Target::redis(Flavor::Redis50, "resp2");
    redis_6_2: Target::redis(Flavor::Redis62, "resp2");
    redis_7_0: Target::redis(Flavor::Redis70, "resp3");
    redis_8_2: Target::redis(Flavor::Redis82, "resp2");
    cluster_5_0: Target::cluster(Flavor::Redis50, "resp2");
    cluster_6_2: Target::cluster(Flavor::Redis62, "resp2");
    cluster_7_0: Target::cluster(Flavor::Redis70, "resp3");
    cluster_9_1: Target::cluster(Flavor::Valkey91, "resp3");
    valkey_9_1: Target::redis(Flavor::Valkey91, "resp3");
    fred_on_7_0: Target::lent_by_fred(Flavor::Redis70, RespVersion::RESP2);
    fred_on_9_1: Target::lent_by_fred(Flavor::Valkey91, RespVersion::RESP3);
}

/// In RESP2, only a process that waits has a connection for push messages.
mod told_after_waiting {
    use super::*;

    conformance::every_check! {
        @ Target::redis(Flavor::Redis62, "resp2");
        a_holder_that_waited_is_notified_at_once_that_its_lease_was_broken,
    }

    mod on_a_cluster {
        use super::*;

        conformance::every_check! {
            @ Target::cluster(Flavor::Redis62, "resp2");
            a_holder_that_waited_is_notified_at_once_that_its_lease_was_broken,
        }
    }
}

mod transferred {
    use super::*;

    conformance::every_check! { of transfers:
        memory: Target::memory();
        quorum_of_memory: Target::quorum_of_memory();
        quorum_of_redis: quorum_of_redis();
        file: Target::file();
        redis_5_0: Target::redis(Flavor::Redis50, "resp2");
        redis_6_2: Target::redis(Flavor::Redis62, "resp2");
        redis_7_0: Target::redis(Flavor::Redis70, "resp3");
        valkey_9_1: Target::redis(Flavor::Valkey91, "resp3");
        cluster_7_0: Target::cluster(Flavor::Redis70, "resp3");
    }
}

mod told {
    use super::*;

    conformance::every_check! { of notices:
        memory: Target::memory();
        quorum_of_memory: Target::quorum_of_memory();
        quorum_of_redis: quorum_of_redis();
        file: Target::file();
        redis_7_0: Target::redis(Flavor::Redis70, "resp3");
        cluster_7_0: Target::cluster(Flavor::Redis70, "resp3");
        cluster_9_1: Target::cluster(Flavor::Valkey91, "resp3");
        valkey_9_1: Target::redis(Flavor::Valkey91, "resp3");
    }
}
