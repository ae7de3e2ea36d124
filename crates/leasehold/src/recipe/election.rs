//! Leader election among several candidates.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Claim, FaultKind, HolderInfo, KeyState, Misuse, Owner, Renewal, Ttl, Waiter};

use crate::defaults::Defaults;
use crate::error::{HoldError, InspectError};
use crate::lock::{Acquire, Held};
use crate::locks::Askers;
use crate::mutex::Mutex;
use crate::store_handle::rest;

/// A leadership that one of several candidates has at a time. Making and cloning it does no I/O.
///
/// It is the lock of the same name: the leader holds it, and the candidates wait in its queue,
/// first come, first served. So `leasehold show` lists the leader and the candidates, and a leader
/// that died is replaced when its lease ends.
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
/// A leader that is paused past the end of its lease considers itself the leader until it checks.
/// Its fence is the number of its term: send it with everything that a leader writes, and let the
/// receiver refuse a fence smaller than one that it has seen.
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

    /// Sets the TTL: how long it takes to replace a leader that died. A live leader renews its
    /// lease for as long as it leads.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.defaults.ttl = Ttl::new(ttl);
        self
    }

    /// A candidate under a name that the others can see: printable text of up to 256 bytes. Names
    /// need not differ; a candidate that applies twice is two candidates.
    pub fn candidate(&self, name: &str) -> Candidate {
        let defaults = Defaults { renewal: Renewal::Automatic, ..self.defaults.clone() };
        Candidate(Mutex::new(self.askers.clone(), self.claim.clone(), defaults).label(name))
    }

    /// The current leader; `None` while there is none. The label is the leader's name as a
    /// candidate, and the fence is the number of its term.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses, or the name cannot be a key.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn leader(&self) -> Result<Option<HolderInfo>, InspectError> {
        Ok(self.state().await?.holders.into_iter().next())
    }

    /// The waiting candidates, in the order in which they would lead. The leader is not among them.
    ///
    /// # Errors
    ///
    /// As [`leader`](Self::leader).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn candidates(&self) -> Result<Vec<Waiter>, InspectError> {
        Ok(self.state().await?.waiters)
    }

    /// The current leader, and then each next one, for those that follow a leader and are not
    /// candidates.
    pub const fn leaders(&self) -> Leaders<'_> {
        Leaders { election: self, told: None }
    }

    async fn state(&self) -> Result<KeyState, InspectError> {
        let claim = self.claim.clone()?;
        self.askers.handle().inspect(claim.first_key()).await.map_err(InspectError::Store)
    }
}

/// A candidate in an election.
#[derive(Clone, Debug)]
#[must_use = "a candidate does nothing until it stands or leads"]
pub struct Candidate(Mutex);

impl Candidate {
    /// Waits to be elected, leads while `work` runs, and resigns. The work is stopped at an await
    /// when the leadership is lost; by returning, it ends the leadership. The next candidate then
    /// leads at once.
    ///
    /// # Errors
    ///
    /// [`HoldError::NotTaken`] if it was never elected; [`HoldError::Lost`] if the work was
    /// stopped; [`HoldError::LostUnnoticed`] if the work returned, but another leader had taken
    /// over by then. Call this again to try again.
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

    /// The request to be elected, for programs that limit the wait ([`Acquire::within`]) or keep
    /// the leadership as a guard. Releasing the guard is resigning, and
    /// [`Guard::lost`](crate::Guard::lost) says when the leader must stop.
    ///
    /// # Errors
    ///
    /// Awaiting it may return a [`LockError`](crate::LockError).
    pub fn stand(&self) -> Acquire {
        self.0.lock()
    }
}

/// The leaders, one after the other. From [`Election::leaders`].
#[derive(Debug)]
pub struct Leaders<'a> {
    election: &'a Election,
    /// The last leader that was returned; the inner `None` means that nobody led.
    told: Option<Option<Owner>>,
}

impl Leaders<'_> {
    /// How often the store is asked. Observers are not notified of holders, so that holding a lock
    /// costs nothing.
    const LOOK: Duration = Duration::from_secs(1);

    /// The leader, once it differs from the last one returned; `None` if nobody leads any more. The
    /// first call returns the current leader at once. The store is asked once a second, so a leader
    /// that led for less may be missed.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store refuses, or did not answer within the outage limit. The next
    /// call asks again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a change that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Result<Option<HolderInfo>, InspectError> {
        let handle = self.election.askers.handle();
        let mut silent_since = None;
        let mut tries = 0;
        loop {
            let now = handle.runtime.now();
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
                    let again = handle.runtime.now() + rest(tries, &*handle.runtime);
                    if again >= since + self.election.defaults.outage_limit {
                        return Err(InspectError::Store(fault));
                    }
                    tries += 1;
                    again
                }
                Err(error) => return Err(error),
            };
            handle.runtime.sleep_until(again).await;
        }
    }
}
