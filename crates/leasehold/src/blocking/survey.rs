//! All locks of a place, looked at again and again.

use super::wait;
use crate::{InspectError, Key, Progress, Sighting};

/// What is known of the locks of a place, as [`leasehold::Survey`](crate::Survey): from [`Locks::survey`](super::Locks::survey).
#[derive(Debug)]
pub struct Survey(pub(super) crate::Survey);

impl Survey {
    /// Asks the store for a little more: goes on looking for locks, or looks at those that are known. Blocks until it is time for that,
    /// a second at most, and for the answer.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses. What is known stays so; the next step rests for a second and asks again.
    pub fn step(&mut self) -> Result<(), InspectError> {
        wait(self.0.step())
    }

    /// The locks that are held or waited for, as far as they are found, in the order of their bytes.
    pub fn found(&self) -> impl Iterator<Item = Sighting> + '_ {
        self.0.found()
    }

    /// How far it has come.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.0.progress()
    }

    /// Has this lock looked at before the others.
    pub fn choose(&mut self, key: Option<Key>) {
        self.0.choose(key);
    }

    /// Has this lock looked at next, whatever is known of it: something was done to it.
    pub fn look_again(&mut self, key: Key) {
        self.0.look_again(key);
    }
}
