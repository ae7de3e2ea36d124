//! The baseline: the least that acquiring and releasing can cost, for benchmarks.

use crate::{Holder, Key, Ttl};

/// A request without a queue, a fence or a quarantine, on the path of all other requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Baseline {
    /// The smallest possible request, which touches no key.
    RoundTrip,
    /// A key is taken if it is free, and deleted after a comparison, as the simplest lock library
    /// does. Nothing is left; if the pair is interrupted, the key expires with its TTL. Meanwhile
    /// it excludes everybody else.
    #[non_exhaustive]
    Pair {
        /// The key.
        key: Key,
        /// The id for the comparison: fresh for each pair.
        holder: Holder,
        /// When it expires if nobody deletes it.
        ttl: Ttl,
    },
}

impl Baseline {
    /// A pair.
    #[must_use]
    pub const fn pair(key: Key, holder: Holder, ttl: Ttl) -> Self {
        Self::Pair { key, holder, ttl }
    }
}
