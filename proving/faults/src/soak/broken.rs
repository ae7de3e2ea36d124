//! Leases that an operator broke, and the promises to their holders and to later holders.
//!
//! A holder relies on its lease until it is notified, so another holder in the meantime is not a
//! violation. But the holder is notified soon, never considers itself the holder after its lease
//! has ended, and every later holder has a greater fence.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::judge::{CLOCKS, Circumstances, begins, fence, mode, nanos};
use crate::{
    Account, Stay,
    history::{Entry, What},
    sharing::Wanted,
};

/// The time after a fault within which renewals and pushes work again.
const RECOVERS: Duration = Duration::from_secs(1);

/// Half of the holders that suffer nothing else know of the break by then: a push takes
/// milliseconds, and a holder checks its guard every 20 ms. For most, the next renewal would come
/// later.
const MOMENTS: Duration = Duration::from_millis(150);

/// The sample size from which the median means something.
const ENOUGH: usize = 5;

/// An operator's request to break a lease, successful or not.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Break {
    key: String,
    /// The fence in the request.
    fence: u64,
    /// The fence that the holder has.
    lease: u64,
    /// The process that held the lease.
    holder: u32,
    /// When the request was sent.
    from: u64,
    /// When the store confirmed it; `None` if it did not.
    until: Option<u64>,
}

/// All breaks of a run, except those that came too late for any lease.
#[derive(Clone, Debug, Default)]
pub(crate) struct Breaks {
    all: Vec<Break>,
    /// Breaks by holder and fence. A lease may have been broken at several keys.
    by_lease: HashMap<(u32, u64), Vec<usize>>,
}

/// The result of breaking leases.
#[derive(Clone, Debug, Default)]
pub(crate) struct Broken {
    /// The number of leases that were broken.
    pub(crate) leases: usize,
    /// The number of leases that may have been broken.
    pub(crate) unanswered: usize,
    /// The times until holders that still held and suffered nothing else knew of it, in ascending
    /// order.
    pub(crate) told_after: Vec<Duration>,
}

impl Breaks {
    pub(crate) fn of(history: &[Entry]) -> Self {
        let mut breaks = Self::default();
        let mut open = HashMap::new();
        for Entry { at, process, task, what } in history {
            let who = (*process, *task);
            if let What::Breaks { fence, holder, key } = what {
                let (key, fence, holder) = (key.clone(), *fence, *holder);
                open.insert(who, Break { key, fence, lease: fence, holder, from: *at, until: None });
            } else if let Some(begun) = open.remove(&who) {
                match what {
                    What::BrokeNothing => {}
                    What::Broke => breaks.add(Break { until: Some(*at), ..begun }),
                    _ => breaks.add(begun),
                }
            }
        }
        // Requests of killed processes, which were never answered.
        open.into_values().for_each(|begun| breaks.add(begun));
        breaks
    }

    fn add(&mut self, broken: Break) {
        self.by_lease.entry((broken.holder, broken.lease)).or_default().push(self.all.len());
        self.all.push(broken);
    }

    /// Adapts the breaks to a quorum, where a lease may be shown with a greater fence than its
    /// holder has: a member that was slow or forgot may have given it another fence since, and if
    /// no majority agrees, the greatest fence is shown.
    pub(crate) fn at_members(self, by_key: &BTreeMap<&str, Vec<&Stay>>) -> Self {
        let mut named = Self::default();
        for mut broken in self.all {
            let stays = by_key.get(broken.key.as_str()).map_or(&[][..], Vec::as_slice);
            let of_holder = || stays.iter().filter(|stay| stay.process == broken.holder);
            if of_holder().all(|stay| fence(stay) != broken.fence) {
                let had = |stay: &&&Stay| {
                    begins(stay) <= broken.from
                        && broken.from <= stay.believed_until
                        && fence(stay) < broken.fence
                };
                broken.lease = of_holder().filter(had).map(|stay| fence(stay)).max().unwrap_or(broken.fence);
            }
            named.add(broken);
        }
        named
    }

    fn of_stay<'a>(&'a self, stay: &'a Stay) -> impl Iterator<Item = &'a Break> {
        let named = self.by_lease.get(&(stay.process, fence(stay)));
        named.into_iter().flatten().map(|number| &self.all[*number]).filter(|broken| broken.is_of(stay))
    }

    /// True if this lease may have been broken at a key by then.
    pub(crate) fn may_have_ended(&self, stay: &Stay, key: &str, at: u64) -> bool {
        self.of_stay(stay).any(|broken| broken.key == key && broken.from <= at)
    }

    /// True if this lease may have been broken at any of its keys.
    pub(crate) fn may_have_broken(&self, stay: &Stay) -> bool {
        self.of_stay(stay).next().is_some()
    }

    /// The latest time until which this lease kept others out: its real end, whatever its holder
    /// believed. Of several keys, only the broken one is free at once.
    pub(crate) fn kept_out_until(&self, stay: &Stay) -> u64 {
        let alone = stay.wish.as_ref().is_none_or(|wish| wish.keys.len() == 1);
        let broken = self.of_stay(stay).filter(|_| alone).filter_map(|broken| broken.until).min();
        stay.believed_until.min(broken.unwrap_or(u64::MAX))
    }

    /// Checks the promises about broken leases.
    pub(crate) fn judge(
        &self,
        circumstances: &Circumstances,
        account: &Account,
        by_key: &BTreeMap<&str, Vec<&Stay>>,
        violations: &mut Vec<String>,
    ) -> Broken {
        let mut told_after = Vec::new();
        for broken in &self.all {
            let Some(until) = broken.until else { continue };
            let stays = by_key.get(broken.key.as_str()).map_or(&[][..], Vec::as_slice);
            fences_are_greater_after(broken, until, self, circumstances, stays, violations);
            // More than one only if readers share a fence, and then it is unknown which of them it
            // was.
            let its = stays.iter().filter(|stay| broken.is_of(stay));
            let Some(stay) = its.min_by_key(|stay| stay.believed_until) else { continue };
            let after = Duration::from_nanos(stay.believed_until.saturating_sub(until));
            let at_peace = circumstances.were_quiet(account, stay.process, broken.from, stay.believed_until);
            let limit = if at_peace { circumstances.told_within } else { circumstances.ttl + CLOCKS };
            if after > limit {
                violations.push(format!(
                    "{}: broken, and believed for {after:?} more, of {limit:?} allowed:\n  {stay}",
                    broken.key
                ));
            }
            // A holder that releases, or whose lease ends, is not notified.
            if at_peace && stay.knew && stay.believed_until < stay.ends && until <= stay.believed_until {
                told_after.push(after);
            }
        }
        told_after.sort();
        let half = told_after.get(told_after.len() / 2).filter(|_| told_after.len() >= ENOUGH);
        let moments = MOMENTS + circumstances.stall;
        if let Some(half) = half.filter(|half| **half > moments) {
            violations.push(format!(
                "who holds a broken lease is not told, but finds out: half of {} after {half:?} or more, of {moments:?} allowed",
                told_after.len()
            ));
        }
        let unanswered = self.all.iter().filter(|broken| broken.until.is_none()).count();
        Broken { leases: self.all.len() - unanswered, unanswered, told_after }
    }
}

impl Break {
    fn is_of(&self, stay: &Stay) -> bool {
        let wanted = stay.wish.as_ref().is_some_and(|wish| wish.keys.contains(&self.key));
        wanted && (self.holder, self.lease) == (stay.process, fence(stay))
    }
}

/// After a break, a holder of the key has a greater fence than the broken lease if one of the two
/// is exclusive; and in any case if it asked after the break. This also holds if the broken lease's
/// holder never heard of its grant.
fn fences_are_greater_after(
    broken: &Break,
    until: u64,
    breaks: &Breaks,
    circumstances: &Circumstances,
    stays: &[&Stay],
    violations: &mut Vec<String>,
) {
    let was_alone = stays.iter().any(|stay| broken.is_of(stay) && mode(stay) == Wanted::Alone);
    for stay in stays.iter().filter(|stay| begins(stay) > until && fence(stay) <= broken.fence) {
        let alone = was_alone || mode(stay) == Wanted::Alone;
        let came_after = stay.asks > until && (alone || !circumstances.readers_share_fences);
        // Granted before the break, and notified late because it had been broken or forgotten
        // itself.
        let told_late = breaks.may_have_ended(stay, &broken.key, begins(stay))
            || circumstances.forgot_between(stay.asks.min(broken.from), begins(stay));
        if came_after || alone && !told_late {
            violations.push(format!(
                "{}: a fence after a break is not greater than that which was broken, {}:\n  {stay}",
                broken.key, broken.fence
            ));
        }
    }
}

impl Circumstances {
    /// True if neither a process nor its store suffered a fault in this period, or shortly before.
    fn were_quiet(&self, account: &Account, process: u32, from: u64, until: u64) -> bool {
        let met = |began: u64, ended: u64| began <= until && from <= ended.saturating_add(nanos(RECOVERS));
        let mut blows = account.stopped.iter().filter(|blow| blow.process == process);
        !self.faults.iter().any(|fault| met(fault.from, fault.until))
            && !blows.any(|blow| met(blow.at, blow.until.unwrap_or(u64::MAX)))
    }
}
