//! The invariants, checked after every step:
//!
//! - At most one guard of a key considers itself valid, and fences increase in the order of grants.
//! - A guard whose lease has ended is notified before time advances, and is never valid again.
//! - Nothing of an attempt appears at a node once a store has said that nothing can be left there.
//! - Every stored entry expires.
//! - After all faults, nothing is left of a finished request, and nobody waits for ever.
//!
//! A fault that breaks a promise's precondition (a set clock, a deleted key) suspends the promise until
//! every earlier lease has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold::Held;
use leasehold_core::{Fence, Holder, Key};

use crate::dice::Dice;
use crate::executor::Process as _;
use crate::machine::Machine;
use crate::node::Node;
use crate::plan::FaultKind;
use crate::words;

#[derive(Debug, Default)]
pub(crate) struct Watch {
    dice: Dice,
    pub(crate) faults: BTreeSet<FaultKind>,
    pub(crate) grants: usize,
    pub(crate) violation: Option<String>,
    last_trouble: u64,
    /// The total by which clocks of nodes were set back; entries may last longer by this time.
    pub(crate) set_back: u64,
    guards: Vec<Believed>,
    last_guard: u64,
    /// For each key, its grants: the time and the fence.
    history: BTreeMap<Key, Vec<(u64, Fence)>>,
    /// For each key, the greatest fence since exclusion was last promised.
    greatest: BTreeMap<Key, Fence>,
    exclusion_from: u64,
    single: bool,
    state_lost: bool,
    fences_promised: bool,
    max_ttl: Duration,
    given_up: BTreeSet<(usize, Holder)>,
    /// Processes whose lease clock ran wild.
    clocks_off: BTreeSet<usize>,
    requests: BTreeMap<String, Asked>,
    gone: BTreeSet<usize>,
}

#[derive(Debug)]
struct Believed {
    number: u64,
    machine: Arc<Machine>,
    held: Held,
    told: Arc<AtomicBool>,
    was_lost: bool,
}

/// A request for a lock, and its guard.
#[derive(Clone, Copy, Debug)]
struct Asked {
    process: usize,
    since: u64,
    waits: bool,
    /// The time at which its process had finished with it.
    over: Option<u64>,
}

/// The longest wait after all faults: five other holders for seven seconds each, and a margin.
const SERVED_WITHIN: u64 = 60_000_000_000;

/// The time after all faults within which the remains of a finished request must disappear.
const CLEARED_WITHIN: u64 = 1_500_000_000;

impl Watch {
    pub(crate) fn new(dice: Dice, single: bool, max_ttl: Duration) -> Self {
        Self { dice, single, fences_promised: true, max_ttl, ..Self::default() }
    }

    /// Records a violation; the first one counts.
    pub(crate) fn fail(&mut self, what: String) {
        self.violation.get_or_insert(what);
    }

    /// Notes that a fault lasts until then; returns dice for its details.
    pub(crate) fn troubled_until(&mut self, until: u64) -> Dice {
        self.last_trouble = self.last_trouble.max(until);
        self.dice.fork()
    }

    pub(crate) fn begins(&mut self, label: &str, process: usize, now: u64) {
        self.requests.insert(label.to_owned(), Asked { process, since: now, waits: true, over: None });
    }

    /// The process has neither a request nor a guard with this label any more.
    pub(crate) fn is_over(&mut self, label: &str, now: u64) {
        if let Some(asked) = self.requests.get_mut(label) {
            (asked.waits, asked.over) = (false, Some(now));
        }
    }

    /// A request was granted. Returns the number of the guard.
    pub(crate) fn granted(
        &mut self,
        machine: &Arc<Machine>,
        held: Held,
        told: Arc<AtomicBool>,
        asked: u64,
        now: u64,
    ) -> u64 {
        self.grants += 1;
        self.last_guard += 1;
        if let Some(asked) = held.label().and_then(|label| self.requests.get_mut(label)) {
            asked.waits = false;
        }
        let fence = held.fence();
        for key in held.keys() {
            let before = self.history.entry(key.clone()).or_default();
            let repeated = before.iter().find(|(at, other)| *at <= asked && *other >= fence);
            if let Some((_, other)) = repeated.filter(|_| self.fences_promised) {
                let text = format!("{key}: {fence} was granted to a request made after {other} was granted");
                self.violation.get_or_insert(text);
            }
            before.push((now, fence));
            if !self.fences_promised || now < self.exclusion_from {
                continue;
            }
            if let Some(greatest) = self.greatest.get(key).filter(|greatest| **greatest >= fence) {
                let text = format!("{key}: {fence} was granted after {greatest}");
                self.violation.get_or_insert(text);
            }
            let greatest = self.greatest.entry(key.clone()).or_insert(fence);
            *greatest = fence.max(*greatest);
        }
        let believed =
            Believed { number: self.last_guard, machine: machine.clone(), held, told, was_lost: false };
        self.guards.push(believed);
        self.last_guard
    }

    /// A guard is about to be released or dropped.
    pub(crate) fn retires(&mut self, number: u64) {
        self.guards.retain(|guard| guard.number != number);
    }

    pub(crate) fn process_is_gone(&mut self, process: usize) {
        self.guards.retain(|guard| guard.machine.number != process);
        self.gone.insert(process);
    }

    pub(crate) fn after_step(&mut self, now: u64) {
        for n in 0..self.guards.len() {
            let guard = &mut self.guards[n];
            let held = guard.held.is_held();
            if held && guard.was_lost {
                self.violation.get_or_insert_with(|| "a lost guard is valid again".into());
                return;
            }
            guard.was_lost = !held;
        }
        if now < self.exclusion_from {
            return;
        }
        for (n, one) in self.guards.iter().enumerate().filter(|(_, one)| !one.was_lost) {
            for other in self.guards[n + 1..].iter().filter(|other| !other.was_lost) {
                if let Some(key) = one.held.keys().find(|key| other.held.keys().any(|other| other == *key)) {
                    let (a, b) = (one.machine.number, other.machine.number);
                    let (f, g) = (one.held.fence(), other.held.fence());
                    self.violation
                        .get_or_insert_with(|| format!("{key}: p{a} ({f}) and p{b} ({g}) hold it at once"));
                    return;
                }
            }
        }
    }

    /// Checks, before time advances, that every guard whose lease has ended was notified.
    pub(crate) fn before_time_goes_on(&mut self) {
        let untold = self.guards.iter().find(|guard| {
            !guard.machine.is_paused() && !guard.held.is_held() && !guard.told.load(Ordering::Relaxed)
        });
        if let Some(guard) = untold {
            self.fail(format!("p{}: a lease has ended, but lost() has not completed", guard.machine.number));
        }
    }

    /// Checks the records of a node that has just served something.
    pub(crate) fn look_at(&mut self, number: usize, node: &Node, now: u64) {
        let endless = node.records.locks.values().any(|lock| lock.ends.is_none())
            || node.records.queues.values().any(|line| line.ends().is_none() && !line.is_empty());
        if endless {
            self.fail(format!("n{number} stores an entry that never expires"));
        }
        if node.clock_is_off {
            return;
        }
        let stamp = node.stamp(now);
        let back = node.holders(stamp).find(|holder| self.given_up.contains(&(number, *holder)));
        if let Some(holder) = back {
            self.fail(format!("n{number}: {} appeared again after it was given up", words::id(holder)));
        }
    }

    pub(crate) fn given_up(&mut self, process: usize, number: usize, node: &Node, holder: Holder, now: u64) {
        if !self.clocks_off.contains(&process) {
            self.given_up.insert((number, holder));
            self.look_at(number, node, now);
        }
    }

    /// Checks now and then that nobody waits too long.
    pub(crate) fn look_for_the_starving(&mut self, now: u64) {
        let limit = SERVED_WITHIN + self.set_back;
        let starves = |asked: &Asked| {
            let since = asked.since.max(self.last_trouble);
            asked.waits && !self.gone.contains(&asked.process) && now.saturating_sub(since) > limit
        };
        let starving = self.requests.iter().find(|(_, asked)| starves(asked));
        if let Some(label) = starving.map(|(label, _)| label.clone()) {
            self.fail(format!("{label} was not served, although all faults ended long ago"));
        }
    }

    /// Checks now and then that nothing is left of a finished request.
    pub(crate) fn look_for_remains(&mut self, number: usize, node: &Node, now: u64) {
        let stamp = node.stamp(now);
        let calm = now.saturating_sub(self.last_trouble) > CLEARED_WITHIN && !node.clock_is_off;
        if !calm || node.records.voided.is_some() {
            return;
        }
        let mut labels: Vec<String> = Vec::new();
        for key in node.records.locks.keys() {
            if let Some(leasehold_core::Content::Lease { label: Some(label), .. }) =
                node.records.lock(key, stamp).map(|lock| &lock.content)
            {
                labels.push(label.as_str().to_owned());
            }
            let line =
                node.records.queue(key, stamp).into_iter().flat_map(leasehold_core::WaitQueue::waiters);
            let waiters = line.filter_map(|(_, waiter)| waiter.label.as_ref());
            labels.extend(waiters.map(|label| label.as_str().to_owned()));
        }
        for label in labels {
            let Some(Asked { process, over: Some(over), .. }) = self.requests.get(&label) else { continue };
            if !self.gone.contains(process) && now.saturating_sub(*over) > CLEARED_WITHIN {
                self.fail(format!("n{number}: {label} is finished, but something of it is left"));
            }
        }
    }

    /// Suspends exclusion until every lease from before `until` has ended.
    pub(crate) fn excuse_exclusion(&mut self, until: u64) {
        let all_ended = self.max_ttl * 3 / 2 + Duration::from_secs(2);
        let from = until + u64::try_from(all_ended.as_nanos()).unwrap_or(0);
        self.exclusion_from = self.exclusion_from.max(from);
        self.greatest.clear();
    }

    pub(crate) fn state_is_lost(&mut self, now: u64) {
        self.state_lost = true;
        self.fences_promised &= self.set_back == 0;
        if self.single {
            self.excuse_exclusion(now);
        }
    }

    pub(crate) fn key_is_lost(&mut self, now: u64, fence_too: bool) {
        self.excuse_exclusion(now);
        if fence_too {
            self.state_lost = true;
            // A member that loses a fence without a restart does not abstain.
            self.fences_promised &= self.single && self.set_back == 0;
        }
    }

    pub(crate) fn node_clock_is_set(&mut self, now: u64, by: i64) {
        // If it is set forward, leases and the time of abstaining end early.
        self.excuse_exclusion(now);
        self.set_back += u64::try_from(-by).unwrap_or(0);
        // The same holds if it is set forward: then the clocks of the others are behind.
        self.fences_promised &= !self.state_lost;
        if by > 0 && !self.single {
            self.set_back += 1;
        }
    }

    pub(crate) fn clock_is_off(&mut self, process: usize) {
        self.clocks_off.insert(process);
    }
}
