//! Identifies states, with times relative to now, by names of 128 bits; only those are kept.
//!
//! The `Hash` of core's types covers all that matters. Their clocks begin far apart and far above
//! every other number, so a time is recognised by its size, and the name has its distance from now.
//!
//! Of tickets and fences, which are counted up, only the order and small distances count. Long past
//! moments of a process are alike, because no valid lease and no call is from then; so are times
//! far ahead, which no history reaches unless a world has a step for it.

use std::cell::RefCell;
use std::hash::{BuildHasher, Hash, Hasher};
use std::time::Duration;

use foldhash::fast::FixedState;
use leasehold_core::{Fence, Instant, Stamp};

/// When the clocks begin: processes' lease clocks in ns, the stores' in µs, both wall clocks in µs.
const LEASE_CLOCK: u64 = 1 << 60;
const STORE_CLOCK: u64 = 1 << 45;
const WALL_CLOCK: u64 = 1 << 50;

/// The number above all that are no time and no id; most words are below.
const SMALL: u64 = STORE_CLOCK / 2;

/// The first id of a quorum's attempts; they are counted up.
const IDS: u64 = 1 << 55;

/// The number of ticks from which all future times are alike.
const FAR: u64 = 4;

/// A moment, in ticks since the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Now {
    ticks: u32,
    tick: Duration,
}

impl Now {
    pub(crate) const fn new(tick: Duration) -> Self {
        Self { ticks: 0, tick }
    }

    pub(crate) const fn pass(&mut self) {
        self.ticks += 1;
    }

    fn since_the_beginning(self) -> Duration {
        self.tick * self.ticks
    }

    /// The moment on a process's clock.
    pub(crate) fn instant(self) -> Instant {
        Instant::from_nanos(LEASE_CLOCK) + self.since_the_beginning()
    }

    /// The moment on a store's clock.
    pub(crate) fn stamp(self) -> Stamp {
        Stamp::from_micros(STORE_CLOCK) + self.since_the_beginning()
    }

    /// The least fence of a grant at this moment, as the wall clock gives it.
    pub(crate) fn floor(self) -> Fence {
        let micros = Stamp::from_micros(WALL_CLOCK) + self.since_the_beginning();
        Fence::new(micros.as_micros()).expect("two centuries are left")
    }
}

/// How far back times are distinguished.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Horizon {
    /// Moments of a process, in ticks.
    pub(crate) instants: u32,
    /// Past ends at a store, in ticks.
    pub(crate) stamps: u32,
    /// Fences are also compared with the times this far before and after now.
    pub(crate) margin: Duration,
    /// The largest distance at which tickets or fences are distinguished by more than order.
    pub(crate) apart: u64,
}

/// Numbers of which only the order counts, and small distances.
#[derive(Debug, Default)]
struct Row(Vec<u64>);

impl Row {
    fn start(&mut self, numbers: &[u64]) {
        self.0.clear();
        self.0.extend_from_slice(numbers);
    }

    fn code(&self, number: u64, apart: u64) -> u64 {
        let known = &self.0[..=self.0.partition_point(|other| *other < number)];
        known.windows(2).map(|pair| (pair[1] - pair[0]).min(apart)).sum()
    }

    fn rank(&self, number: u64) -> u64 {
        self.0.partition_point(|other| *other < number) as u64
    }

    fn sort(&mut self) {
        self.0.sort_unstable();
        self.0.dedup();
    }
}

/// Interprets hashed words.
#[derive(Debug)]
struct Reading<'a> {
    now: [u64; 3],
    /// A tick in ns, and in µs.
    tick: [u64; 2],
    horizon: [u64; 2],
    apart: u64,
    /// The tickets, the fences and the ids.
    rows: &'a mut [Row; 3],
}

#[derive(Clone, Copy, Debug)]
enum Word {
    Number(u64),
    /// A time of a process's clock, in ticks before or after now.
    Ahead(u64),
    Ago(u64),
    /// A timer that has rung, or a moment so long ago that its distance makes no difference.
    Past,
    /// A time of a store's clock, relative to now.
    Ends(u64),
    Ended(u64),
    Ticket(u64),
    Fence(u64),
    Id(u64),
}

impl<'a> Reading<'a> {
    fn new(now: Now, horizon: Horizon, rows: &'a mut [Row; 3]) -> Self {
        let micros = |time: Duration| u64::try_from(time.as_micros()).expect("ticks are short");
        let tick = micros(now.tick);
        let [instant, stamp, fence] = [now.instant().as_nanos(), now.stamp().as_micros(), now.floor().get()];
        let margin = micros(horizon.margin);
        rows[0].start(&[stamp]);
        rows[1].start(&[fence - margin, fence, fence + margin]);
        rows[2].start(&[]);
        Self {
            now: [instant, stamp, fence],
            tick: [tick * 1000, tick],
            horizon: [u64::from(horizon.instants) * tick * 1000, u64::from(horizon.stamps) * tick],
            apart: horizon.apart,
            rows,
        }
    }

    fn read(&self, word: u64) -> Word {
        if word < SMALL {
            return Word::Number(word);
        }
        let [instant, stamp, fence] = self.now;
        let is_near = |now: u64, clock: u64| word.abs_diff(now) < clock / 2;
        if is_near(stamp, STORE_CLOCK) {
            let (ahead, ago) = (word.saturating_sub(stamp), stamp.saturating_sub(word));
            // Tickets are moments of the past, except for a few that were drawn in the same moment.
            return match ahead > self.tick[1] / 2 {
                true => Word::Ends(ahead.min(FAR * self.tick[1])),
                false if ago > 0 && ago <= self.horizon[1] => Word::Ended(ago),
                false => Word::Ticket(word),
            };
        }
        if is_near(fence, WALL_CLOCK) {
            return Word::Fence(word);
        }
        if is_near(IDS, IDS) {
            return Word::Id(word);
        }
        if !is_near(instant, LEASE_CLOCK) {
            return Word::Number(word);
        }
        let (ahead, ago) = (word.saturating_sub(instant), instant.saturating_sub(word));
        // Everything happens when the clock ticks; only timers are set to times between ticks.
        let is_timer = ago % self.tick[0] != 0;
        if ahead > 0 {
            Word::Ahead(ahead.div_ceil(self.tick[0]).min(FAR))
        } else if is_timer || ago > self.horizon[0] {
            Word::Past
        } else {
            Word::Ago(ago / self.tick[0])
        }
    }

    /// Adds the word to a name: one byte for most words; else an unused byte, the kind and the value.
    fn tell(&self, word: u64, name: &mut Vec<u8>) {
        if let Ok(byte) = u8::try_from(word)
            && byte < u8::MAX
        {
            return name.push(byte);
        }
        let (kind, value) = match self.read(word) {
            Word::Number(number) => (0, number),
            Word::Ahead(ticks) => (1, ticks),
            Word::Ago(ticks) => (2, ticks),
            Word::Past => (3, 0),
            Word::Ends(ahead) => (4, ahead),
            Word::Ended(ago) => (5, ago),
            Word::Ticket(number) => (6, self.rows[0].code(number, self.apart)),
            Word::Fence(number) => (7, self.rows[1].code(number, self.apart)),
            // Only whether two are the same matters, and which attempt they belong to.
            Word::Id(number) => (8 + (number >> 32), self.rows[2].rank(number)),
        };
        name.push(u8::MAX);
        name.extend_from_slice(&kind.to_le_bytes());
        name.extend_from_slice(&value.to_le_bytes());
    }
}

/// The first id of the nth attempt at a quorum, as the low half of its bits.
pub(crate) const fn first_id(nth: u64) -> u64 {
    IDS + (nth << 32)
}

/// The nth of a series of numbers, such as tickets.
pub(crate) const fn drawn(nth: u64) -> u64 {
    STORE_CLOCK + nth
}

/// Collects what is hashed, one word per number.
#[derive(Debug, Default)]
struct Words(Vec<u64>);

/// What a name is made of.
#[derive(Debug, Default)]
struct Buffers {
    words: Words,
    rows: [Row; 3],
    name: Vec<u8>,
}

thread_local! {
    /// Kept, because a name is made of each of millions of states.
    static BUFFERS: RefCell<Buffers> = RefCell::default();
}

impl Hasher for Words {
    fn finish(&self) -> u64 {
        unreachable!("the words are read, and not their sum")
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.extend(bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }));
    }

    fn write_u8(&mut self, word: u8) {
        self.0.push(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.0.push(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0.push(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.0.push(word as u64);
    }
}

pub(crate) fn of(state: &impl Hash, now: Now, horizon: Horizon) -> u128 {
    BUFFERS.with_borrow_mut(|Buffers { words, rows, name }| {
        words.0.clear();
        state.hash(words);
        name_of(&words.0, &mut Reading::new(now, horizon, rows), name)
    })
}

fn name_of(words: &[u64], reading: &mut Reading<'_>, name: &mut Vec<u8>) -> u128 {
    for word in words {
        match reading.read(*word) {
            Word::Ticket(number) => reading.rows[0].0.push(number),
            Word::Fence(number) => reading.rows[1].0.push(number),
            Word::Id(number) => reading.rows[2].0.push(number),
            _ => {}
        }
    }
    reading.rows.iter_mut().for_each(Row::sort);
    name.clear();
    // Both series also contain now, so that their numbers are distinguished from it.
    words.iter().chain(&reading.now).for_each(|word| reading.tell(*word, name));
    let [high, low] = [1, 2].map(|seed| u128::from(FixedState::with_seed(seed).hash_one(&name)));
    high << 64 | low
}

#[cfg(test)]
mod tests {
    use super::*;

    const HORIZON: Horizon = Horizon { instants: 2, stamps: 0, margin: Duration::ZERO, apart: 4 };

    fn at(ticks: u32) -> Now {
        Now { ticks, tick: Duration::from_secs(5) }
    }

    #[test]
    fn a_state_is_the_same_at_another_time() {
        let state = |now: Now| (now.instant(), now.stamp() + Duration::from_secs(10), now.floor(), 7_u8);
        assert_eq!(of(&state(at(1)), at(1), HORIZON), of(&state(at(9)), at(9), HORIZON));
        assert_ne!(of(&state(at(1)), at(1), HORIZON), of(&state(at(1)), at(2), HORIZON));
        assert_ne!(of(&at(1).instant(), at(1), HORIZON), of(&at(1).stamp(), at(1), HORIZON));
    }

    #[test]
    fn tickets_and_fences_are_reduced_to_their_order_and_small_distances() {
        let pair = |one: u64, other: u64| {
            let ticket = |number: u64| Stamp::from_micros(STORE_CLOCK + number);
            of(&(ticket(one), ticket(other)), at(9), HORIZON)
        };
        assert_eq!(pair(10, 20), pair(20, 50));
        assert_ne!(pair(10, 20), pair(20, 10));
        assert_ne!(pair(10, 20), pair(10, 10));
        assert_ne!(pair(10, 11), pair(10, 12));
        let fence = |ticks: u32| of(&at(ticks).floor(), at(9), HORIZON);
        assert_eq!(fence(1), fence(8));
        assert_ne!(fence(8), fence(9));
        assert_ne!(fence(9), fence(10));
    }

    #[test]
    fn moments_that_are_long_past_are_alike_and_so_are_timers_that_rang() {
        let moment = |ticks: u32| of(&at(ticks).instant(), at(9), HORIZON);
        assert_eq!(moment(1), moment(6));
        assert_ne!(moment(6), moment(7), "this is not long past");
        let timer = |millis: u64| of(&(at(3).instant() + Duration::from_millis(millis)), at(5), HORIZON);
        assert_eq!(timer(1), timer(9999));
        assert_ne!(timer(1), timer(10_000));
        assert_eq!(timer(10_001), timer(15_000));
        assert_ne!(timer(15_000), timer(15_001));
        assert_eq!(timer(90_000), timer(900_000), "far ahead");
    }
}
