//! One leader among several candidates.

use std::time::Duration;

use super::acquire::Acquire;
use super::wait;
use crate::{HolderInfo, InspectError, Waiter};

/// A leadership that one of several candidates has at a time, as [`leasehold::Election`](crate::Election).
#[derive(Clone, Debug)]
#[must_use = "a description does nothing: call candidate() or leader()"]
pub struct Election(pub(super) crate::Election);

impl Election {
    /// How long a leader that died is missed. A leader that lives renews its lease, however long it leads.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self(self.0.ttl(ttl))
    }

    /// Somebody who stands for it, under a name that the others can see: printable text of up to 256 bytes.
    pub fn candidate(&self, name: &str) -> Candidate {
        Candidate(self.0.candidate(name))
    }

    /// Who leads; `None` while nobody does.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses, or the name cannot be a key.
    pub fn leader(&self) -> Result<Option<HolderInfo>, InspectError> {
        wait(self.0.leader())
    }

    /// Who would lead next, in order. The leader is not among them.
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader).
    pub fn candidates(&self) -> Result<Vec<Waiter>, InspectError> {
        wait(self.0.candidates())
    }

    /// Who leads, and from then on whoever leads next: for those who follow and do not stand.
    pub const fn leaders(&self) -> Leaders<'_> {
        Leaders(self.0.leaders())
    }
}

/// Somebody who stands for election.
#[derive(Clone, Debug)]
#[must_use = "a candidate does nothing until it stands"]
pub struct Candidate(crate::Candidate);

impl Candidate {
    /// The request to be elected. Its guard is the leadership: releasing it is resigning, and it says when it must stop to lead.
    pub fn stand(&self) -> Acquire {
        Acquire(self.0.stand())
    }
}

/// Who leads, one after the other. From [`Election::leaders`].
#[derive(Debug)]
pub struct Leaders<'a>(crate::Leaders<'a>);

impl Leaders<'_> {
    /// Blocks until somebody else leads than was told last; `None` when nobody does any more. The first call tells who leads now, at
    /// once. It asks once a second.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store refuses, or did not answer within the outage limit. The next call asks again.
    pub fn wait_next(&mut self) -> Result<Option<HolderInfo>, InspectError> {
        wait(self.0.next())
    }
}
