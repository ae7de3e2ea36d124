//! All records of a store, and the differences that are ignored when two stores are compared.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{
    Answer, BreakAnswer, BreakRecord, Channel, Content, Fence, GrantAnswer, HoldAnswer, Holder, HolderInfo,
    Key, LastFence, Marked, Mode, PushEvent, RaiseAnswer, Share, Shares, Stamp, Ticket, WaitQueue, Waiter,
};
use leasehold_redis::wire::mode_of;

/// All records, and how long each still lasts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    pub locks: BTreeMap<Key, (Content, Option<Duration>)>,
    pub fences: BTreeMap<Key, (u64, Option<Duration>)>,
    pub queues: BTreeMap<Key, QueueDump>,
    /// The mark of each key, as stored.
    pub marks: BTreeMap<Key, (Vec<u8>, Option<Duration>)>,
    pub breaks: BTreeMap<Key, (BreakRecord, Option<Duration>)>,
    pub shares: BTreeMap<Key, SharesDump>,
    /// The run that vouches for the leases, for members of a quorum.
    pub member_record: Option<MemberRecord>,
}

/// The run of a server that vouches for its leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberRecord {
    pub run: String,
    /// Since when, in µs since 1970, as long as it may have forgotten leases that have not ended.
    pub since: Option<u64>,
    pub left: Option<Duration>,
}

impl MemberRecord {
    pub fn read(value: &str, left: Option<Duration>) -> Self {
        let (run, since) = match value.split_once(' ') {
            Some((run, since)) => (run, since.parse().ok()),
            None => (value, None),
        };
        Self { run: run.into(), since, left }
    }
}

/// A queue, in the bytes that servers store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueDump {
    /// The waiters in order, with their tickets.
    pub order: Vec<(Ticket, Holder)>,
    /// The stored fields of each waiter, and whether it is silent since the hand-over, and passed over.
    pub fields: BTreeMap<String, String>,
    pub left: Option<Duration>,
}

impl QueueDump {
    pub fn of(queue: &WaitQueue, now: Stamp) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let name = |channel: Option<&Channel>| channel.map_or_else(String::new, |it| text(it.as_bytes()));
        let mut fields = BTreeMap::new();
        for (_, waiter) in queue.waiters() {
            let (ttl, keep) = (waiter.ttl.as_millis(), LastFence::kept_for(waiter.ttl).as_millis());
            let (more, channel) = (u8::from(waiter.wants_more), name(waiter.channel.as_ref()));
            let mode = match waiter.mode {
                Mode::Exclusive => String::new(),
                mode => mode_of(mode).into_owned(),
            };
            let nonce = waiter.nonce.map(|nonce| text(&nonce.digit_bytes()));
            let label = waiter.label.as_ref().map(|label| label.as_str().to_owned());
            let rest: String = [nonce, label].into_iter().flatten().map(|word| format!(" {word}")).collect();
            fields.insert(waiter.holder.digits(), format!("{ttl} {keep} {more}{mode} {channel}{rest}"));
        }
        if let Some(unclaimed) = queue.unclaimed() {
            let record = format!("{} {}", unclaimed.holder.digits(), name(unclaimed.channel.as_ref()));
            fields.insert("u".into(), record);
        }
        let skipped = queue.unresponsive().map(|channel| format!("s:{}", name(Some(channel))));
        fields.extend(skipped.map(|field| (field, String::new())));
        let order = queue.waiters().map(|(ticket, waiter)| (ticket, waiter.holder)).collect();
        Self { order, fields, left: queue.ends().map(|ends| now.saturating_until(ends)) }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharesDump {
    pub shares: BTreeMap<Holder, ShareDump>,
    pub left: Option<Duration>,
}

/// One share, in the bytes that servers store where those can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShareDump {
    pub weight: u32,
    pub fence: Option<u64>,
    /// The channel on which a silent holder was told of it, or `-`; followed by the label.
    pub rest: String,
    pub left: Duration,
}

impl SharesDump {
    pub fn of(shares: &Shares, now: Stamp) -> Self {
        let share = |share: &Share| {
            let channel = share.unclaimed.as_ref().map(Channel::as_bytes);
            let channel = String::from_utf8_lossy(channel.unwrap_or(b"-"));
            let label = share.label.as_ref().map_or_else(String::new, |label| format!(" {}", label.as_str()));
            ShareDump {
                weight: share.weight,
                fence: share.fence.map(Fence::get),
                rest: format!("{channel}{label}"),
                left: now.saturating_until(share.ends),
            }
        };
        let left = shares.end().map(|end| now.saturating_until(end + WaitQueue::KEPT_FOR));
        Self { shares: shares.all().map(|(holder, it)| (holder, share(it))).collect(), left }
    }
}

/// The differences that are ignored: how much of a TTL has passed (up to ten seconds), and so which
/// of two equal shares ends first; and a fence, ticket or waiting time within two minutes of our
/// clock, except for their order.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Our clock at the start of the history.
    pub wall: Stamp,
}

impl Tolerance {
    fn left(left: Option<Duration>) -> Option<Duration> {
        // A share ends at a whole millisecond, which may be one more than requested.
        let millis = |left: Duration| left.as_millis().saturating_sub(1);
        left.map(|left| Duration::from_secs(millis(left).div_ceil(10_000) as u64 * 10))
    }

    fn number(self, number: u64) -> u64 {
        let near = number.abs_diff(self.wall.as_micros()) < 120_000_000;
        if near { 0 } else { number }
    }

    fn fence(self, fence: Fence) -> Fence {
        Fence::new(self.number(fence.get())).unwrap_or(fence)
    }

    fn ticket(self, ticket: Ticket) -> Ticket {
        Ticket::new(self.number(ticket.get()))
    }

    fn stamp(self, stamp: Stamp) -> Stamp {
        Stamp::from_micros(self.number(stamp.as_micros()))
    }

    fn holder(self, holder: &mut HolderInfo) {
        holder.remaining = Self::left(holder.remaining);
        holder.fence = holder.fence.map(|fence| self.fence(fence));
    }

    /// The dump without the ignored differences.
    pub fn dump(self, mut dump: Dump) -> Dump {
        for (content, left) in dump.locks.values_mut() {
            *left = Self::left(*left);
            if let Content::Lease { fence, .. } = content {
                *fence = fence.map(|fence| self.fence(fence));
            }
        }
        for (number, left) in dump.fences.values_mut() {
            (*number, *left) = (self.number(*number), Self::left(*left));
        }
        dump.marks.values_mut().for_each(|(_, left)| *left = Self::left(*left));
        for (broken, left) in dump.breaks.values_mut() {
            *left = Self::left(*left);
            // The server's clock sets this time, and the record's remaining time shows it is right.
            (broken.at, broken.fence) = (Stamp::from_micros(0), self.fence(broken.fence));
        }
        for held in dump.shares.values_mut() {
            held.left = Self::left(held.left.map(|left| left.saturating_sub(WaitQueue::KEPT_FOR)));
            for share in held.shares.values_mut() {
                share.left = Self::left(Some(share.left)).unwrap_or_default();
                share.fence = share.fence.map(|fence| self.number(fence));
            }
        }
        if let Some(member_record) = &mut dump.member_record {
            member_record.left = Self::left(member_record.left);
            member_record.since = member_record.since.map(|since| self.number(since));
        }
        for queue in dump.queues.values_mut() {
            // The whole duration, because a history may take seconds on a busy machine.
            queue.left = queue.left.map(|_| WaitQueue::KEPT_FOR);
            for (ticket, _) in &mut queue.order {
                *ticket = self.ticket(*ticket);
            }
        }
        dump
    }

    /// The push event without the ignored differences.
    pub fn event(self, event: PushEvent) -> PushEvent {
        match event {
            PushEvent::Granted { fence, lasts } => PushEvent::Granted { fence: self.fence(fence), lasts },
            PushEvent::First { left } => PushEvent::First { left: Self::left(Some(left)).unwrap_or(left) },
            PushEvent::AskAgain | PushEvent::Broken => event,
        }
    }

    /// Lets an answer name the other side's holder, if both shares end at times that count as equal.
    pub fn name_alike(self, answer: &mut Answer, right: &Answer, holders: &[HolderInfo]) {
        let is = |mut holder: HolderInfo, named: &HolderInfo| {
            self.holder(&mut holder);
            holder == *named
        };
        if let (Some(named), Some(right)) = (named(answer), named(&mut right.clone()))
            && named.mode != Mode::Exclusive
            && named.remaining == right.remaining
            && holders.iter().any(|holder| is(holder.clone(), named))
        {
            *named = right.clone();
        }
    }

    /// The answer without the ignored differences.
    pub fn answer(self, mut answer: Answer) -> Answer {
        named(&mut answer).into_iter().for_each(|holder| self.holder(holder));
        match &mut answer {
            Answer::Grant(GrantAnswer::Granted { fence }) | Answer::Raise(RaiseAnswer::Raised { fence }) => {
                *fence = self.fence(*fence);
            }
            Answer::Grant(GrantAnswer::Busy { place: Some(place), .. }) => {
                place.ticket = self.ticket(place.ticket);
            }
            Answer::Grant(GrantAnswer::TooLate { now }) | Answer::Marked(Marked { now, .. }) => {
                *now = self.stamp(*now);
            }
            Answer::Quarantined { left } => *left = Duration::ZERO,
            Answer::Inspect(state) => {
                state.holders.iter_mut().for_each(|holder| self.holder(holder));
                state.waiters.iter_mut().for_each(Self::waiter);
                state.clock = state.clock.map(|clock| self.stamp(clock));
            }
            Answer::Break(BreakAnswer::Broken { holding }) => self.holder(holding),
            _ => {}
        }
        answer
    }

    /// Invented tickets differ in age; those from a clock are at most minutes old.
    fn waiter(waiter: &mut Waiter) {
        const MINUTES: Duration = Duration::from_secs(120);
        waiter.waited = if waiter.waited < MINUTES { Duration::ZERO } else { Duration::MAX };
    }
}

/// The holder that an answer names.
const fn named(answer: &mut Answer) -> Option<&mut HolderInfo> {
    match answer {
        Answer::Grant(GrantAnswer::Busy { held_by, .. } | GrantAnswer::QueueFull { held_by, .. }) => {
            Some(held_by)
        }
        Answer::Renew(HoldAnswer::NotHeld { held_by, .. })
        | Answer::Transfer(HoldAnswer::NotHeld { held_by, .. })
        | Answer::Release(HoldAnswer::NotHeld { held_by, .. })
        | Answer::Rejoin(HoldAnswer::NotHeld { held_by, .. })
        | Answer::Mark(HoldAnswer::NotHeld { held_by, .. })
        | Answer::Break(BreakAnswer::NotHeld { held_by })
        | Answer::Raise(RaiseAnswer::NotHeld { held_by, .. }) => held_by.as_mut(),
        _ => None,
    }
}
