//! What taking and letting go costs at the least, for whoever measures what a lock costs beside it.

use crate::{Holder, Key, Ttl};

/// What a store does without a line, a fence or a quarantine, on the way by which it serves everything else.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bare {
    /// The least that it can be asked, which touches no key.
    Trip,
    /// A key is taken by whoever comes first, and let go by a comparison, as the plainest lock library does it. Nothing is left; if
    /// it is cut off in between, the key ends with its ttl. It keeps everybody else out meanwhile.
    #[non_exhaustive]
    Pair {
        /// The key.
        key: Key,
        /// What it is compared by: fresh for each pair.
        holder: Holder,
        /// When it ends if nobody lets it go.
        ttl: Ttl,
    },
}

impl Bare {
    /// A pair.
    #[must_use]
    pub const fn pair(key: Key, holder: Holder, ttl: Ttl) -> Self {
        Self::Pair { key, holder, ttl }
    }
}
