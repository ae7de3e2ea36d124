//! Leader election among several candidates.

use std::time::Duration;

use super::acquire::Acquire;
use super::wait;
use crate::{HolderInfo, InspectError, Waiter};

/// A leadership that one candidate has at a time, as [`leasehold::Election`](crate::Election).
///
/// ```
/// use leasehold::blocking::Locks;
///
/// let election = Locks::in_memory()?.election("scheduler");
/// let leadership = election.candidate("a").stand().wait()?;
/// assert!(election.leader()?.is_some());
/// leadership.release()?; // resigns
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a description does nothing: call candidate() or leader()"]
pub struct Election(pub(super) crate::Election);

impl Election {
    /// Sets the TTL: how long it takes to replace a leader that died. A live leader renews its
    /// lease for as long as it leads.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// A candidate under a name that the others can see: printable text of up to 256 bytes.
    pub fn candidate(&self, name: &str) -> Candidate {
        Candidate(self.0.candidate(name))
    }

    /// The current leader; `None` while there is none.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    pub fn leader(&self) -> Result<Option<HolderInfo>, InspectError> {
        wait(self.0.leader())
    }

    /// The waiting candidates, in the order in which they would lead. The leader is not among them.
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader).
    pub fn candidates(&self) -> Result<Vec<Waiter>, InspectError> {
        wait(self.0.candidates())
    }

    /// The current leader, and then each next one, for those that follow a leader and are not
    /// candidates.
    pub fn leaders(&self) -> Leaders {
        Leaders(self.0.leaders())
    }
}

/// A candidate in an election.
#[derive(Clone, Debug)]
#[must_use = "a candidate does nothing until it stands"]
pub struct Candidate(crate::Candidate);

impl Candidate {
    /// The request to be elected. Its guard is the leadership: releasing it is resigning, and the
    /// guard says when its holder must stop leading.
    pub fn stand(&self) -> Acquire {
        Acquire::new(self.0.stand())
    }
}

/// The leaders, one after the other. From [`Election::leaders`].
#[derive(Debug)]
pub struct Leaders(crate::Leaders);

impl Leaders {
    /// Blocks until the leader differs from the last one returned; `None` if there is no leader any
    /// more. The first call returns the current leader at once. The store is asked once a second.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store refuses, or did not answer within the outage limit. The next
    /// call asks again.
    pub fn wait_next(&mut self) -> Result<Option<HolderInfo>, InspectError> {
        wait(self.0.next())
    }
}
