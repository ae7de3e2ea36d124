//! The error of a request that was not granted.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, Key, Outcome, QuorumReport};

use crate::error::LockError;
use crate::store_handle::StoreHandle;

/// The error for the caller, if the outcome is not a grant, with the votes of a quorum that
/// refused.
pub(super) fn failure(
    handle: &StoreHandle,
    key: Key,
    waited: Duration,
    attempts: u32,
    outcome: Outcome,
    quorum_report: Option<Arc<QuorumReport>>,
) -> LockError {
    match outcome {
        Outcome::Busy { held_by, before } => {
            let key = held_by.as_ref().map_or(key, |held_by| held_by.key.clone());
            let place = before.map(|before| before + 1);
            LockError::TimedOut {
                key,
                held_by: held_by.map(Box::new),
                place,
                waited,
                attempts,
                quorum_report,
            }
        }
        Outcome::QueueFull { held_by, length } => {
            let key = held_by.key.clone();
            LockError::QueueFull { key, held_by: Box::new(held_by), length, quorum_report }
        }
        Outcome::Silent { fault: Some(Fault { quorum_report: Some(quorum_report), .. }) } => {
            LockError::NoQuorum { key, quorum_report, waited, attempts }
        }
        Outcome::Silent { fault } => {
            let (store, fault) = (handle.store.name().into(), fault.map(Box::new));
            LockError::Unreachable { key, store, fault, waited, attempts }
        }
        Outcome::Refused(fault) => LockError::Refused { key, fault },
        Outcome::NotALock { key } => LockError::NotALock { key },
        Outcome::FencesSpent { key } => LockError::FencesSpent { key },
        Outcome::Granted { .. } => unreachable!("a grant is made a guard"),
    }
}
