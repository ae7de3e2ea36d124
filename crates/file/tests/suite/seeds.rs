//! Files and requests of the tests, and random numbers that a seed replays.

use std::path::PathBuf;
use std::time::Duration;

use leasehold_core::{Answer, Attempt, Claim, Fence, GrantAnswer, Holder, Key, Label, Request, Ttl};
use leasehold_file::Ledger;
use tempfile::TempDir;

/// A path for a file, in a directory that is removed when the first value is dropped.
pub(crate) fn a_file() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("leases.db");
    (directory, file)
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

pub(crate) fn attempt(who: u128, keys: &[&str], ttl_ms: u64) -> Attempt {
    let claim = Claim::exclusive_all(keys.iter().map(|name| key(name))).unwrap();
    let ttl = Ttl::new(Duration::from_millis(ttl_ms)).unwrap();
    Attempt::new(claim, Holder::from_bits(who), Label::new("web-3").ok(), ttl)
}

/// The request of an attempt that does not wait.
pub(crate) fn a_try(attempt: &Attempt) -> Request {
    Request::Grant { attempt: attempt.clone(), wait: None, not_after: None }
}

/// Asks once; returns the fence if it was granted.
pub(crate) fn take(ledger: &mut Ledger, attempt: &Attempt) -> Option<Fence> {
    match ledger.serve(a_try(attempt)).unwrap().answer {
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
