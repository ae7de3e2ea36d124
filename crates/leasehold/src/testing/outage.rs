//! The ways in which a test makes a store unreachable.

use std::time::Duration;

/// The way in which a store is unreachable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outage {
    /// The store does not answer: a partition, or a server that hangs. A call ends in a fault after
    /// half a second of the world's time; if the outage ends before that, the call is served.
    Silent,
    /// The store is slow: it serves each call this much later. A call that takes half a second of
    /// the world's time or longer is not served, and ends in a fault. Waiters are notified as ever.
    Slow {
        /// How much later.
        by: Duration,
    },
    /// The server is down: each call ends in a fault at once, as during a restart.
    Down,
    /// The store serves requests, but its answers are lost: each call ends in a fault after half a
    /// second of the world's time. The caller cannot know whether the request was served.
    AnswersLost,
    /// The store refuses, and will refuse until somebody repairs it: a wrong password, a missing
    /// permission.
    Refused,
}
