//! The terms of a request for a lock, and what its caller learns while it waits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Backoff, Claim, Drift, HolderInfo, Label, Misuse, Patience, Renewal, Signal, Ttl};

/// The request, with all its settings.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) claim: Claim,
    pub(crate) label: Option<Label>,
    pub(crate) ttl: Ttl,
    pub(crate) signal: Option<Signal>,
    /// The drift for this request, if it is not that of its `Locks`.
    pub(crate) drift: Option<Drift>,
    pub(crate) renewal: Renewal,
    pub(crate) patience: Patience,
    pub(crate) queue_limit: Option<u64>,
    /// True if it joins a queue if it has to wait; otherwise it polls.
    pub(crate) queues: bool,
    pub(crate) on_wait: Option<OnWait>,
}

/// The settings of a lock that does not override them.
#[derive(Clone, Debug)]
pub(crate) struct Defaults {
    pub(crate) signal: Option<Signal>,
    pub(crate) ttl: Result<Ttl, Misuse>,
    pub(crate) label: Result<Option<Label>, Misuse>,
    pub(crate) renewal: Renewal,
    pub(crate) outage_limit: Duration,
    /// Rests between asks, of waiters that do not queue.
    pub(crate) poll: Result<Option<Backoff>, Misuse>,
}

impl Defaults {
    /// 10 s: longer than most failovers and restarts, shorter than people wait before they act.
    const OUTAGE_LIMIT: Duration = Duration::from_secs(10);

    /// Returns TTL and label after checking them and the longest hold.
    pub(crate) fn checked(&self) -> Result<(Ttl, Option<Label>), Misuse> {
        let ttl = self.ttl.clone()?;
        self.poll.clone()?;
        match self.renewal {
            Renewal::AtMost(at_most) if at_most < ttl.duration() => {
                Err(Misuse::HoldShorterThanTtl { at_most, ttl })
            }
            _ => Ok((ttl, self.label.clone()?)),
        }
    }

    /// The terms of a request for this claim, which waits for as long as it takes.
    pub(crate) fn terms(&self, claim: Result<Claim, Misuse>) -> Result<Terms, Misuse> {
        let claim = claim?;
        let (ttl, label) = self.checked()?;
        let mut patience = Patience::new(None, self.outage_limit);
        let poll = self.poll.clone()?;
        patience.backoff = poll.unwrap_or(patience.backoff);
        Ok(Terms {
            claim,
            label,
            ttl,
            signal: self.signal,
            drift: None,
            renewal: self.renewal,
            patience,
            queue_limit: None,
            queues: poll.is_none(),
            on_wait: None,
        })
    }
}

impl Default for Defaults {
    fn default() -> Self {
        Self {
            signal: None,
            ttl: Ok(Ttl::DEFAULT),
            label: Ok(None),
            renewal: Renewal::Automatic,
            outage_limit: Self::OUTAGE_LIMIT,
            poll: Ok(None),
        }
    }
}

/// Defines the settings of a lock, in its `defaults`.
macro_rules! lock_settings {
    () => {
        /// Sets the TTL: how long a lease lasts without renewal, and so how long a crashed holder
        /// keeps others out. 10 ms to a year.
        #[doc(alias = "lease")]
        #[doc(alias = "expiry")]
        pub fn ttl(mut self, ttl: std::time::Duration) -> Self {
            self.defaults.ttl = leasehold_core::Ttl::new(ttl);
            self
        }

        /// Sets what the holder says about itself to observers: printable text of up to 256 bytes;
        /// empty text means nothing.
        pub fn label(mut self, label: &str) -> Self {
            let given = Some(label).filter(|label| !label.is_empty());
            self.defaults.label = given.map(leasehold_core::Label::new).transpose();
            self
        }

        /// Sets whether and for how long the lease is renewed while the guard exists.
        pub const fn renewal(mut self, renewal: leasehold_core::Renewal) -> Self {
            self.defaults.renewal = renewal;
            self
        }
    };
}
pub(crate) use lock_settings;

/// The callback for a request that waits.
#[derive(Clone)]
pub(crate) struct OnWait(pub(crate) Arc<dyn Fn(&WaitStatus) + Send + Sync>);

impl fmt::Debug for OnWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnWait")
    }
}

/// The state of a waiting request at the store's last answer.
///
/// ```
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// use std::time::Duration;
///
/// let locks = leasehold::Locks::in_memory();
/// let _guard = locks.mutex("invoice:42").lock().await?;
/// let request = locks.mutex("invoice:42").lock().within(Duration::from_millis(20));
/// let refused = request.on_wait(|status| match status.place {
///     Some(1) => println!("next, after {}", status.held_by.owner),
///     Some(place) => println!("number {place} in the queue"),
///     None => println!("not queued; held by {}", status.held_by.owner),
/// });
/// assert!(refused.await.is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitStatus {
    /// The holder of the requested lock.
    pub held_by: HolderInfo,
    /// The position in the queue, 1 being next; `None` if the request is not in a queue.
    pub place: Option<u64>,
}
