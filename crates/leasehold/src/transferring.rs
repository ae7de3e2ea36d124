//! Transferring a lock to another process.

mod pending;

use std::fmt;
use std::time::Duration;

pub use leasehold_core::TransferToken;
use leasehold_core::{
    Attempt, Fault, FaultCause, Fence, HoldAnswer, Holder, Instant, Loss, MemberVote, Misuse, Successor, Ttl,
};

use self::pending::{PendingAdoption, PendingTransfer};
use crate::error::source_of;
use crate::lock::{Guard, renewed};
use crate::locks::Locks;
use crate::store_handle::{StoreHandle, check_ttl};

impl Guard {
    /// Transfers the lock: the store keeps it for `within`, and until then another process can
    /// [adopt](Locks::adopt) it with the token. If nobody does, it is free at the end of that time,
    /// or of the current lease if that is later.
    ///
    /// At most one process relies on the lock at any time. This guard and all its
    /// [views](Guard::held) stop before the request is sent, as if the lease was lost
    /// ([`Loss::Transferred`]). The store then makes exactly one adopter the holder, in one step.
    ///
    /// The fence remains, because it is the same holding. So the protected resource cannot refuse
    /// late writes of this process: end them first.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// # use std::time::Duration;
    /// # let locks = leasehold::Locks::in_memory();
    /// # let (here, there) = (&locks, &locks);
    /// let guard = here.mutex("upload:7").lock().await?;
    /// let token = guard.transfer(Duration::from_secs(60)).await?;
    /// let job = token.to_string(); // goes to the other process with the job
    ///
    /// let guard = there.adopt(&job.parse()?).await?;
    /// assert!(there.adopt(&job.parse()?).await.is_err(), "only once");
    /// guard.release().await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    ///
    /// # Errors
    ///
    /// [`TransferError`]. In every case this guard is gone, and the lock is released in the
    /// background.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future releases the lock in the background.
    pub async fn transfer(self, within: Duration) -> Result<TransferToken, TransferError> {
        let ttl = Ttl::new(within)?;
        let handle = self.handle.clone();
        check_ttl(&*handle.store, ttl)?;
        handle.store.transfers()?;
        if !self.is_held() {
            return Err(TransferError::Lost(self.why_lost()));
        }
        let until = self.held().0.end();
        let (holding, held_for, _under_way) = self.resign();
        let attempt = holding.request(ttl);
        let successor =
            Successor { holder: Holder::from_bits(handle.runtime.random()), label: attempt.label.clone() };
        let pending = PendingTransfer {
            handle: &handle,
            holding: &holding,
            held_for,
            within: ttl,
            successor: &successor,
            is_settled: false,
        };
        if holding.is_downgraded() {
            // A transfer keeps the mode that the store knows, and only a renewal changes it.
            let attempts = std::slice::from_ref(&attempt);
            let renew = || async { renewed(&*handle.store, attempts).await.swap_remove(0) };
            let (answer, _) = handle.ask_until(until, renew).await;
            if let HoldAnswer::NotHeld { key, held_by } = answer? {
                return Err(pending.lost(handle.loss(&attempt, key, held_by)));
            }
        }
        match succeed(&handle, &attempt, &successor, until).await {
            Ok(_) => Ok(pending.done()),
            Err(TransferError::Lost(loss)) => Err(pending.lost(loss)),
            Err(error) => Err(error),
        }
    }
}

impl Locks {
    /// Adopts a lock that another process [transferred](Guard::transfer). The guard has the TTL,
    /// the label and the renewal of these locks, and the fence of the token. If this process crashes,
    /// the store may keep the lock until the time for its adoption would have ended.
    ///
    /// These locks must be in the same store as the guard that was transferred, but they may have
    /// another key prefix: the token names the key itself.
    ///
    /// # Errors
    ///
    /// [`TransferError::Lost`] if the time for it is over, or the lock was adopted or released
    /// before, or these locks are closed, which does not affect the lock, unless they are closed
    /// meanwhile: then it is released if it was adopted;
    /// [`TransferError::Unconfirmed`] if the store does not answer within the outage limit, and then
    /// the lock may or may not be adopted, and is released if it is. In a quorum, a majority must
    /// answer of which each has the transfer: a member that missed it does not count.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the lock may have been adopted; then it is released in the
    /// background. If the store is unreachable for longer than the TTL of these locks, the lock
    /// expires at the end of that TTL, or of the time for its adoption if that is later.
    pub async fn adopt(&self, token: &TransferToken) -> Result<Guard, TransferError> {
        let (ttl, label) = self.defaults().checked()?;
        let handle = self.handle();
        handle.admit(&token.claim, ttl)?;
        handle.drift.admit(ttl)?;
        if let Some(reason) = handle.registry.closed_because() {
            return Err(TransferError::Lost(Loss::Closed { reason }));
        }
        let started = handle.runtime.now();
        let successor =
            Successor { holder: Holder::from_bits(handle.runtime.random()), label: label.clone() };
        let ours = Attempt::new(token.claim.clone(), successor.holder, label, ttl);
        let mut pending = PendingAdoption::new(handle, ours.with_signal(self.defaults().signal));
        let until = started + self.defaults().outage_limit;
        let theirs = attempt_of(token, ttl);
        let sent = tokio::select! {
            biased;
            sent = self.in_time(until, succeed(handle, &theirs, &successor, until)) => sent?,
            () = handle.registry.closed() => {
                let reason = handle.registry.closed_because().unwrap_or_else(|| "closed".into());
                return Err(TransferError::Lost(Loss::Closed { reason }));
            }
        };
        pending.enter(token, ttl, self.defaults().renewal, started, sent)
    }

    /// Keeps a lock that was transferred for at least `within` from now, for whoever adopts it. It
    /// is never kept for a shorter time than before. From then on it shows the label of these locks.
    ///
    /// # Errors
    ///
    /// [`TransferError`], as for [`adopt`](Self::adopt). If the store does not answer, the lock may
    /// or may not be kept for longer.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the lock may or may not be kept for longer.
    pub async fn renew_transfer(&self, token: &TransferToken, within: Duration) -> Result<(), TransferError> {
        let ttl = Ttl::new(within)?;
        let handle = self.handle();
        handle.admit(&token.claim, ttl)?;
        let successor = Successor { holder: token.holder, label: self.defaults().label.clone()? };
        let until = handle.runtime.now() + self.defaults().outage_limit;
        let theirs = attempt_of(token, ttl);
        self.in_time(until, succeed(handle, &theirs, &successor, until)).await.map(drop)
    }

    /// Releases a lock that was transferred and that nobody adopts.
    ///
    /// # Errors
    ///
    /// [`TransferError`], as for [`adopt`](Self::adopt). If the store does not answer, the lock
    /// expires when nobody may adopt it any more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the lock may or may not be released.
    pub async fn release_transfer(&self, token: &TransferToken) -> Result<(), TransferError> {
        let handle = self.handle();
        let _under_way = handle.registry.begin_release();
        let attempt = attempt_of(token, Ttl::DEFAULT).with_signal(self.defaults().signal);
        let until = handle.runtime.now() + self.defaults().outage_limit;
        let releasing = handle.ask_until(until, || handle.store.release(&attempt));
        let (released, in_doubt) = self.in_time(until, async { Ok(releasing.await) }).await?;
        let HoldAnswer::NotHeld { key, held_by } = released? else { return Ok(()) };
        let loss = handle.loss(&attempt, key, held_by);
        // If the answer to an earlier release was lost, that release may have succeeded. But the fence is
        // also that of an adopter, and of nobody who takes the lock after a release.
        if in_doubt && !is_held_with(token.fence, &loss) { Ok(()) } else { Err(TransferError::Lost(loss)) }
    }

    /// The result, unless the outage limit ends in the middle of a call.
    async fn in_time<T>(
        &self,
        until: Instant,
        asking: impl Future<Output = Result<T, TransferError>>,
    ) -> Result<T, TransferError> {
        let (handle, limit) = (self.handle(), self.defaults().outage_limit);
        handle.runtime.before(until, asking).await.unwrap_or_else(|| {
            let fault = Fault::passing(handle.store.name(), format_args!("no answer within {limit:?}"));
            Err(TransferError::Unconfirmed(fault.caused_by(FaultCause::TimedOut)))
        })
    }
}

/// Makes the successor the holder at the store. If the store does not answer, asks again until
/// then. Returns when the request was sent that the store confirmed; [`TransferError::Lost`] if the
/// attempt did not hold the keys.
async fn succeed(
    handle: &StoreHandle,
    attempt: &Attempt,
    successor: &Successor,
    until: Instant,
) -> Result<Instant, TransferError> {
    let there = handle.store.transfers()?;
    let as_successor = &attempt.by(successor.holder);
    let ask = |by| async move { Ok((handle.runtime.now(), there.transfer(by, successor).await?)) };
    let (mut answer, in_doubt) = handle.ask_until(until, || ask(attempt)).await;
    if in_doubt && matches!(answer, Ok((_, HoldAnswer::NotHeld { .. }))) {
        (answer, _) = handle.ask_until(until, || ask(as_successor)).await;
    }
    match answer? {
        (sent, HoldAnswer::Done) => Ok(sent),
        (_, HoldAnswer::NotHeld { key, held_by }) => {
            Err(TransferError::Lost(handle.loss(attempt, key, held_by)))
        }
    }
}

/// Returns true if the holder that was named has this fence, or has it at any member of a quorum: at
/// others it may have a greater one.
fn is_held_with(fence: Fence, loss: &Loss) -> bool {
    let named = match loss {
        Loss::TakenByOther { held_by, .. } => Some(&**held_by),
        _ => None,
    };
    let votes = loss.quorum_report().into_iter().flat_map(|report| &report.members);
    let shown = votes.filter_map(|(_, vote)| match vote {
        MemberVote::Held(held_by) => Some(held_by),
        _ => None,
    });
    named.into_iter().chain(shown).any(|held_by| held_by.fence == Some(fence))
}

/// The holder that the store has until somebody adopts the lock.
fn attempt_of(token: &TransferToken, ttl: Ttl) -> Attempt {
    Attempt::new(token.claim.clone(), token.holder, None, ttl)
}

/// Why a lock was not transferred or not adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TransferError {
    /// The lock is not held any more; or not under this token, because the time for its adoption is
    /// over, or it was adopted or released before.
    Lost(Loss),
    /// The store did not answer, or refused. Whether the lock has gone over is unknown, unless the
    /// fault is lasting.
    Unconfirmed(Fault),
    /// The request is invalid; nothing was sent.
    Misuse(Misuse),
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(loss) => loss.fmt(f),
            Self::Unconfirmed(fault) => write!(f, "the store did not confirm the transfer: {fault}"),
            Self::Misuse(misuse) => misuse.fmt(f),
        }
    }
}

source_of! { TransferError { Lost Unconfirmed Misuse } }
