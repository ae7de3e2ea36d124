//! The targets for Leasehold compared with the other libraries.

use bench::targets::{Bound, Target, timed};

/// All targets; those of one case precede those of all others.
pub const TARGETS: [Target; 3] = [
    timed("uncontended", "leasehold ÷ rslock", Some("1 task"), Bound::AtLeast(0.9), ALONE),
    timed("uncontended", "leasehold ÷ rslock", None, Bound::AtLeast(1.0), AHEAD),
    timed("hand_off", "gap p50 ÷ that of the best peer", None, Bound::AtMost(1.0), BEST),
];

const ALONE: &str = "a fence and a line in a round trip that costs no more than a tenth";
const AHEAD: &str = "the best known of Rust's, which has neither fence nor line";
const BEST: &str = "whoever waits is told, and does not ask again";
