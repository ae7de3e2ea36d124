//! Facts about a run that its history does not contain: settings, faults, limits.

use std::time::Duration;

use super::fault::Fault;
use crate::ParsedHistory;

#[derive(Clone, Debug, Default)]
pub(crate) struct Circumstances {
    pub(crate) ttl: Duration,
    /// Faults by which a store forgot leases, so that two guards could be valid at once.
    pub(crate) forgotten: Vec<Fault>,
    /// Faults by which a store or a member forgot: marks may be gone, and grants of a bare majority.
    pub(crate) forgotten_somewhere: Vec<Fault>,
    /// Periods in which nothing could be granted.
    pub(crate) down: Vec<Fault>,
    /// All faults of the store and of the connections to it.
    pub(crate) faults: Vec<Fault>,
    /// How soon an unharmed holder knows of a break: at its next renewal at the latest.
    pub(crate) told_within: Duration,
    /// The delay that the machine may have added to an exchange between two processes.
    pub(crate) stall: Duration,
    /// The longest time for which a key may be free while somebody wants it and the store is up.
    pub(crate) longest_gap: Duration,
    /// True if readers may share a fence, and a lease be shown with a greater one than it has.
    pub(crate) is_quorum: bool,
}

/// The difference between clocks of one machine, and their rounding.
pub(crate) const CLOCKS: Duration = Duration::from_millis(50);

/// The time after a fault within which renewals and pushes work again.
const RECOVERS: Duration = Duration::from_secs(1);

impl Circumstances {
    /// True if a store forgot leases in this period.
    pub(crate) fn forgot_between(&self, from: u64, until: u64) -> bool {
        self.forgotten.iter().any(|fault| from <= fault.until && fault.from <= until)
    }

    /// True if neither a process nor its store suffered a fault in this period, or shortly before.
    pub(crate) fn were_quiet(
        &self,
        parsed_history: &ParsedHistory,
        process: u32,
        from: u64,
        until: u64,
    ) -> bool {
        let met = |began: u64, ended: u64| began <= until && from <= ended.saturating_add(nanos(RECOVERS));
        let mut faults = parsed_history.stopped.iter().filter(|fault| fault.process == process);
        !self.faults.iter().any(|fault| met(fault.from, fault.until))
            && !faults.any(|fault| met(fault.at, fault.until.unwrap_or(u64::MAX)))
    }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
