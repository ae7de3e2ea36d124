//! What locks are measured against.

use leasehold_core::{Bare, Holder, Ttl};

use crate::error::InspectError;
use crate::locks::Locks;

/// What a pair that is cut off in the middle leaves, it leaves for so long.
const TTL: Ttl = Ttl::DEFAULT;

impl Locks {
    /// A question to the store that is about no lock, and its answer: what a round trip to it costs, on the connection that these locks
    /// use. On a server it is a `PING`, in a file a transaction that reads one row, in a quorum that of more than half of the members.
    /// `leasehold bench` measures locks against it.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses. In this process's memory there is nothing to ask.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn bare_trip(&self) -> Result<(), InspectError> {
        self.bare(&Bare::Trip).await
    }

    /// Takes a name and lets it go as the plainest lock library does, with no fence, no line, no renewal: on a server `SET NX PX` and a
    /// compare-and-delete, in a file two transactions that write a row each, in a quorum both at all members at once, for as long as more
    /// than half of them take. This is no lock: it only shows what a lock costs beside it. Whoever holds the name keeps it out, and it
    /// keeps out everybody else meanwhile.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses, when somebody else has the name, or it cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may leave the name taken for half a minute.
    pub async fn bare_pair(&self, name: impl AsRef<[u8]>) -> Result<(), InspectError> {
        let key = self.key(name.as_ref())?;
        let place = self.place();
        let ttl = place.store.limits().longest_ttl.map_or(TTL, |longest| longest.min(TTL));
        let holder = Holder::from_bits(place.runtime.random());
        self.bare(&Bare::pair(key, holder, ttl)).await
    }

    async fn bare(&self, what: &Bare) -> Result<(), InspectError> {
        let done = async { self.place().store.baseline()?.bare(what).await };
        done.await.map_err(InspectError::Store)
    }
}
