//! Waiting until a lock is free, without acquiring it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use leasehold_core::{
    Acquire as Machine, Backoff, BoxFuture, Claim, Fault, GrantAnswer, KeyState, Misuse, Owner, Patience,
    Step, Ttl,
};

use crate::error::LockError;
use crate::store_handle::{Askers, StoreHandle};

/// A wait until a lock is free, without acquiring it and without joining its queue. It does nothing
/// until it is awaited or polled. It owns everything it needs, so it can be spawned; its settings
/// have no effect after the first poll.
///
/// When it resolves, somebody else may already hold the lock. So it is for programs that accept
/// this, such as a deployment that waits for a migration to end. To acquire the lock, use
/// [`Mutex::lock`](crate::Mutex::lock).
///
/// The store does not notify observers, so it is polled: after 5 ms at first, later every 75 to 150
/// ms, and just after the holder's end.
///
/// # Cancel safety
///
/// Cancel safe.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use std::time::Duration;
///
/// let locks = leasehold::Locks::in_memory();
/// let migration = locks.mutex("migration").lock().await?;
/// let still_runs = locks.mutex("migration").unlocked().within(Duration::from_millis(20)).await;
/// assert!(still_runs.is_err());
/// migration.release().await?;
/// locks.mutex("migration").unlocked().await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a wait does nothing until it is awaited"]
pub struct Unlocked {
    askers: Arc<Askers>,
    claim: Result<Claim, Misuse>,
    patience: Patience,
    /// From the first poll on.
    waiting: Option<BoxFuture<'static, Result<(), LockError>>>,
}

impl Unlocked {
    pub(crate) const fn new(
        askers: Arc<Askers>,
        claim: Result<Claim, Misuse>,
        outage_limit: Duration,
    ) -> Self {
        Self { askers, claim, patience: Patience::new(None, outage_limit), waiting: None }
    }

    /// Limits the wait; zero checks once. Without a limit, it waits for as long as it takes.
    pub fn within(mut self, limit: Duration) -> Self {
        self.patience.within = Some(limit);
        self
    }

    /// Limits the wait for a store that does not answer, for this wait instead of
    /// [all](crate::LocksBuilder::outage_limit).
    pub fn outage_limit(mut self, limit: Duration) -> Self {
        self.patience.outage_limit = limit;
        self
    }

    /// Sets the pauses between checks.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.patience.backoff = backoff;
        self
    }
}

impl Future for Unlocked {
    type Output = Result<(), LockError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { askers, claim, patience, waiting } = self.get_mut();
        let waiting = waiting.get_or_insert_with(|| {
            let (askers, claim, patience) = (askers.clone(), claim.clone(), *patience);
            Box::pin(async move { unlocked(&askers.handle, claim?, patience).await })
        });
        waiting.as_mut().poll(context)
    }
}

impl fmt::Debug for Unlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unlocked").field("claim", &self.claim).finish_non_exhaustive()
    }
}

/// Uses the state machine of an acquisition that is never granted: its pauses and time limits are
/// the same.
async fn unlocked(handle: &StoreHandle, claim: Claim, patience: Patience) -> Result<(), LockError> {
    let runtime = &handle.runtime;
    let started = runtime.now();
    let seed = runtime.random_bits();
    let mut machine = Machine::new(started, Ttl::DEFAULT, handle.drift, patience, seed);
    loop {
        if let Some(reason) = handle.registry.closed_because() {
            return Err(LockError::Closed { reason });
        }
        match machine.next(runtime.now()) {
            Step::Ask => {
                machine.handle_sent(runtime.now());
                let Step::WaitUntil(limit) = machine.next(runtime.now()) else { continue };
                let Some(looked) = runtime.before(limit, look(handle, &claim)).await else { continue };
                let now = runtime.now();
                match looked {
                    Ok(None) => return Ok(()),
                    Ok(Some(answer)) => machine.handle_answer(now, answer),
                    Err(fault) => machine.handle_fault(now, fault),
                }
            }
            Step::WaitUntil(until) => tokio::select! {
                biased;
                () = runtime.sleep_until(until) => {}
                () = handle.registry.closed() => {}
            },
            Step::Done(outcome) => {
                let waited = runtime.now().saturating_since(started);
                let (key, store) = (claim.first_key().clone(), handle.store.name());
                let error = |why| LockError::of(why, store, key, waited, machine.asks(), None);
                return outcome.map(drop).map_err(error);
            }
        }
    }
}

/// The refusal that a request for these keys would get; `None` if all keys are free.
async fn look(handle: &StoreHandle, claim: &Claim) -> Result<Option<GrantAnswer>, Fault> {
    for key in claim.keys() {
        let looking = async { handle.store.inspector()?.inspect(key).await };
        let KeyState { holders, .. } = handle.reported(looking).await?;
        let Some(held_by) = holders.into_iter().next() else { continue };
        return Ok(Some(match held_by.owner {
            Owner::NotALock => GrantAnswer::NotALock { key: key.clone() },
            _ => GrantAnswer::Busy { held_by, place: None },
        }));
    }
    Ok(None)
}
