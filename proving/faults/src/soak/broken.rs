//! Leases that an operator broke. A holder relies on its lease until it is notified, so another holder
//! meanwhile is no violation. But it is notified soon, never relies on it past its end, and every later
//! holder has a greater fence.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::circumstances::{CLOCKS, Circumstances};
use crate::{
    ParsedHistory, RequestSpan,
    history::{Entry, EventKind},
    wish::Wanted,
};

/// By then, half of the otherwise unharmed holders know of the break: a push takes milliseconds, and a
/// guard is checked every 20 ms. For most, the next renewal would come later.
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
    pub(crate) leases: usize,
    /// The number of leases that may have been broken.
    pub(crate) unanswered: usize,
    /// How long unharmed holders took to learn of it, in ascending order.
    pub(crate) told_after: Vec<Duration>,
}

impl Breaks {
    pub(crate) fn of(history: &[Entry]) -> Self {
        let mut breaks = Self::default();
        let mut open = HashMap::new();
        for Entry { at, process, task, what } in history {
            let who = (*process, *task);
            if let EventKind::Breaks { fence, holder, key } = what {
                let (key, fence, holder) = (key.clone(), *fence, *holder);
                open.insert(who, Break { key, fence, lease: fence, holder, from: *at, until: None });
            } else if let Some(begun) = open.remove(&who) {
                match what {
                    EventKind::BrokeNothing => {}
                    EventKind::Broke => breaks.add(Break { until: Some(*at), ..begun }),
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

    /// Adapts breaks to a quorum, which shows a lease's greatest fence if no majority agrees.
    pub(crate) fn at_members(self, by_key: &BTreeMap<&str, Vec<&RequestSpan>>) -> Self {
        let mut named = Self::default();
        for mut broken in self.all {
            let spans = by_key.get(broken.key.as_str()).map_or(&[][..], Vec::as_slice);
            let of_holder = || spans.iter().filter(|span| span.process == broken.holder);
            if of_holder().all(|span| span.fence() != broken.fence) {
                let had = |span: &&&RequestSpan| {
                    span.begins() <= broken.from
                        && broken.from <= span.believed_until
                        && span.fence() < broken.fence
                };
                broken.lease = of_holder().filter(had).map(|span| span.fence()).max().unwrap_or(broken.fence);
            }
            named.add(broken);
        }
        named
    }

    fn of_stay<'a>(&'a self, span: &'a RequestSpan) -> impl Iterator<Item = &'a Break> {
        let named = self.by_lease.get(&(span.process, span.fence()));
        named.into_iter().flatten().map(|number| &self.all[*number]).filter(|broken| broken.is_of(span))
    }

    /// True if this lease may have been broken at a key by then.
    pub(crate) fn may_have_ended(&self, span: &RequestSpan, key: &str, at: u64) -> bool {
        self.of_stay(span).any(|broken| broken.key == key && broken.from <= at)
    }

    /// True if this lease may have been broken at any of its keys.
    pub(crate) fn may_have_broken(&self, span: &RequestSpan) -> bool {
        self.of_stay(span).next().is_some()
    }

    /// The latest time until which this lease kept others out: its real end, whatever its holder
    /// believed. Of several keys, only the broken one is free at once.
    pub(crate) fn kept_out_until(&self, span: &RequestSpan) -> u64 {
        let alone = span.wish.as_ref().is_none_or(|wish| wish.keys.len() == 1);
        let broken = self.of_stay(span).filter(|_| alone).filter_map(|broken| broken.until).min();
        span.believed_until.min(broken.unwrap_or(u64::MAX))
    }

    /// Checks the promises about broken leases.
    pub(crate) fn judge(
        &self,
        circumstances: &Circumstances,
        parsed_history: &ParsedHistory,
        by_key: &BTreeMap<&str, Vec<&RequestSpan>>,
        violations: &mut Vec<String>,
    ) -> Broken {
        let mut told_after = Vec::new();
        for broken in &self.all {
            let Some(until) = broken.until else { continue };
            let spans = by_key.get(broken.key.as_str()).map_or(&[][..], Vec::as_slice);
            fences_are_greater_after(broken, until, self, circumstances, spans, violations);
            // More than one only if readers share a fence; it is unknown which of them it was.
            let its = spans.iter().filter(|span| broken.is_of(span));
            let Some(span) = its.min_by_key(|span| span.believed_until) else { continue };
            let after = Duration::from_nanos(span.believed_until.saturating_sub(until));
            let at_peace =
                circumstances.were_quiet(parsed_history, span.process, broken.from, span.believed_until);
            let limit = if at_peace { circumstances.told_within } else { circumstances.ttl + CLOCKS };
            if after > limit {
                violations.push(format!(
                    "{}: broken, and believed for {after:?} more, of {limit:?} allowed:\n  {span}",
                    broken.key
                ));
            }
            // A holder that releases, or whose lease ends, is not notified.
            if at_peace && span.knew && span.believed_until < span.ends && until <= span.believed_until {
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
    fn is_of(&self, span: &RequestSpan) -> bool {
        let wanted = span.wish.as_ref().is_some_and(|wish| wish.keys.contains(&self.key));
        wanted && (self.holder, self.lease) == (span.process, span.fence())
    }
}

/// After a break, a holder that asked after it, or of which one is exclusive, has a greater fence: also
/// if the broken lease's holder never heard of its grant.
fn fences_are_greater_after(
    broken: &Break,
    until: u64,
    breaks: &Breaks,
    circumstances: &Circumstances,
    spans: &[&RequestSpan],
    violations: &mut Vec<String>,
) {
    let was_alone = spans.iter().any(|span| broken.is_of(span) && span.mode() == Wanted::Alone);
    for span in spans.iter().filter(|span| span.begins() > until && span.fence() <= broken.fence) {
        let alone = was_alone || span.mode() == Wanted::Alone;
        let came_after = span.asks > until && (alone || !circumstances.is_quorum);
        // Granted before, and notified late because it had been broken or forgotten itself.
        let told_late = breaks.may_have_ended(span, &broken.key, span.begins())
            || circumstances.forgot_between(span.asks.min(broken.from), span.begins());
        if came_after || alone && !told_late {
            violations.push(format!(
                "{}: a fence after a break is not greater than that which was broken, {}:\n  {span}",
                broken.key, broken.fence
            ));
        }
    }
}
