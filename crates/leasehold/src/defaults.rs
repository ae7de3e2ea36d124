//! The settings of a lock that does not override them.

use std::time::Duration;

use leasehold_core::{Backoff, Claim, Label, Misuse, Patience, Renewal, Signal, Ttl};

use crate::lock::Terms;

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
    /// 10 s: longer than a failover or a restart usually takes, shorter than people wait before
    /// they investigate.
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
