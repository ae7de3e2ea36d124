//! The targets for Leasehold compared with the other libraries.

use bench::targets::{Bound, Target, timed};

/// All targets; those of one case precede those of all others.
pub const TARGETS: [Target; 4] = [
    timed("uncontended", "leasehold ÷ rslock", Some("1 task"), Bound::AtLeast(0.88), ALONE),
    timed("uncontended", "leasehold ÷ rslock", Some("16 tasks"), Bound::AtLeast(1.1), AHEAD),
    timed("uncontended", "leasehold ÷ rslock", None, Bound::AtLeast(1.3), AHEAD),
    timed("hand_off", "gap p50 ÷ that of the best peer", None, Bound::AtMost(1.0), BEST),
];

const ALONE: &str = "a fence and a queue may cost a tenth of the round trip";
const AHEAD: &str = "the fastest known library in Rust, which has neither fences nor a queue";
const BEST: &str = "a waiter is notified, and does not ask again";
