//! The checks of a member of a quorum, on every store that can be one.

use conformance::target::Target;
use servers::Flavor;

conformance::every_check_of_a_member! {
    memory: super::Target::memory();
    file: super::Target::file();
    redis_6_2: super::Target::redis(super::Flavor::Redis62, "resp2");
    redis_7_0: super::Target::redis(super::Flavor::Redis70, "resp3");
    redis_8_2: super::Target::redis(super::Flavor::Redis82, "resp2");
    valkey_9_1: super::Target::redis(super::Flavor::Valkey91, "resp3");
}
