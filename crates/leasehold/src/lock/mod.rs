//! Acquiring, keeping and releasing locks: from the request to the guard.

mod acquire;
mod closing;
mod drive;
mod guard;
mod holding;
mod keeper;
mod kinds;
mod registry;
mod terms;
mod undoing;
mod unlocked;

pub use acquire::Acquire;
pub use guard::{Guard, Released};
pub use holding::Held;
pub(crate) use holding::{Holding, facts_of_holding};
pub(crate) use keeper::{keep, renewed};
pub(crate) use kinds::{GuardKind, kind_of_guard};
pub use kinds::{RwLockReadGuard, RwLockWriteGuard, SemaphorePermit};
pub(crate) use registry::{GuardRegistry, PendingRelease};
pub use terms::WaitStatus;
pub(crate) use terms::{Defaults, OnWait, lock_settings};
pub(crate) use undoing::{rest, undo};
pub use unlocked::Unlocked;
