//! All that a store holds, and what of it is left out when two are compared.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{
    Answer, BreakAnswer, Channel, Content, Fence, GrantAnswer, HoldAnswer, Holder, Key, LastFence, Line,
    Marked, News, Place, RaiseAnswer, Stamp, Tenancy, Ticket, Waiter,
};

/// Contents, numbers, waiters, and the time that each has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what is compared is written by two sides")]
pub struct Dump {
    /// What stands at each key.
    pub locks: BTreeMap<Key, (Content, Option<Duration>)>,
    /// The last fence of each key.
    pub fences: BTreeMap<Key, (u64, Option<Duration>)>,
    /// Who waits for each key.
    pub lines: BTreeMap<Key, LineDump>,
    /// What was done, as it is written.
    pub marks: BTreeMap<Key, (Vec<u8>, Option<Duration>)>,
    /// Which run vouches for the leases, for members of a quorum.
    pub voucher: Option<Voucher>,
}

/// Which run of a server vouches for its leases.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what is compared is written by two sides")]
pub struct Voucher {
    /// The run.
    pub run: String,
    /// Since when, in µs since 1970, as long as it may have forgotten some that last.
    pub since: Option<u64>,
    /// How long this is remembered.
    pub left: Option<Duration>,
}

impl Voucher {
    /// Reads what is written.
    #[must_use]
    pub fn read(value: &str, left: Option<Duration>) -> Self {
        let (run, since) = match value.split_once(' ') {
            Some((run, since)) => (run, since.parse().ok()),
            None => (value, None),
        };
        Self { run: run.into(), since, left }
    }
}

/// All that a store holds of a line, in the bytes that servers have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what is compared is written by two sides")]
pub struct LineDump {
    /// Who waits, in order, and with which ticket.
    pub order: Vec<(Ticket, Holder)>,
    /// What is known of each of them, who has not been heard since the key was handed over, and who is passed over.
    pub fields: BTreeMap<String, String>,
    /// How long the line is remembered.
    pub left: Option<Duration>,
}

impl LineDump {
    /// A line as the one semantics has it.
    #[must_use]
    pub fn of(line: &Line, now: Stamp) -> Self {
        let name = |channel: Option<&Channel>| {
            channel
                .map_or_else(String::new, |channel| String::from_utf8_lossy(channel.as_bytes()).into_owned())
        };
        let mut fields = BTreeMap::new();
        for (_, standing) in line.waiters() {
            let (ttl, keep) = (standing.ttl.as_millis(), LastFence::kept_for(standing.ttl).as_millis());
            let (more, channel) = (u8::from(standing.wants_more), name(standing.channel.as_ref()));
            let label =
                standing.label.as_ref().map_or_else(String::new, |label| format!(" {}", label.as_str()));
            fields.insert(standing.holder.digits(), format!("{ttl} {keep} {more} {channel}{label}"));
        }
        if let Some(unclaimed) = line.unclaimed() {
            let record = format!("{} {}", unclaimed.holder.digits(), name(unclaimed.channel.as_ref()));
            fields.insert("u".into(), record);
        }
        fields.extend(line.struck().map(|channel| (format!("s:{}", name(Some(channel))), String::new())));
        let order = line.waiters().map(|(ticket, standing)| (ticket, standing.holder)).collect();
        Self { order, fields, left: line.ends().map(|ends| now.saturating_until(ends)) }
    }
}

/// Left out of the comparison, by name: how much of a ttl has passed since it was set (up to ten seconds), and the value of
/// a fence, a ticket or a waiting time that came from a clock (within two minutes of ours; their order is compared).
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a tolerance has no more to it")]
pub struct Tolerance {
    /// Our clock when the history began.
    pub wall: Stamp,
}

impl Tolerance {
    fn left(left: Option<Duration>) -> Option<Duration> {
        left.map(|left| Duration::from_secs(left.as_millis().div_ceil(10_000) as u64 * 10))
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

    fn tenancy(self, mut tenancy: Tenancy) -> Tenancy {
        tenancy.remaining = Self::left(tenancy.remaining);
        tenancy.fence = tenancy.fence.map(|fence| self.fence(fence));
        tenancy
    }

    /// A dump without what is left out.
    #[must_use]
    pub fn dump(self, mut dump: Dump) -> Dump {
        for (_, left) in dump.locks.values_mut() {
            *left = Self::left(*left);
        }
        for (number, left) in dump.fences.values_mut() {
            *left = Self::left(*left);
            *number = self.number(*number);
        }
        for (_, left) in dump.marks.values_mut() {
            *left = Self::left(*left);
        }
        if let Some(voucher) = &mut dump.voucher {
            voucher.left = Self::left(voucher.left);
            voucher.since = voucher.since.map(|since| self.number(since));
        }
        for line in dump.lines.values_mut() {
            // The whole of its time: on a machine that is busy a history may take some of the fifteen seconds.
            line.left = line.left.map(|_| Line::KEPT_FOR);
            for (ticket, _) in &mut line.order {
                *ticket = self.ticket(*ticket);
            }
        }
        dump
    }

    /// News without what is left out.
    #[must_use]
    pub fn news(self, news: News) -> News {
        match news {
            News::Granted { fence, lasts } => News::Granted { fence: self.fence(fence), lasts },
            News::First { left } => News::First { left: Self::left(Some(left)).unwrap_or(left) },
            News::AskAgain | News::Broken => news,
        }
    }

    /// An answer without what is left out.
    #[must_use]
    pub fn answer(self, answer: Answer) -> Answer {
        let held = |answer| match answer {
            HoldAnswer::NotHeld { key, held_by } => {
                HoldAnswer::NotHeld { key, held_by: held_by.map(|held_by| self.tenancy(held_by)) }
            }
            HoldAnswer::Done => HoldAnswer::Done,
        };
        match answer {
            Answer::Grant(answer) => Answer::Grant(self.grant(answer)),
            Answer::Renew(answer) => Answer::Renew(held(answer)),
            Answer::Release(answer) => Answer::Release(held(answer)),
            Answer::Mark(answer) => Answer::Mark(held(answer)),
            Answer::Marked(Marked { mark, now }) => {
                let now = Stamp::from_micros(self.number(now.as_micros()));
                Answer::Marked(Marked { mark, now })
            }
            Answer::Rejoin(answer) => Answer::Rejoin(held(answer)),
            Answer::Raise(RaiseAnswer::Raised { fence }) => {
                Answer::Raise(RaiseAnswer::Raised { fence: self.fence(fence) })
            }
            Answer::Raise(RaiseAnswer::NotHeld { key, held_by }) => Answer::Raise(RaiseAnswer::NotHeld {
                key,
                held_by: held_by.map(|held_by| self.tenancy(held_by)),
            }),
            Answer::Quarantined { .. } => Answer::Quarantined { left: Duration::ZERO },
            Answer::Inspect(mut state) => {
                state.tenancies = state.tenancies.into_iter().map(|seen| self.tenancy(seen)).collect();
                state.line = state.line.into_iter().map(Self::waiter).collect();
                Answer::Inspect(state)
            }
            Answer::Break(BreakAnswer::Broken { tenancy }) => {
                Answer::Break(BreakAnswer::Broken { tenancy: self.tenancy(tenancy) })
            }
            Answer::Break(BreakAnswer::NotHeld { held_by }) => {
                let held_by = held_by.map(|held_by| self.tenancy(held_by));
                Answer::Break(BreakAnswer::NotHeld { held_by })
            }
            Answer::Advance => Answer::Advance,
        }
    }

    fn grant(self, answer: GrantAnswer) -> GrantAnswer {
        match answer {
            GrantAnswer::Granted { fence } => GrantAnswer::Granted { fence: self.fence(fence) },
            GrantAnswer::Busy { held_by, place } => GrantAnswer::Busy {
                held_by: self.tenancy(held_by),
                place: place.map(|place| Place { ticket: self.ticket(place.ticket), ..place }),
            },
            GrantAnswer::LineFull { held_by, length } => {
                GrantAnswer::LineFull { held_by: self.tenancy(held_by), length }
            }
            GrantAnswer::TooLate { now } => {
                GrantAnswer::TooLate { now: Stamp::from_micros(self.number(now.as_micros())) }
            }
            other => other,
        }
    }

    /// Tickets that were made up are of another age; those from a clock are minutes old at most.
    fn waiter(mut waiter: Waiter) -> Waiter {
        const MINUTES: Duration = Duration::from_secs(120);
        waiter.waited = if waiter.waited < MINUTES { Duration::ZERO } else { Duration::MAX };
        waiter
    }
}
