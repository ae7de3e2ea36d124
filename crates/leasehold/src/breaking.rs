//! Ending somebody else's lease.

use std::fmt;

use leasehold_core::{BreakAnswer, BreakNote, Fault, Fence, HolderInfo, Key, Misuse, Owner};

use crate::event::Event;
use crate::locks::Locks;

impl Locks {
    /// Ends the lease on a lock, whoever holds it, if its fence is this; what it was. For a holder that hangs, and an operator who
    /// has looked: [`inspect`](Self::inspect) shows the fence, which no other holding of this lock has ever had. So whatever has
    /// happened since, nothing else is broken.
    ///
    /// The next in line holds at once. Where the store can tell the holder, its guard is lost within moments
    /// ([`Loss::Broken`](crate::Loss::Broken)); elsewhere with its next renewal. Until it hears of it, it believes that it holds: have
    /// what the lock guards refuse its fence. Of several locks taken together only this one is freed at once, and the others when their
    /// holder hears of it. The store remembers the break for a day: see [`last_break`](Self::last_break).
    ///
    /// # Errors
    ///
    /// [`BreakError`]: nothing was broken; or the store did not answer, and then it may have been.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the lease may have been broken or not.
    pub async fn break_lease(&self, name: impl AsRef<[u8]>, fence: Fence) -> Result<HolderInfo, BreakError> {
        self.break_lease_noting(name, fence, BreakNote::default()).await
    }

    /// The same, with a note for the record that [`last_break`](Self::last_break) shows: who breaks the lease, by default the label
    /// of these locks, and why.
    ///
    /// # Errors
    ///
    /// As [`break_lease`](Self::break_lease).
    ///
    /// # Cancel safety
    ///
    /// As [`break_lease`](Self::break_lease).
    pub async fn break_lease_noting(
        &self,
        name: impl AsRef<[u8]>,
        fence: Fence,
        note: BreakNote,
    ) -> Result<HolderInfo, BreakError> {
        let key = self.key(name.as_ref())?;
        let by = match note.by {
            Some(by) => Some(by),
            None => self.label()?,
        };
        let note = BreakNote { by, ..note };
        let report = &self.place().report;
        let answer = async { self.place().store.admin()?.break_lease(&key, fence, &note).await }.await;
        report.answered(&answer);
        match answer {
            Ok(BreakAnswer::Broken { holding }) => {
                report.tell(|| Event::Broke { holding: holding.clone() });
                Ok(holding)
            }
            Ok(BreakAnswer::NotHeld { held_by: None }) => Err(BreakError::NotHeld { key, fence }),
            Ok(BreakAnswer::NotHeld { held_by: Some(held_by) }) => {
                let held_by = Box::new(held_by);
                Err(match held_by.owner {
                    Owner::Holder { .. } => BreakError::OtherFence { fence, held_by },
                    _ => BreakError::Foreign { held_by },
                })
            }
            Err(fault) => Err(BreakError::Store(fault)),
        }
    }
}

/// Why [`Locks::break_lease`] broke nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakError {
    /// Nobody holds the lock.
    #[non_exhaustive]
    NotHeld {
        /// The key.
        key: Key,
        /// What was to be broken.
        fence: Fence,
    },
    /// Somebody holds it with another fence: it has changed hands since it was looked at.
    #[non_exhaustive]
    OtherFence {
        /// What was to be broken.
        fence: Fence,
        /// Who holds it.
        held_by: Box<HolderInfo>,
    },
    /// Another program holds it, in its own way.
    #[non_exhaustive]
    Foreign {
        /// What stands there.
        held_by: Box<HolderInfo>,
    },
    /// The request makes no sense; nothing was sent.
    Misuse(Misuse),
    /// The store gave no answer, or refused. Without an answer, the lease may have been broken.
    Store(Fault),
}

impl fmt::Display for BreakError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHeld { key, fence } => {
                write!(f, "{key}: nobody holds it, so no lease with fence {fence} was broken")
            }
            Self::OtherFence { fence, held_by } => {
                write!(f, "{}: no lease with fence {fence}: held ", held_by.key)?;
                match held_by.fence {
                    Some(other) => write!(f, "with fence {other} by {held_by}"),
                    None => write!(f, "by {held_by}, whose fence the store does not know"),
                }
            }
            Self::Foreign { held_by } => write!(
                f,
                "{}: {} is not ours to break: release it where it was taken, or delete the key there",
                held_by.key, held_by.owner
            ),
            Self::Misuse(misuse) => misuse.fmt(f),
            Self::Store(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for BreakError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Misuse(misuse) => Some(misuse),
            Self::Store(fault) => Some(fault),
            _ => None,
        }
    }
}

impl From<Misuse> for BreakError {
    fn from(misuse: Misuse) -> Self {
        Self::Misuse(misuse)
    }
}
