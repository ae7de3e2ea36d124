//! Requests of the tests, and random numbers that a seed replays.

use std::time::Duration;

use leasehold_core::{Answer, Attempt, Claim, Fence, GrantAnswer, Holder, Key, Label, Request, Ttl};
use leasehold_file::Ledger;

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn attempt(who: u128, keys: &[&str], ttl_ms: u64) -> Attempt {
    let claim = Claim::exclusive_all(keys.iter().map(|name| key(name))).unwrap();
    let ttl = Ttl::new(Duration::from_millis(ttl_ms)).unwrap();
    Attempt::new(claim, Holder::from_bits(who), Label::new("web-3").ok(), ttl)
}

/// Asks once; returns the fence if it was granted.
pub(crate) fn take(ledger: &mut Ledger, attempt: &Attempt) -> Option<Fence> {
    match ledger
        .serve(Request::Grant { attempt: attempt.clone(), wait: None, not_after: None })
        .unwrap()
        .answer
    {
        Answer::Grant(GrantAnswer::Granted { fence }) => Some(fence),
        Answer::Grant(GrantAnswer::Busy { .. }) => None,
        other => panic!("{other:?}"),
    }
}

/// `SplitMix64` (Steele, Lea, Flood 2014).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    pub(crate) fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()].clone()
    }

    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}
