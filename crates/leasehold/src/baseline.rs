//! The baseline that locks are measured against.

use leasehold_core::{Baseline, Holder, Ttl};

use crate::error::InspectError;
use crate::locks::Locks;

/// How long the name stays taken if a pair is interrupted between its two calls.
const TTL: Ttl = Ttl::DEFAULT;

impl Locks {
    /// Measures the baseline of a round trip: one request to the store that concerns no lock, on
    /// the connection that these locks use. On a server it is a `PING`, in a file a transaction
    /// that reads one row, and in a quorum the same at a majority of its members. `leasehold bench`
    /// compares locks with it.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses. In this process's memory there is
    /// nothing to ask.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn baseline_round_trip(&self) -> Result<(), InspectError> {
        self.run_baseline(&Baseline::RoundTrip).await
    }

    /// Takes a name and gives it back as the simplest lock library does, without a fence, a queue
    /// or renewal: on a server `SET NX PX` and a compare-and-delete; in a file two transactions
    /// that each write a row; in a quorum both at all members at once, which counts if a majority
    /// takes the name.
    ///
    /// This is not a lock: it only shows what a lock costs in comparison. A holder of the name
    /// makes it fail, and meanwhile it keeps everybody else out.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, if somebody else has the name, or
    /// if the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// A dropped future may leave the name taken for 30 s.
    pub async fn baseline_pair(&self, name: impl AsRef<[u8]>) -> Result<(), InspectError> {
        let key = self.key(name.as_ref())?;
        let handle = self.handle();
        let ttl = handle.store.limits().longest_ttl.map_or(TTL, |longest| longest.min(TTL));
        let holder = Holder::from_bits(handle.runtime.random());
        self.run_baseline(&Baseline::pair(key, holder, ttl)).await
    }

    async fn run_baseline(&self, what: &Baseline) -> Result<(), InspectError> {
        let done = async { self.handle().store.baseline()?.run_baseline(what).await };
        done.await.map_err(InspectError::Store)
    }
}
