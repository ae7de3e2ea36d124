//! One leader among several candidates.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Claim, FaultKind, HolderInfo, KeyState, Misuse, Owner, Renewal, Ttl, Waiter};

use crate::defaults::Defaults;
use crate::error::{HoldError, InspectError};
use crate::lock::{Acquire, Held};
use crate::locks::Askers;
use crate::mutex::Mutex;
use crate::place::rest;

/// A leadership that one of several candidates has at a time. Making and cloning it does no I/O.
///
/// It is the lock of the same name: whoever leads holds it, whoever stands for it waits in its line, first come, first served. So
/// `leasehold show` shows leader and candidates, and a leader that died is followed when its lease ends.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let locks = leasehold::Locks::in_memory();
/// let scheduler = locks.election("scheduler");
/// let done = scheduler.candidate("node-3").lead(async |leading| format!("term {}", leading.fence())).await?;
/// assert!(done.starts_with("term "));
/// assert!(scheduler.leader().await?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What this does not promise
///
/// A leader that is paused past its lease believes it still leads, until it looks. Its fence is the number of its term: send it
/// with whatever a leader writes, and let the receiver refuse a smaller one than it has seen.
#[derive(Clone, Debug)]
#[must_use = "a description does nothing: call candidate() or leader()"]
pub struct Election {
    askers: Arc<Askers>,
    claim: Result<Claim, Misuse>,
    defaults: Defaults,
}

impl Election {
    pub(crate) const fn new(askers: Arc<Askers>, claim: Result<Claim, Misuse>, defaults: Defaults) -> Self {
        Self { askers, claim, defaults }
    }

    /// How long a leader that died is missed. A leader that lives renews its lease, however long it leads.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = Ttl::new(ttl);
        self
    }

    /// Somebody who stands for it, under a name that the others can see: printable text of up to 256 bytes. Names need not
    /// differ; a candidate that stands twice is two.
    pub fn candidate(&self, name: &str) -> Candidate {
        let defaults = Defaults { renewal: Renewal::Automatic, ..self.defaults.clone() };
        Candidate(Mutex::new(self.askers.clone(), self.claim.clone(), defaults).label(name))
    }

    /// Who leads; `None` while nobody does. The label is the name that it stood under, and the fence the number of its term.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store did not answer or refuses, or the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn leader(&self) -> Result<Option<HolderInfo>, InspectError> {
        Ok(self.state().await?.holders.into_iter().next())
    }

    /// Who would lead next, in order. The leader is not among them.
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn candidates(&self) -> Result<Vec<Waiter>, InspectError> {
        Ok(self.state().await?.line)
    }

    /// Who leads, and from then on whoever leads next: for those who follow and do not stand.
    pub const fn leaders(&self) -> Leaders<'_> {
        Leaders { election: self, told: None }
    }

    async fn state(&self) -> Result<KeyState, InspectError> {
        let claim = self.claim.clone()?;
        self.askers.place().inspect(claim.first_key()).await.map_err(InspectError::Store)
    }
}

/// Somebody who stands for election.
#[derive(Clone, Debug)]
#[must_use = "a candidate does nothing until it stands or leads"]
pub struct Candidate(Mutex);

impl Candidate {
    /// Waits to be elected, leads for as long as `work` runs, and resigns. The work is stopped at an await when the leadership is
    /// lost; it ends it by itself when it returns. Who was led by the last one is followed at once by the next.
    ///
    /// # Errors
    ///
    /// [`HoldError::NotTaken`] when it was never elected; [`HoldError::Lost`] when the work was stopped;
    /// [`HoldError::LostUnnoticed`] when it ended by itself, and had been replaced by then. Stand again to try again.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the work, and resigns or gives up the candidacy in the background.
    pub async fn lead<T, Work>(&self, work: impl FnOnce(Held) -> Work) -> Result<T, HoldError<T>>
    where
        Work: Future<Output = T>,
    {
        self.stand().hold(work).await
    }

    /// The request to be elected, for whoever wants to bound the wait ([`Acquire::within`]) or to keep the leadership as a guard:
    /// releasing the guard is resigning, and [`Guard::lost`](crate::Guard::lost) says when it must stop to lead.
    ///
    /// # Errors
    ///
    /// Awaiting it gives a [`LockError`](crate::LockError).
    pub fn stand(&self) -> Acquire {
        self.0.lock()
    }
}

/// Who leads, one after the other. From [`Election::leaders`].
#[derive(Debug)]
pub struct Leaders<'a> {
    election: &'a Election,
    /// Who was led by, when that was last told; `None` within: by nobody.
    told: Option<Option<Owner>>,
}

impl Leaders<'_> {
    /// How often the store is asked. Nobody is told of what others hold, so that holding costs nothing.
    const LOOK: Duration = Duration::from_secs(1);

    /// Who leads, once that is someone else than was told last; `None` when nobody does any more. The first call tells who leads now,
    /// at once. It asks once a second, so a leader that led for less may go by untold.
    ///
    /// # Errors
    ///
    /// [`InspectError`], when the store refuses, or did not answer within the outage limit. The next call asks again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what was not returned is told by the next call.
    pub async fn next(&mut self) -> Result<Option<HolderInfo>, InspectError> {
        let place = self.election.askers.place();
        let mut silent_since = None;
        let mut tries = 0;
        loop {
            let now = place.runtime.now();
            let again = match self.election.leader().await {
                Ok(leader) => {
                    let owner = leader.as_ref().map(|leader| leader.owner.clone());
                    if self.told.as_ref() != Some(&owner) {
                        self.told = Some(owner);
                        return Ok(leader);
                    }
                    (silent_since, tries) = (None, 0);
                    now + Self::LOOK
                }
                Err(InspectError::Store(fault)) if fault.kind != FaultKind::Lasting => {
                    let since = *silent_since.get_or_insert(now);
                    let again = place.runtime.now() + rest(tries, &*place.runtime);
                    if again >= since + self.election.defaults.outage_limit {
                        return Err(InspectError::Store(fault));
                    }
                    tries += 1;
                    again
                }
                Err(error) => return Err(error),
            };
            place.runtime.sleep_until(again).await;
        }
    }
}
