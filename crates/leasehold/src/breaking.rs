//! Breaking a lease: ending the lease of another holder.

use std::fmt;

use leasehold_core::{BreakAnswer, BreakNote, Fault, Fence, HolderInfo, Key, LeaseBreak, Misuse, Owner};

use crate::error::source_of;
use crate::event::Event;
use crate::locks::Locks;

impl Locks {
    /// Ends the lease on a lock, whoever holds it, if it has this fence, and returns that holder.
    /// It is for an operator who has checked that a holder hangs. [`inspect`](Self::inspect) shows
    /// the fence, which no other holding of this lock has ever had. So whatever has happened since,
    /// no other lease is broken.
    ///
    /// The next waiter holds the lock at once. If the store can notify the holder, its guard is
    /// lost within moments ([`Loss::Broken`](crate::Loss::Broken)), and otherwise at its next
    /// renewal. Until then the holder considers the lock its own, so have the protected resource
    /// refuse its fence. Of several locks taken together only this one is freed at once. The others
    /// are freed when their guard is dropped, which leaves the work the time to stop, or when their
    /// lease ends, which nobody renews any more once the holder has learned of the break. The store
    /// remembers the break for a day: see [`last_break`](Self::last_break).
    ///
    /// # Errors
    ///
    /// [`BreakError`]: nothing was broken; or the store did not answer, and then the lease may have
    /// been broken.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lease may or may not have been broken.
    pub async fn break_lease(&self, name: impl AsRef<[u8]>, fence: Fence) -> Result<HolderInfo, BreakError> {
        self.break_lease_noting(name, fence, BreakNote::default()).await
    }

    /// The same, with a note for the record that [`last_break`](Self::last_break) returns: who
    /// breaks the lease (by default the label of these locks), and why.
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
            None => self.defaults().label.clone()?,
        };
        let lease = LeaseBreak::new(fence, BreakNote { by, ..note });
        let breaking = async { self.handle().store.admin()?.break_lease(&key, &lease).await };
        match self.handle().reported(breaking).await {
            Ok(BreakAnswer::Broken { holding }) => {
                self.handle().report.tell(|| Event::Broke { holding: holding.clone() });
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
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{BreakError, Locks};
///
/// let locks = Locks::in_memory();
/// let guard = locks.mutex("deploy").lock().await?;
/// let seen = guard.fence();
/// guard.release().await?;
/// match locks.break_lease("deploy", seen).await {
///     Ok(holder) => println!("{holder} has lost it"),
///     Err(BreakError::NotHeld { .. }) => println!("nobody holds it any more"),
///     Err(error) => return Err(error.into()), // somebody else holds it now, for instance
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakError {
    /// Nobody holds the lock.
    #[non_exhaustive]
    NotHeld {
        /// The key.
        key: Key,
        /// The fence whose lease was to be broken.
        fence: Fence,
    },
    /// Somebody holds it with another fence: the holder has changed since the caller looked.
    #[non_exhaustive]
    OtherFence {
        /// The fence whose lease was to be broken.
        fence: Fence,
        /// The holder.
        held_by: Box<HolderInfo>,
    },
    /// Another program, which is not Leasehold, holds it.
    #[non_exhaustive]
    Foreign {
        /// The lock that is at the key.
        held_by: Box<HolderInfo>,
    },
    /// The request is invalid; nothing was sent.
    Misuse(Misuse),
    /// The store did not answer, or refused. Without an answer, the lease may have been broken.
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
                "{}: {} cannot be broken here: release it where it was taken, or delete the key there",
                held_by.key, held_by.owner
            ),
            Self::Misuse(misuse) => misuse.fmt(f),
            Self::Store(fault) => fault.fmt(f),
        }
    }
}

source_of! { BreakError { Misuse Store; NotHeld OtherFence Foreign } }
