//! The holding, as its holder has it in hand.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{FaultKind, Fence, HoldAnswer, Holder, Key, Loss, Mark, Renewal, Ttl};

use super::holding::{Held, Holding};
use crate::error::{ReleaseError, RenewError};
use crate::place::{Place, rest};
use crate::recipe::MarkError;

/// A lock that is held.
///
/// While it lives its lease is renewed in the background (see [`Renewal`]). Dropping it releases the lock soon after, without
/// waiting; [`release`](Guard::release) waits, and says whether the lock was held to the end.
///
/// A program may drop guards at its very end. When the runtime that keeps the locks ends before their releases are confirmed,
/// a thread of our own sends them over a new connection, and the end of the runtime waits for that thread: 2 s at most. Three ends
/// do not wait, and leave the lease to end by itself: `std::process::exit`, a signal, and `Runtime::shutdown_background`. Nor can a
/// connection be made anew that was lent ([`LocksBuilder::over`](crate::LocksBuilder::over)).
///
/// A guard outlives the [`Locks`](crate::Locks) that it came from.
#[must_use = "dropping the guard releases the lock"]
pub struct Guard {
    place: Arc<Place>,
    held: Held,
    number: u64,
    stage: Stage,
}

/// How far the holding has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its holder has it in hand.
    Held,
    /// Its holder has given it back, after so long; the store may not know it yet.
    GivenBack(Duration),
    /// The store has nothing of it any more.
    Over,
}

impl Guard {
    pub(super) fn new(place: Arc<Place>, holding: Arc<Holding>, number: u64) -> Self {
        Self { place, held: Held(holding), number, stage: Stage::Held }
    }

    /// A view of this holding, to lend to those who work under it.
    #[must_use]
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// The keys that are held, in byte order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Key> {
        self.held.keys()
    }

    /// The store that the lock is held at.
    #[cfg(feature = "postgres")]
    pub(crate) fn store_name(&self) -> &str {
        self.place.store.name()
    }

    /// The id of this holding, shown by its first eight digits.
    #[must_use]
    pub fn holder(&self) -> Holder {
        self.held.holder()
    }

    /// The fence of this holding: send it with every write to what the lock guards.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.held.fence()
    }

    /// How long the lease lasts without renewal.
    #[must_use]
    pub fn ttl(&self) -> Ttl {
        self.place.roster.ttl(self.number).unwrap_or(self.held.0.attempt.ttl)
    }

    /// How long the lock has been held.
    #[must_use]
    pub fn held_for(&self) -> Duration {
        self.held.held_for()
    }

    /// How long the lease is believed from now if no renewal comes; zero when it is lost.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.held.remaining()
    }

    /// How often the store was asked before it granted.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.held.attempts()
    }

    /// Whether the lease is still believed. This looks at the clock itself, so it is right also when the program was paused
    /// or its runtime blocked; a moment later it may have changed.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// Resolves when the lease is lost: at its end at the latest (within a second of waking when the machine slept through
    /// it), and at once when the store says that it is gone. Pends for ever after a normal release.
    ///
    /// The future is independent of the guard and can be moved elsewhere.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + 'static + use<> {
        self.held.lost()
    }

    /// Makes the lease last at least `ttl` from now; later automatic renewals use that ttl too. A renewal never shortens
    /// what is left.
    ///
    /// # Errors
    ///
    /// [`RenewError::Lost`] when the lease is lost, which renewing does not mend; [`RenewError::Unreachable`] when the store
    /// did not answer, which changes nothing; [`RenewError::PastLongestHold`] and [`RenewError::Misuse`] before anything is
    /// sent.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the store may have renewed, and the guard then believes less than it could.
    pub async fn renew(&self, ttl: Duration) -> Result<(), RenewError> {
        let ttl = Ttl::new(ttl)?;
        self.place.check(ttl)?;
        let holding = &self.held.0;
        let sent = self.place.runtime.now();
        if let Some(Renewal::AtMost(at_most)) = self.place.roster.renewal(self.number)
            && sent + ttl.duration() > holding.granted + at_most
        {
            return Err(RenewError::PastLongestHold { at_most, ttl });
        }
        if !self.is_held() {
            return Err(RenewError::Lost(self.loss()));
        }
        let attempt = [holding.attempt.with_ttl(ttl)];
        let answer = self.place.store.renew(&attempt).await.pop();
        let now = self.place.runtime.now();
        answer.iter().for_each(|answer| self.place.report.answered(answer));
        match answer {
            Some(Ok(answer)) => {
                self.place.roster.handle_own_renewal(self.number, now, sent, ttl, answer);
                if self.is_held() { Ok(()) } else { Err(RenewError::Lost(self.loss())) }
            }
            Some(Err(fault)) => Err(RenewError::Unreachable(fault)),
            None => unreachable!("a store answers each attempt"),
        }
    }

    /// Releases the lock, and says whether it was held to the end.
    ///
    /// Where the store does not answer it is asked again until the lease ends.
    ///
    /// # Errors
    ///
    /// [`ReleaseError::Expired`], [`ReleaseError::Broken`], [`ReleaseError::TakenByOther`] and [`ReleaseError::Closed`] when the
    /// lock was lost before: the work under it may not have been alone. [`ReleaseError::Unreachable`] when the store did not answer; the lease then ends by itself.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not keep the lock: the release goes on in the background.
    pub async fn release(mut self) -> Result<(), ReleaseError> {
        self.place.roster.leave(self.number, self.place.runtime.now());
        let holding = self.held.0.clone();
        let held_for = self.held_for();
        if !holding.is_held() {
            self.lose(Loss::Expired { fault: None });
            // The rest is done by the drop: the store may have the lease for a moment yet.
            return Err(match self.loss() {
                Loss::TakenByOther { held_by } => ReleaseError::TakenByOther { held_by: held_by.into() },
                Loss::Broken { key } => ReleaseError::Broken { key },
                Loss::Closed { reason } => ReleaseError::Closed { reason },
                _ => ReleaseError::Expired { key: holding.attempt.claim.first_key().clone() },
            });
        }
        self.stage = Stage::GivenBack(held_for);
        let place = self.place.clone();
        let (store, runtime) = (&place.store, &place.runtime);
        let mut tries = 0;
        loop {
            let answer = store.release(&holding.attempt).await;
            self.place.report.answered(&answer);
            let fault = match answer {
                Ok(HoldAnswer::Done) => return self.released(held_for),
                // A release whose answer was lost may have been done; nobody held the key between it and this one.
                Ok(_) if tries > 0 && holding.is_held() => return self.released(held_for),
                Ok(HoldAnswer::NotHeld { key, held_by }) => {
                    self.stage = Stage::Over;
                    let taken = held_by.clone().map(|held_by| Loss::TakenByOther { held_by });
                    self.lose(taken.unwrap_or_else(|| Loss::Gone { key: key.clone() }));
                    return Err(held_by.map_or(ReleaseError::Expired { key }, |held_by| {
                        ReleaseError::TakenByOther { held_by: held_by.into() }
                    }));
                }
                Err(fault) => fault,
            };
            let again = runtime.now() + rest(tries, &**runtime);
            if fault.kind == FaultKind::Lasting || again >= holding.end() {
                return Err(ReleaseError::Unreachable(fault));
            }
            tries += 1;
            runtime.sleep_until(again).await;
        }
    }

    /// Marks what was done under this lock, which must still be held then. A store that is silent is asked until the lease ends.
    pub(crate) async fn mark(&self, mark: &Mark, keep: Duration) -> Result<(), MarkError> {
        let (store, runtime) = (&self.place.store, &self.place.runtime);
        let attempt = &self.held.0.attempt;
        let mut tries = 0;
        loop {
            if !self.is_held() {
                return Err(MarkError::Lost(self.loss()));
            }
            let marked = async { store.marks()?.mark(attempt, mark, keep).await };
            let fault = match marked.await {
                Ok(HoldAnswer::Done) => return Ok(()),
                Ok(HoldAnswer::NotHeld { key, held_by }) => {
                    return Err(MarkError::Lost(match held_by {
                        Some(held_by) => Loss::TakenByOther { held_by },
                        None => Loss::Gone { key },
                    }));
                }
                Err(fault) => fault,
            };
            let again = runtime.now() + rest(tries, &**runtime);
            if fault.kind == FaultKind::Lasting || again >= self.held.0.end() {
                return Err(MarkError::Unreachable(fault));
            }
            tries += 1;
            runtime.sleep_until(again).await;
        }
    }

    fn released(&mut self, held_for: Duration) -> Result<(), ReleaseError> {
        self.stage = Stage::Over;
        self.place.report.tell(|| self.held.0.was_given_back(held_for, Ok(())));
        Ok(())
    }

    /// It is lost, as is found when it is given back and nobody keeps it any more.
    fn lose(&self, loss: Loss) {
        let holding = &self.held.0;
        if holding.lose(loss.clone()) {
            self.place.report.tell(|| holding.was_lost(self.place.runtime.now(), loss));
        }
    }

    fn loss(&self) -> Loss {
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
        self.place.roster.leave(self.number, self.place.runtime.now());
        let holding = &self.held.0;
        let held_for = match self.stage {
            Stage::Held => holding.is_held().then(|| self.held_for()),
            Stage::GivenBack(held_for) => Some(held_for),
            Stage::Over => return,
        };
        match held_for {
            Some(held_for) => self.place.give_back(holding, held_for),
            None => {
                self.lose(Loss::Expired { fault: None });
                self.place.give_up(holding.attempt.clone());
            }
        }
    }
}
