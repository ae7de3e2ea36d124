//! Cleanup guards, so that a transfer or an adoption that fails or is dropped leaves no lock
//! behind.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Instant, Lease, LeaseRenewal, Loss, Renewal, Successor, TransferToken, Ttl};

use super::TransferError;
use crate::lock::{Guard, Holding};
use crate::store_handle::StoreHandle;

/// The cleanup guard of a transfer: dropping it releases what the holder or its successor may have.
pub(super) struct PendingTransfer<'a> {
    pub(super) handle: &'a Arc<StoreHandle>,
    pub(super) holding: &'a Arc<Holding>,
    pub(super) held_for: Duration,
    /// How long the store keeps the lock for the successor.
    pub(super) within: Ttl,
    pub(super) successor: &'a Successor,
    /// True once the store has confirmed or refused the transfer.
    pub(super) is_settled: bool,
}

impl PendingTransfer<'_> {
    pub(super) fn done(mut self) -> TransferToken {
        self.is_settled = true;
        let Holding { attempt, fence, .. } = &**self.holding;
        self.handle.report.tell(|| self.holding.was_transferred(self.held_for));
        // This releases the key at the members of a quorum that have not recorded the successor.
        self.handle.give_up(attempt.clone());
        TransferToken::new(self.holding.request(self.within).claim, self.successor.holder, *fence)
    }

    pub(super) fn lost(mut self, loss: Loss) -> TransferError {
        self.is_settled = true;
        let now = self.handle.runtime.now();
        self.handle.report.tell(|| self.holding.was_lost(now, loss.clone()));
        self.handle.give_up(self.holding.attempt.clone());
        TransferError::Lost(loss)
    }
}

impl Drop for PendingTransfer<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            let successor = self.holding.attempt.by(self.successor.holder).with_ttl(self.within);
            self.handle.give_back_with_successor(self.holding, self.held_for, successor);
        }
    }
}

/// The cleanup guard of an adoption: dropping it releases what the adopter may have.
pub(super) struct PendingAdoption<'a> {
    handle: &'a Arc<StoreHandle>,
    attempt: Attempt,
    /// True once a guard has what was adopted.
    is_over: bool,
}

impl<'a> PendingAdoption<'a> {
    pub(super) fn new(handle: &'a Arc<StoreHandle>, attempt: Attempt) -> Self {
        handle.registry.begin_request();
        Self { handle, attempt, is_over: false }
    }

    pub(super) fn enter(
        &mut self,
        token: &TransferToken,
        ttl: Ttl,
        renewal: Renewal,
        started: Instant,
        sent: Instant,
    ) -> Result<Guard, TransferError> {
        let attempt = self.attempt.clone();
        let (handle, runtime) = (self.handle, &self.handle.runtime);
        let now = runtime.now();
        let lease = Lease::counted_from(sent, ttl, handle.drift);
        if !lease.is_held(now) {
            return Err(TransferError::Lost(Loss::Expired { fault: None }));
        }
        if let Some(there) = handle.store.parts().transfer {
            there.adopted(&attempt, token.fence);
        }
        // This releases the key at the members of a quorum that have not recorded the adopter.
        handle.give_up(attempt.by(token.holder));
        let mut keep = LeaseRenewal::new(now, lease, ttl, handle.drift, renewal);
        keep.handle_adopted(now);
        let holding = Holding::new(attempt, token.fence, now, 1, keep.lease(), runtime.clone());
        let guard = Guard::enter(handle, holding, keep, now.saturating_since(started), 0)
            .map_err(|reason| TransferError::Lost(Loss::Closed { reason }))?;
        self.is_over = true;
        Ok(guard)
    }
}

impl Drop for PendingAdoption<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.handle.give_up(self.attempt.clone());
        }
        self.handle.registry.end_request();
    }
}
