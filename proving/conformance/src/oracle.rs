//! The expected results of the histories of the differential test.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use leasehold_core::{
    Answer, ApplyContext, BreakNote, Channel, Content, Fence, GrantAnswer, Holder, HolderInfo, Key, Label,
    LastFence, LeaseBreak, Lock, Proposal, Records, Request, Served, Stamp, Subscribers, Ticket, apply,
};
use leasehold_redis::wire::{self, mark_of};

use crate::dump::{Dump, MemberRecord, QueueDump, SharesDump};
use crate::sequence::{LONGEST, RUN, Step, WINDOW, heard};

/// The tickets that one side gave, and the fences that it showed.
#[derive(Debug, Default)]
pub struct Tickets {
    tickets: HashMap<Holder, (Key, Ticket)>,
    fences: HashMap<Key, Fence>,
}

impl Tickets {
    /// The requests of a step, as they are sent.
    pub fn requests(&self, step: &Step) -> Vec<Request> {
        match step {
            Step::Ask(request) => vec![request.clone()],
            Step::Return(request) => {
                let mut request = request.clone();
                if let Request::Grant { attempt, wait: Some(wait), .. } = &mut request {
                    wait.ticket = self.tickets.get(&attempt.holder).cloned();
                }
                vec![request]
            }
            Step::Break(key) => {
                let fence = self.fences.get(key).copied().unwrap_or(Fence::MAX);
                let by = Label::new("ada").ok();
                let note = BreakNote { by, reason: None };
                // As at a member of a quorum.
                let recorded = Fence::new(7).expect("it is not zero");
                vec![Request::Break { key: key.clone(), lease: LeaseBreak { fence, recorded, note } }]
            }
            Step::Crowd(request, count) => (0..*count).map(|nth| by_somebody_else(request, nth)).collect(),
            _ => Vec::new(),
        }
    }

    pub fn note(&mut self, request: &Request, answer: &Answer) {
        if let (
            Request::Grant { attempt, .. },
            Answer::Grant(GrantAnswer::Busy { held_by, place: Some(place) }),
        ) = (request, answer)
        {
            self.tickets.insert(attempt.holder, (held_by.key.clone(), place.ticket));
        }
        if let Answer::Inspect(state) = answer {
            let fences = state.holders.iter().filter_map(|held_by| held_by.fence);
            self.fences.extend(fences.map(|fence| (state.key.clone(), fence)));
        }
    }
}

fn by_somebody_else(request: &Request, nth: u64) -> Request {
    let mut request = request.clone();
    if let Request::Grant { attempt, .. } = &mut request {
        attempt.holder = Holder::from_bits(1000 + u128::from(nth));
    }
    request
}

/// How long the record of the run that vouches is kept at least.
const KEPT: Duration = Duration::from_secs(30 * 86_400);

/// The expected results of a history: `core::apply`, on records that other programs change, too.
#[derive(Debug)]
pub struct Oracle {
    records: Records,
    now: Stamp,
    tickets: Tickets,
    subscribers: Listening,
    /// The end of shares that a step ends.
    ended: Stamp,
    /// The run that vouches for the leases, and until when that is kept.
    member_record: Option<(MemberRecord, Stamp)>,
    /// True if the store keeps one fence for each key, the last one, which is also that of a lease.
    has_one_fence: bool,
}

#[derive(Debug)]
struct Listening(BTreeSet<Channel>);

impl Subscribers for Listening {
    fn listens(&self, channel: &Channel) -> bool {
        self.0.contains(channel)
    }
}

/// The end of shares that a step ends: a whole millisecond before `wall`, when the history begins.
pub fn just_before(wall: Stamp) -> Stamp {
    Stamp::from_micros((wall.as_micros() / 1000 - 1) * 1000)
}

impl Oracle {
    /// An empty store whose clock is at `wall`.
    pub fn new(wall: Stamp) -> Self {
        Self {
            records: Records::default(),
            now: wall,
            tickets: Tickets::default(),
            subscribers: Listening(heard().into_iter().collect()),
            ended: just_before(wall),
            member_record: None,
            has_one_fence: false,
        }
    }

    /// The same for a store that keeps one fence for each key, the last one, which is also that of
    /// a lease: a lease loses its fence with that, and another fence becomes its own.
    pub const fn with_one_fence(mut self) -> Self {
        self.has_one_fence = true;
        self
    }

    /// Takes a step, a tick later; returns its results, and the holders of its keys before or after it.
    pub fn take(&mut self, step: &Step) -> Vec<(Served, Vec<HolderInfo>)> {
        let requests = self.tickets.requests(step);
        let served = requests.into_iter().map(|request| {
            self.now = self.now + Duration::from_micros(1);
            let floor = Fence::new(self.now.as_micros()).unwrap_or(Fence::MAX);
            let context = ApplyContext::new(self.now, floor).with_window(WINDOW);
            let mut holders = self.holders_of(&request);
            let member_record = request.proposal().map(|proposal| self.vouch(proposal));
            if let Some(member_record) = &member_record {
                self.records.voided = member_record.since.map(Stamp::from_micros);
            }
            let context = context.with_subscribers(&self.subscribers);
            let served = apply(&mut self.records, request.clone(), &context);
            if let Some(member_record) = member_record {
                self.vouched(member_record, &served.answer);
            }
            self.tickets.note(&request, &served.answer);
            holders.extend(self.holders_of(&request));
            (served, holders)
        });
        let served = served.collect();
        self.meddle(step);
        served
    }

    fn holders_of(&mut self, request: &Request) -> Vec<HolderInfo> {
        if matches!(request, Request::Advance(_) | Request::Inspect(_) | Request::Marked(_)) {
            return Vec::new();
        }
        let floor = Fence::new(self.now.as_micros()).unwrap_or(Fence::MAX);
        let context = ApplyContext::new(self.now, floor);
        let inspect =
            |key: &Key| match apply(&mut self.records, Request::Inspect(key.clone()), &context).answer {
                Answer::Inspect(state) => state.holders,
                _ => Vec::new(),
            };
        request.keys().flat_map(inspect).collect()
    }

    /// The run that vouches for the leases once somebody has asked.
    fn vouch(&mut self, proposal: Proposal) -> MemberRecord {
        let (now, kept) = (self.now, KEPT.max(2 * proposal.max_ttl.duration()));
        let known = self.member_record.take().filter(|(member_record, _)| {
            member_record.run == RUN && member_record.since.is_none_or(|since| since <= now.as_micros())
        });
        let anew =
            || (MemberRecord { run: RUN.into(), since: Some(now.as_micros()), left: None }, now + kept);
        let (member_record, mut ends) = known.unwrap_or_else(anew);
        if member_record.since.is_none() && now.saturating_until(ends) < KEPT / 2 {
            ends = now + kept;
        }
        self.member_record = Some((member_record.clone(), ends));
        member_record
    }

    /// A member that serves continues to serve until it forgets again.
    fn vouched(&mut self, member_record: MemberRecord, answer: &Answer) {
        if member_record.since.is_some() && !matches!(answer, Answer::Quarantined { .. }) {
            let ends = self.now + KEPT.max(2 * LONGEST);
            self.member_record = Some((MemberRecord { since: None, ..member_record }, ends));
        }
    }

    /// Applies a step of another program.
    fn meddle(&mut self, step: &Step) {
        let (now, records) = (self.now, &mut self.records);
        match step {
            Step::Ask(_) | Step::Return(_) | Step::Break(_) | Step::Crowd(..) => {}
            Step::Set(key, value, ttl) => {
                let foreign = || Content::Foreign(value.as_slice().into());
                let content = wire::family(value).map_or_else(foreign, Content::Marker);
                records.locks.insert(key.clone(), Lock::new(content, ttl.map(|ttl| now + ttl)));
            }
            Step::MakeList(key) => {
                records.locks.insert(key.clone(), Lock::new(Content::NotALock, None));
            }
            Step::Delete(key) | Step::Expire(key) => drop(records.locks.remove(key)),
            Step::ForgetFence(key) => drop(records.fences.remove(key)),
            Step::SetFence(key, number, ttl) => {
                let fence = Fence::new(*number).expect("a fence");
                records.fences.insert(key.clone(), LastFence::new(fence, now + *ttl));
            }
            Step::ForgetQueue(key) => drop(records.queues.remove(key)),
            Step::EndShares(key, whose, marker) => {
                let shares = records.shares.entry(key.clone()).or_default();
                let all: Vec<_> = shares.all().map(|(holder, _)| holder).collect();
                for holder in all.into_iter().filter(|holder| whose.is_none_or(|whose| whose == *holder)) {
                    shares.change(holder, |share| share.ends = self.ended);
                }
                if shares.is_empty() {
                    records.shares.remove(key);
                }
                let is_marker = |lock: &Lock| matches!(lock.content, Content::Marker(_));
                if *marker && records.locks.get(key).is_some_and(is_marker) {
                    records.locks.remove(key);
                }
            }
            Step::ForgetShares(key) => drop(records.shares.remove(key)),
            Step::Vouch(value, kept) => {
                self.member_record = Some((MemberRecord::read(value, None), now + *kept));
            }
            Step::Unvouch => self.member_record = None,
        }
        let (Step::ForgetFence(key) | Step::SetFence(key, ..)) = step else { return };
        let last = self.records.fences.get(key).map(|last| last.fence);
        if self.has_one_fence
            && let Some(Content::Lease { fence, .. }) =
                self.records.locks.get_mut(key).map(|lock| &mut lock.content)
        {
            *fence = last;
        }
    }

    /// The records that the store must have now.
    pub fn dump(&self) -> Dump {
        let (now, records) = (self.now, &self.records);
        let left = |ends| now.saturating_until(ends);
        let lasts = |(_, lock): &(&Key, &Lock)| lock.ends.is_none_or(|ends| now < ends);
        let locks = records.locks.iter().filter(lasts);
        let locks = locks.map(|(key, lock)| (key.clone(), (lock.content.clone(), lock.ends.map(left))));
        let fences = records.fences.iter();
        let fences = fences.map(|(key, last)| (key.clone(), (last.fence.get(), Some(left(last.ends)))));
        let queues = records.queues.iter().map(|(key, queue)| (key.clone(), QueueDump::of(queue, now)));
        let marks = records.marks.iter();
        let marks = marks.map(|(key, (mark, ends))| (key.clone(), (mark_of(mark), Some(left(*ends)))));
        let breaks = records.breaks.iter();
        let breaks = breaks.map(|(key, (broken, ends))| (key.clone(), (broken.clone(), Some(left(*ends)))));
        let shares = records.shares.iter().map(|(key, shares)| (key.clone(), SharesDump::of(shares, now)));
        let record = self.member_record.clone();
        let member_record = record.map(|(record, ends)| MemberRecord { left: Some(left(ends)), ..record });
        Dump {
            locks: locks.collect(),
            fences: fences.collect(),
            queues: queues.collect(),
            shares: shares.collect(),
            marks: marks.collect(),
            breaks: breaks.collect(),
            member_record,
        }
    }
}
