//! Making the successor the holder at the store, which may not answer.

use leasehold_core::{Attempt, Fault, HoldAnswer, Instant, Loss, Successor};

use super::TransferError;
use crate::store_handle::{StoreHandle, rest};

/// The outcome of a transfer at the store.
pub(super) enum Succeeded {
    /// The successor holds the keys, by the answer to a request that was sent then.
    At(Instant),
    /// The attempt did not hold them.
    NotHeld(Loss),
}

/// Makes the successor the holder at the store. If the store does not answer, asks again until
/// then.
pub(super) async fn succeed(
    handle: &StoreHandle,
    attempt: &Attempt,
    successor: &Successor,
    until: Instant,
) -> Result<Succeeded, TransferError> {
    let there = handle.store.transfers()?;
    let as_successor = attempt.by(successor.holder);
    let mut retries = Retries::until(handle, until);
    loop {
        let mut sent = handle.runtime.now();
        let mut answer = there.transfer(attempt, successor).await;
        if retries.in_doubt() && matches!(answer, Ok(HoldAnswer::NotHeld { .. })) {
            sent = handle.runtime.now();
            answer = there.transfer(&as_successor, successor).await;
        }
        match retries.last(answer).await.transpose()? {
            None => {}
            Some(HoldAnswer::Done) => return Ok(Succeeded::At(sent)),
            Some(HoldAnswer::NotHeld { key, held_by }) => {
                return Ok(Succeeded::NotHeld(handle.loss(attempt, key, held_by)));
            }
        }
    }
}

/// Repeats a request to a store that does not answer, until that time.
pub(super) struct Retries<'a> {
    handle: &'a StoreHandle,
    until: Instant,
    tries: u32,
}

impl<'a> Retries<'a> {
    pub(super) const fn until(handle: &'a StoreHandle, until: Instant) -> Self {
        Self { handle, until, tries: 0 }
    }

    /// Returns true if an earlier request may have been served although its answer was lost.
    pub(super) const fn in_doubt(&self) -> bool {
        self.tries > 0
    }

    /// Returns the answer if it is the last one; otherwise rests before the next request.
    pub(super) async fn last(
        &mut self,
        answer: Result<HoldAnswer, Fault>,
    ) -> Option<Result<HoldAnswer, Fault>> {
        let runtime = &self.handle.runtime;
        self.handle.report.answered(&answer);
        let again = runtime.now() + rest(self.tries, &**runtime);
        if !answer.as_ref().is_err_and(|fault| !fault.is_lasting()) || again >= self.until {
            return Some(answer);
        }
        self.tries += 1;
        runtime.sleep_until(again).await;
        None
    }
}
