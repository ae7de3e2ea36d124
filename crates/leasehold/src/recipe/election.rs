//! Leader election among several candidates.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use leasehold_core::{BoxFuture, HolderInfo, Instant, KeyState, Renewal, Waiter};

use crate::error::{HoldError, InspectError};
use crate::lock::{Acquire, Held};
use crate::mutex::Mutex;

/// A leadership that one of several candidates has at a time. Making and cloning it does no I/O.
///
/// It is the lock of the same name: the leader holds it, and the candidates wait in its queue,
/// first come, first served. So `leasehold show` lists the leader and the candidates, and a leader
/// that died is replaced when its lease ends.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let locks = leasehold::Locks::in_memory();
/// let scheduler = locks.election("scheduler");
/// let done = scheduler.candidate("node-3").lead(async |leading| format!("term {}", leading.fence())).await?;
/// assert!(done.starts_with("term "));
/// assert!(scheduler.leader().await?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
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
    lock: Mutex,
}

impl Election {
    pub(crate) fn new(lock: Mutex) -> Self {
        Self { lock: lock.renewal(Renewal::Automatic) }
    }

    /// Sets the TTL: how long it takes to replace a leader that died. A live leader renews its
    /// lease for as long as it leads.
    pub fn ttl(self, ttl: Duration) -> Self {
        Self { lock: self.lock.ttl(ttl) }
    }

    /// A candidate under a name that the others can see: printable text of up to 256 bytes. Names
    /// need not differ; a candidate that applies twice is two candidates.
    pub fn candidate(&self, name: &str) -> Candidate {
        Candidate(self.lock.clone().label(name))
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
    pub fn leaders(&self) -> Leaders {
        Leaders { election: self.clone(), following: Following::default(), looking: None }
    }

    /// The leader, once it differs from the one that was returned last.
    async fn leader_after(&self, following: &mut Following) -> Next {
        let handle = &self.lock.askers.handle;
        loop {
            if let Some(asked_at) = following.asked_at {
                handle.runtime.sleep_until(asked_at + Leaders::LOOK).await;
            }
            let now = handle.runtime.now();
            following.asked_at = Some(now);
            let claim = self.lock.claim.clone()?;
            let look =
                || handle.reported(async { handle.store.inspector()?.inspect(claim.first_key()).await });
            let state = handle.look_until(now + self.lock.defaults.outage_limit, look).await;
            let leader = state.map_err(InspectError::Store)?.holders.into_iter().next();
            let is_told = match (following.told.as_ref(), &leader) {
                // In a quorum it may have another id at the member that answers first now.
                (Some(Some(told)), Some(leader)) => told.owner.is_same(&leader.owner),
                (Some(None), None) => true,
                _ => false,
            };
            if !is_told {
                following.told = Some(leader.clone());
                return Ok(leader);
            }
        }
    }

    async fn state(&self) -> Result<KeyState, InspectError> {
        let claim = self.lock.claim.clone()?;
        self.lock.askers.handle.inspect(claim.first_key()).await
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

/// The leaders, one after the other; from [`Election::leaders`].
///
/// It owns everything it needs. It is a [`Stream`] that never ends, of what
/// [`next`](Self::next) returns.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// let locks = leasehold::Locks::in_memory();
/// let scheduler = locks.election("scheduler");
/// let _leadership = scheduler.candidate("node-3").stand().await?;
/// let mut leaders = scheduler.leaders();
/// let leader = leaders.next().await?.expect("there is one");
/// assert!(leader.owner.to_string().starts_with("node-3"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct Leaders {
    election: Election,
    following: Following,
    /// The request that the stream waits for.
    looking: Option<BoxFuture<'static, (Next, Following)>>,
}

type Next = Result<Option<HolderInfo>, InspectError>;

#[derive(Clone, Debug, Default)]
struct Following {
    /// The leader that was returned last, if any; `None` within: nobody led.
    told: Option<Option<HolderInfo>>,
    /// When the store was last asked.
    asked_at: Option<Instant>,
}

impl Stream for Leaders {
    type Item = Result<Option<HolderInfo>, InspectError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let looking = this.looking.get_or_insert_with(|| {
            let (election, mut following) = (this.election.clone(), this.following.clone());
            Box::pin(async move { (election.leader_after(&mut following).await, following) })
        });
        let (next, following) = ready!(looking.as_mut().poll(context));
        (this.following, this.looking) = (following, None);
        Poll::Ready(Some(next))
    }
}

impl fmt::Debug for Leaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leaders").field("election", &self.election).finish_non_exhaustive()
    }
}

impl Leaders {
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
    /// call asks again, also once a second at most.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a change that was not returned is returned by the next call.
    pub async fn next(&mut self) -> Result<Option<HolderInfo>, InspectError> {
        // The stream's request may be out of date by now.
        self.looking = None;
        self.election.leader_after(&mut self.following).await
    }
}
