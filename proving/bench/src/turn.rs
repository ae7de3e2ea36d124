//! One turn of a lock as its holder saw it, and the results of all turns of a run.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::sample::Sample;

/// One turn; times are nanoseconds of the clock that all processes share.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Turn {
    /// The waiter's number, unique in a run.
    pub waiter: u64,
    pub asked: u64,
    pub had: u64,
    pub released: u64,
    /// The turn's fence, by which turns are ordered.
    pub fence: u64,
    /// The number of requests to the store.
    pub asks: u32,
}

/// All turns of a run, ordered by fence.
#[derive(Clone, Debug)]
pub struct Turns(Vec<Turn>);

impl Turns {
    pub fn new(mut turns: Vec<Turn>) -> Self {
        turns.sort_by_key(|turn| turn.fence);
        Self(turns)
    }

    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether there are none")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Times from a call of `release` to the guard of a next holder that was waiting, in µs.
    pub fn gaps(&self) -> Sample {
        let pairs = self.0.windows(2).filter(|pair| pair[1].asked < pair[0].released);
        pairs.map(|pair| pair[1].had.saturating_sub(pair[0].released) as f64 / 1e3).collect()
    }

    /// Times from the request to the guard, in µs, whichever waiter held the lock before.
    pub fn waits(&self) -> Sample {
        self.0.iter().map(|turn| turn.had.saturating_sub(turn.asked) as f64 / 1e3).collect()
    }

    /// Turns per second from the first guard to the last release.
    pub fn per_second(&self) -> f64 {
        let begun = self.0.iter().map(|turn| turn.had).min().unwrap_or_default();
        let ended = self.0.iter().map(|turn| turn.released).max().unwrap_or_default();
        self.0.len() as f64 * 1e9 / ended.saturating_sub(begun).max(1) as f64
    }

    /// Calls per turn: the requests to the store, and one release.
    pub fn calls_per_turn(&self) -> f64 {
        let asks: u64 = self.0.iter().map(|turn| u64::from(turn.asks)).sum();
        asks as f64 / self.0.len() as f64 + 1.0
    }

    /// Pairs of waiters served in reverse order. Each must have asked after the one before it queued.
    pub fn inversions(&self) -> usize {
        let later =
            |n: usize, turn: &Turn| self.0[n + 1..].iter().filter(|next| next.asked < turn.asked).count();
        self.0.iter().enumerate().map(|(n, turn)| later(n, turn)).sum()
    }

    /// Each waiter's turns when the first waiter finished: after that, the others only catch up.
    pub fn shares(&self, waiters: usize, each: u32) -> Vec<u32> {
        let mut had: HashMap<u64, u32> = HashMap::new();
        for turn in &self.0 {
            let count = had.entry(turn.waiter).or_default();
            *count += 1;
            if *count == each {
                break;
            }
        }
        let mut shares: Vec<u32> = had.into_values().collect();
        shares.resize(waiters, 0);
        shares
    }
}

/// Jain's index of fairness: 1 when all have the same share, 1/n when one has everything (Jain, Chiu
/// and Hawe, DEC-TR-301, 1984).
pub fn jain(shares: &[u32]) -> f64 {
    let sum: f64 = shares.iter().map(|share| f64::from(*share)).sum();
    let squares: f64 = shares.iter().map(|share| f64::from(*share).powi(2)).sum();
    sum.powi(2) / (shares.len() as f64 * squares)
}

/// The smallest share divided by the largest.
pub fn least_of_most(shares: &[u32]) -> f64 {
    let least = shares.iter().min().copied().unwrap_or_default();
    let most = shares.iter().max().copied().unwrap_or_default();
    f64::from(least) / f64::from(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(waiter: u64, asked: u64, had: u64, fence: u64) -> Turn {
        Turn { waiter, asked, had, released: had + 1_000, fence, asks: 1 }
    }

    #[test]
    fn a_gap_counts_only_for_somebody_who_was_waiting() {
        let turns =
            Turns::new(vec![turn(3, 20_000, 30_000, 7), turn(1, 0, 1_000, 5), turn(2, 1_500, 5_000, 6)]);
        assert_eq!(turns.gaps(), Sample::from(3.0));
    }

    #[test]
    fn a_wait_counts_for_everybody() {
        let turns = Turns::new(vec![turn(1, 0, 1_000, 5), turn(2, 1_500, 5_000, 6)]);
        assert_eq!(turns.waits(), [1.0, 3.5].into_iter().collect());
    }

    #[test]
    fn overtaking_two_waiters_counts_as_two_inversions() {
        let order = |fences: [u64; 4]| {
            let turns = fences.iter().zip(0..).map(|(fence, n)| turn(n, n, 100, *fence));
            Turns::new(turns.collect()).inversions()
        };
        assert_eq!(order([1, 2, 3, 4]), 0);
        assert_eq!(order([2, 3, 1, 4]), 2);
        assert_eq!(order([4, 3, 2, 1]), 6);
    }

    #[test]
    fn shares_are_looked_at_when_the_first_is_done() {
        let who = [1, 1, 2, 1, 2, 2];
        let turns = Turns::new(who.iter().zip(0..).map(|(waiter, n)| turn(*waiter, n, n, n)).collect());
        let mut shares = turns.shares(3, 3);
        shares.sort_unstable();
        assert_eq!(shares, [0, 1, 3]);
    }

    #[test]
    fn jain_is_one_when_all_have_the_same_and_one_nth_when_one_has_all() {
        assert!((jain(&[7, 7, 7]) - 1.0).abs() < 1e-12);
        assert!((jain(&[9, 0, 0]) - 1.0 / 3.0).abs() < 1e-12);
        assert!((least_of_most(&[2, 4]) - 0.5).abs() < 1e-12);
    }
}
