//! The guard of a held lock.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, HoldAnswer, LeaseRenewal, Loss, Mark, QuorumReport, Renewal, Ttl};

use super::holding::{Held, Holding, facts_of_holding};
use super::keeper::renewed;
use super::registry::PendingRelease;
use super::undoing::answered;
use crate::error::{ReleaseError, RenewError};
use crate::recipe::MarkError;
use crate::store_handle::{StoreHandle, check_ttl};

/// A lock that is held.
///
/// While it exists, its lease is renewed in the background (see [`Renewal`]). Dropping it releases
/// the lock soon after, without waiting. [`release`](Guard::release) waits, and returns an error if
/// the lock was not held to the end.
///
/// A program may drop guards at its very end. If the runtime that keeps the locks ends before their
/// releases are confirmed, a separate thread sends them over a new connection, and the shutdown of
/// the runtime waits for that thread, for at most 2 s. So does a later drop outside any runtime. Three
/// kinds of exit do not wait, and leave the lease to expire: `std::process::exit`, a signal, and
/// `Runtime::shutdown_background`. A connection that the program lent cannot be reopened for this
/// either.
///
/// A guard outlives the [`Locks`](crate::Locks) that it came from. One that is never dropped, for
/// example because of a cycle of `Arc`s, keeps its lock until the locks are
/// [closed](crate::Locks::close) or the process ends; [`Renewal::AtMost`] limits that.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let locks = leasehold::Locks::in_memory();
/// let guard = locks.mutex("invoice:42").lock().await?;
/// println!("write with fence {}, and stop within {:?}", guard.fence(), guard.remaining());
/// guard.release().await?; // or drop it: then the release runs in the background
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "lease")]
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    pub(crate) handle: Arc<StoreHandle>,
    held: Held,
    number: u64,
    stage: Stage,
}

/// The state of a holding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The lock is held.
    Held,
    /// The lock was released after this time; the store may not know it yet.
    GivenBack(Duration),
    /// The store has nothing of the holding any more.
    Over,
}

impl Guard {
    /// The guard of a new holding, whose lease is kept from now on.
    ///
    /// # Errors
    ///
    /// The reason, if the locks are closed.
    pub(crate) fn enter(
        handle: &Arc<StoreHandle>,
        holding: Holding,
        renewal: LeaseRenewal,
        waited: Duration,
        refusals: u32,
    ) -> Result<Self, Arc<str>> {
        let holding = Arc::new(holding);
        let acquired = || holding.was_acquired(waited, refusals);
        let number = handle.registry.enter(holding.clone(), renewal, acquired)?;
        Ok(Self { handle: handle.clone(), held: Held(holding), number, stage: Stage::Held })
    }

    facts_of_holding!();

    pub(crate) fn holding(&self) -> &Holding {
        &self.held.0
    }

    /// A view of this holding, to lend to code that works under the lock.
    #[must_use]
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Stops keeping the lock and relying on it, without releasing it: it is about to be
    /// transferred. Returns the holding, and how long the lock was held.
    pub(crate) fn resign(mut self) -> (Arc<Holding>, Duration, PendingRelease) {
        let now = self.handle.runtime.now();
        let under_way = self.handle.leaves(&self.held.0, self.number, now);
        self.stage = Stage::Over;
        if self.held.0.lose(Loss::Transferred) {
            self.held.0.announce();
        }
        (self.held.0.clone(), self.held.0.held_for(now), under_way)
    }

    /// The store in which the lock is held.
    #[cfg(feature = "postgres")]
    pub(crate) fn store_name(&self) -> &str {
        self.handle.store.name()
    }

    /// How long the lease lasts without renewal.
    #[must_use]
    pub fn ttl(&self) -> Ttl {
        self.handle.registry.terms(self.number).map_or(self.held.0.attempt.ttl, |(ttl, ..)| ttl)
    }

    /// Why the lease was lost, if that is known.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        self.held.loss()
    }

    /// Resolves when the lease is lost: at its end at the latest (if the machine slept then, within
    /// a second of waking), and at once when the store reports that the lease is gone. After a
    /// normal release it never resolves.
    ///
    /// The future is independent of the guard and can be moved elsewhere.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static + use<> {
        self.held.lost()
    }

    /// Extends the lease to at least `ttl` from now; later automatic renewals use that TTL too. A
    /// renewal never shortens the time that is left. Returns how long the lease now lasts, as
    /// [`remaining`](Self::remaining) does.
    ///
    /// # Errors
    ///
    /// [`RenewError::Lost`] if the lease is lost, which a renewal cannot repair;
    /// [`RenewError::Unreachable`] if the store did not answer, which changes nothing;
    /// [`RenewError::PastLongestHold`] and [`RenewError::Misuse`] before anything is sent.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the store may have renewed the lease, and the guard then relies on less than it
    /// could.
    #[doc(alias = "extend")]
    #[doc(alias = "heartbeat")]
    pub async fn renew(&self, ttl: Duration) -> Result<Duration, RenewError> {
        let ttl = Ttl::new(ttl)?;
        check_ttl(&*self.handle.store, ttl)?;
        let holding = &self.held.0;
        let sent = self.handle.runtime.now();
        if let Some((_, renewal, drift)) = self.handle.registry.terms(self.number) {
            drift.admit(ttl)?;
            if let Renewal::AtMost(at_most) = renewal
                && sent + ttl.duration() > holding.granted + at_most
            {
                return Err(RenewError::PastLongestHold { at_most, ttl });
            }
        }
        if !self.is_held() {
            return Err(RenewError::Lost(self.why_lost()));
        }
        let attempt = [holding.request(ttl)];
        let store = &self.handle.store;
        let renewing = async { renewed(&**store, &attempt).await.swap_remove(0) };
        let answer = answered(&**store, &*self.handle.runtime, holding.end(), renewing).await;
        let now = self.handle.runtime.now();
        self.handle.report.answered(&answer);
        match answer {
            Ok(answer) => {
                let votes = store.take_report(&attempt[0]);
                self.handle.registry.change(self.number, now, |machine| {
                    machine.handle_own_renewal(now, sent, ttl, answer);
                    votes.into_iter().for_each(|votes| machine.handle_votes(votes));
                });
                if self.is_held() { Ok(self.remaining()) } else { Err(RenewError::Lost(self.why_lost())) }
            }
            Err(fault) => Err(RenewError::Unreachable(fault)),
        }
    }

    /// Makes the guard of a writer that of a reader.
    pub(crate) fn downgrade(&self) {
        let now = self.handle.runtime.now();
        self.handle.registry.change(self.number, now, |machine| {
            self.holding().downgrade();
            machine.handle_downgrade(now);
        });
    }

    /// Releases the lock, and returns an error if it was not held to the end.
    ///
    /// If the store does not answer, the release is retried until the lease ends.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Expired`], [`ReleaseError::Broken`], [`ReleaseError::TakenByOther`] and
    /// [`ReleaseError::Closed`] if the lock was lost before: somebody else may have held it during
    /// the work. [`ReleaseError::Unreachable`] if the store did not answer; the lease then expires
    /// on its own.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not keep the lock: the release continues in the background.
    #[doc(alias = "unlock")]
    pub async fn release(self) -> Result<Released, ReleaseError> {
        let now = self.handle.runtime.now();
        let _under_way = self.handle.leaves(&self.held.0, self.number, now);
        // Dropped before that: a release that is cut off goes on in the background.
        let mut guard = self;
        let holding = &*guard.held.0;
        let held_for = holding.held_for(now);
        if !holding.is_valid_at(now) {
            // The drop does the rest: the store may have the lease for a moment longer.
            return Err(ReleaseError::after(guard.why_lost(), holding.attempt.claim.first_key()));
        }
        guard.stage = Stage::GivenBack(held_for);
        let (handle, holding) = (&*guard.handle, &*guard.held.0);
        match handle.ask_until(holding.end(), || handle.store.release(&holding.attempt)).await {
            (Ok(HoldAnswer::Done), _) => guard.released(held_for),
            (Ok(HoldAnswer::NotHeld { key, held_by }), in_doubt) => {
                // If the answer to an earlier release was lost, that release may have succeeded. While
                // the lease was valid, nobody else held the key in between, unless somebody broke it.
                let may_be_done = in_doubt && holding.is_valid_at(handle.runtime.now());
                let broken =
                    if may_be_done { guard.broken().await.map_err(ReleaseError::Unreachable)? } else { None };
                if may_be_done && broken.is_none() {
                    return guard.released(held_for);
                }
                let loss = broken.unwrap_or_else(|| handle.loss(&holding.attempt, key, held_by));
                guard.lose(loss.clone());
                let error = ReleaseError::after(loss, holding.attempt.claim.first_key());
                guard.stage = Stage::Over;
                Err(error)
            }
            (Err(fault), _) => Err(ReleaseError::Unreachable(fault)),
        }
    }

    /// Marks what was done under this lock, which must still be held. If the store does not answer,
    /// the mark is retried until the lease ends.
    pub(crate) async fn mark(&self, mark: &Mark, keep: Duration) -> Result<(), MarkError> {
        let (store, holding) = (&self.handle.store, self.holding());
        if !self.is_held() {
            return Err(MarkError::Lost(self.why_lost()));
        }
        let marks = store.marks().map_err(MarkError::Unreachable)?;
        let ask = || marks.mark(&holding.attempt, mark, keep);
        let (answer, in_doubt) = self.handle.ask_until(holding.end(), ask).await;
        let HoldAnswer::NotHeld { key, held_by } = answer.map_err(MarkError::Unreachable)? else {
            return Ok(());
        };
        // If the answer to an earlier request was lost, that request may have succeeded.
        if in_doubt {
            let read = || marks.marked(holding.attempt.claim.first_key());
            let (marked, _) = self.handle.ask_until(holding.end(), read).await;
            let there = marked.map_err(MarkError::Unreachable)?.mark;
            if there.is_some_and(|there| there.fence == mark.fence) {
                return Ok(());
            }
        }
        Err(MarkError::Lost(self.handle.loss(&holding.attempt, key, held_by)))
    }

    /// The loss, if the store remembers that somebody broke this lease.
    async fn broken(&self) -> Result<Option<Loss>, Fault> {
        let (handle, holding) = (&self.handle, self.holding());
        let Ok(admin) = handle.store.admin() else { return Ok(None) };
        for key in holding.attempt.claim.keys() {
            let (last, _) = handle.ask_until(holding.end(), || admin.last_break(key)).await;
            if last?.is_some_and(|last| last.fence == holding.fence) {
                return Ok(Some(Loss::Broken { key: key.clone(), quorum_report: None }));
            }
        }
        Ok(None)
    }

    fn released(&mut self, held_for: Duration) -> Result<Released, ReleaseError> {
        self.stage = Stage::Over;
        let quorum_report = self.handle.store.take_report(&self.held.0.attempt);
        self.handle.report.tell(|| self.held.0.was_given_back(held_for, Ok(())));
        Ok(Released { quorum_report })
    }

    /// Records the loss that was found on release, when the keeper no longer has the guard.
    fn lose(&self, loss: Loss) {
        let holding = &self.held.0;
        if holding.lose(loss.clone()) {
            holding.announce();
            self.handle.report.tell(|| holding.was_lost(self.handle.runtime.now(), loss));
        }
    }

    pub(crate) fn why_lost(&self) -> Loss {
        self.held.0.loss().cloned().unwrap_or(Loss::Expired { fault: None })
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.held.0.describe(f, "Guard")
    }
}

/// Releases the lock soon after, in the background.
impl Drop for Guard {
    fn drop(&mut self) {
        let holding = &self.held.0;
        let _under_way;
        let held_for = match self.stage {
            Stage::Held => {
                let now = self.handle.runtime.now();
                _under_way = self.handle.leaves(holding, self.number, now);
                holding.is_valid_at(now).then(|| holding.held_for(now))
            }
            Stage::GivenBack(held_for) => Some(held_for),
            Stage::Over => return,
        };
        match held_for {
            Some(held_for) => self.handle.give_back(holding, held_for),
            // The registry has recorded the loss.
            None => self.handle.give_up(holding.attempt.clone()),
        }
    }
}

/// A confirmed release: the lock was held to the end, and is free now.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// # let locks = leasehold::Locks::in_memory();
/// let guard = locks.mutex("invoice:42").lock().await?;
/// let released = guard.release().await?;
/// if let Some(votes) = released.quorum_report {
///     println!("{} of {} members confirmed it: {votes}", votes.agreed(), votes.members.len());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Released {
    /// For a quorum: what each member had answered once a majority had confirmed the release.
    /// `None` for other stores.
    pub quorum_report: Option<Arc<QuorumReport>>,
}
