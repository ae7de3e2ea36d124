//! A server: records, a clock, and the semantics of core.

use std::collections::{BTreeSet, VecDeque};

use leasehold_core::{
    Answer, ApplyContext, Attempt, Channel, Fence, Holder, Push, Records, Request, Served, Stamp,
    Subscribers, apply,
};

use crate::clock::Clock;
use crate::flaw::Flaw;
use crate::message::Message;

#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) clock: Clock,
    pub(crate) records: Records,
    /// The channels of open connections, as far as the node knows.
    pub(crate) listening: BTreeSet<Channel>,
    pub(crate) up: bool,
    pub(crate) paused: bool,
    /// The number of times it was started: a restart ends its connections.
    pub(crate) run: u64,
    /// Messages that arrived while it was paused.
    pub(crate) backlog: VecDeque<(Message, bool)>,
    /// Its clock was set or runs wild, so promises that rest on it are suspended.
    pub(crate) clock_is_off: bool,
    flaw: Option<Flaw>,
}

#[derive(Debug)]
struct Listening<'a>(&'a BTreeSet<Channel>);

impl Subscribers for Listening<'_> {
    fn listens(&self, channel: &Channel) -> bool {
        self.0.contains(channel)
    }
}

impl Node {
    pub(crate) fn new(clock: Clock, flaw: Option<Flaw>) -> Self {
        Self { clock, up: true, flaw, ..Self::default() }
    }

    pub(crate) fn stamp(&self, now: u64) -> Stamp {
        Stamp::from_micros(self.clock.at(now) / 1000)
    }

    /// Stops the node: connections break, and its backlog is lost.
    pub(crate) fn dies(&mut self) {
        self.up = false;
        self.paused = false;
        self.run += 1;
        self.listening.clear();
        self.backlog.clear();
    }

    /// Restarts the node without its state.
    pub(crate) fn forgets(&mut self, now: u64) {
        self.records = Records::default();
        if self.flaw != Some(Flaw::NoQuarantine) {
            self.records.voided = Some(self.stamp(now));
        }
    }

    pub(crate) fn serve(&mut self, mut request: Request, now: u64) -> (Answer, Vec<Push>) {
        let stamp = self.stamp(now);
        let mut floor = Fence::new(stamp.as_micros()).unwrap_or(Fence::MAX);
        self.flawed(&mut request, stamp, &mut floor);
        let subscribers = Listening(&self.listening);
        let context = ApplyContext::new(stamp, floor).with_subscribers(&subscribers);
        let Served { answer, mut pushes, mut unfinished } = apply(&mut self.records, request, &context);
        while !unfinished.is_empty() {
            let more = apply(&mut self.records, Request::Advance(unfinished), &context);
            pushes.extend(more.pushes);
            unfinished = more.unfinished;
        }
        (answer, pushes)
    }

    /// All holders and waiters.
    pub(crate) fn holders(&self, now: Stamp) -> impl Iterator<Item = Holder> {
        let owners = self.records.locks.keys().flat_map(move |key| self.records.holder_ids(key, now));
        let lines = self.records.queues.keys().filter_map(move |key| self.records.queue(key, now));
        owners.chain(lines.flat_map(|line| line.waiters().map(|(_, waiter)| waiter.holder)))
    }

    /// Changes the request, or the records, as a node would serve it that lacks the rule.
    fn flawed(&mut self, request: &mut Request, stamp: Stamp, floor: &mut Fence) {
        match (self.flaw, request) {
            (Some(Flaw::ReleasedWithoutComparing), Request::Release(attempt)) => {
                let held_by = self.records.holder_ids(attempt.claim.first_key(), stamp);
                attempt.holder = held_by.first().copied().unwrap_or(attempt.holder);
            }
            (Some(Flaw::JoinedWithoutComparing), Request::Rejoin { attempt, .. }) => {
                attempt.claim.keys().for_each(|key| drop(self.records.locks.remove(key)));
            }
            (Some(Flaw::NothingIsTooLate), Request::Grant { not_after, .. }) => *not_after = None,
            (Some(Flaw::FenceWithoutFloor), request) => {
                *floor = Fence::new(1).unwrap_or(*floor);
                if let Request::Grant { attempt: Attempt { proposal: Some(proposal), .. }, .. } = request {
                    proposal.fence = *floor;
                }
            }
            _ => {}
        }
    }
}
