//! The checks of a member of a quorum, on every store that can be one.

use conformance::target::Target;
use servers::Flavor;

conformance::every_check! { of members:
    memory: Target::memory();
    file: Target::file();
    redis_5_0: Target::redis(Flavor::Redis50, "resp2");
    redis_6_2: Target::redis(Flavor::Redis62, "resp2");
    redis_7_0: Target::redis(Flavor::Redis70, "resp3");
    redis_8_2: Target::redis(Flavor::Redis82, "resp2");
    valkey_9_1: Target::redis(Flavor::Valkey91, "resp3");
}
