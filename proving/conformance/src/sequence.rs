//! Random histories for the differential test: what is asked, what strangers do meanwhile, and what must come of it.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, Claim, Content, Fence, GrantAnswer, HoldAnswer, Holder, Key, Label, LastFence, Lock,
    Records, Request, Scene, Stamp, Tenancy, Ttl, apply,
};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

/// One step of a history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Step {
    /// A request of ours.
    Ask(Request),
    /// Somebody writes a string to the key, whatever is there.
    Set(Key, Vec<u8>, Option<Duration>),
    /// Somebody makes a list of the key, whatever was there.
    MakeList(Key),
    /// Somebody deletes the key.
    Delete(Key),
    /// What stands at the key ends.
    Expire(Key),
    /// The fence is forgotten.
    ForgetFence(Key),
    /// The fence is this number, remembered so long.
    SetFence(Key, u64, Duration),
}

/// Above it, fences come from the fence before and are compared exactly; below it, from a clock, and are compared with one.
pub const ABOVE_ANY_CLOCK: u64 = 1 << 52;

/// A generator with a seed, so that a failure can be run again.
#[derive(Debug)]
pub struct Dice(StdRng);

impl Dice {
    /// A generator of its own for each seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// A number below `sides`.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.0.next_u64() % sides
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap_or(0)].clone()
    }
}

/// The keys of all histories: their bytes are chosen to be in the way.
#[must_use]
pub fn keys() -> Vec<Key> {
    ["a", "b{x}c", "{"].map(|name| Key::new(name).expect("a key")).to_vec()
}

/// A history of so many steps.
#[must_use]
pub fn history(dice: &mut Dice, steps: usize, wall: Stamp) -> Vec<Step> {
    (0..steps).map(|_| step(dice, wall)).collect()
}

fn step(dice: &mut Dice, wall: Stamp) -> Step {
    let key = dice.pick(&keys());
    match dice.below(24) {
        0..=8 => {
            let late = Stamp::from_micros(1);
            let in_time = wall + Duration::from_secs(3600);
            let not_after = dice.pick(&[None, None, Some(in_time), Some(late)]);
            Step::Ask(Request::Grant { attempt: attempt(dice), wait: None, not_after })
        }
        9..=12 => Step::Ask(Request::Renew(attempt(dice))),
        13..=15 => Step::Ask(Request::Release(attempt(dice))),
        16 | 17 => Step::Ask(Request::Inspect(key)),
        18 => {
            // Also what is nearly ours: another version, a cut id, capitals, something behind the id.
            let value = dice.pick(&[
                "x",
                "",
                "lh1",
                "lh2-00000000000000000000000000000001",
                "lh1-0000000000000000000000000000001",
                "lh1-0000000000000000000000000000000A",
                "lh1-00000000000000000000000000000001x",
                "lh1!00000000000000000000000000000001",
            ]);
            let ttl = dice.pick(&[None, Some(Duration::from_secs(300))]);
            Step::Set(key, value.into(), ttl)
        }
        19 => Step::MakeList(key),
        20 => Step::Delete(key),
        21 => Step::Expire(key),
        22 => Step::ForgetFence(key),
        _ => {
            let high = ABOVE_ANY_CLOCK + dice.below(1000);
            let number = dice.pick(&[5, high, high, high, Fence::MAX.get() - 1, Fence::MAX.get()]);
            Step::SetFence(key, number, Duration::from_secs(800))
        }
    }
}

fn attempt(dice: &mut Dice) -> Attempt {
    let all = keys();
    let count = dice.pick(&[1, 1, 1, 2, 3]);
    let claim = Claim::exclusive_all((0..count).map(|_| dice.pick(&all))).expect("some keys");
    let holder = Holder::from_bits(dice.pick(&[1, 2, u128::MAX - 7]));
    let label = dice.pick(&[None, Some("web-3"), Some(""), Some(" two words")]);
    let label = label.map(|text| Label::new(text).expect("a label"));
    let ttl = Ttl::new(Duration::from_secs(dice.pick(&[100, 900, 1000, 5000]))).expect("a ttl");
    Attempt::new(claim, holder, label, ttl)
}

/// What must come of a history: the one semantics, on records to which strangers write too.
#[derive(Debug)]
pub struct Oracle {
    records: Records,
    scene: Scene<'static>,
}

impl Oracle {
    /// An empty store whose clock stands at `wall`.
    #[must_use]
    pub fn new(wall: Stamp) -> Self {
        let floor = Fence::new(wall.as_micros()).unwrap_or(Fence::MAX);
        Self { records: Records::default(), scene: Scene::new(wall, floor) }
    }

    /// Takes one step; the answer, if something was asked.
    pub fn take(&mut self, step: &Step) -> Option<Answer> {
        let now = self.scene.now;
        match step {
            Step::Ask(request) => return Some(apply(&mut self.records, request.clone(), &self.scene).answer),
            Step::Set(key, value, ttl) => {
                let content = Content::Foreign(value.as_slice().into());
                self.records.locks.insert(key.clone(), Lock::new(content, ttl.map(|ttl| now + ttl)));
            }
            Step::MakeList(key) => {
                self.records.locks.insert(key.clone(), Lock::new(Content::NotALock, None));
            }
            Step::Delete(key) | Step::Expire(key) => drop(self.records.locks.remove(key)),
            Step::ForgetFence(key) => drop(self.records.fences.remove(key)),
            Step::SetFence(key, number, ttl) => {
                let fence = Fence::new(*number).expect("a fence");
                self.records.fences.insert(key.clone(), LastFence::new(fence, now + *ttl));
            }
        }
        None
    }

    /// What the store must hold now.
    #[must_use]
    pub fn dump(&self) -> Dump {
        let now = self.scene.now;
        let locks = self.records.locks.iter().map(|(key, lock)| {
            let left = lock.ends.map(|ends| now.saturating_until(ends));
            (key.clone(), (lock.content.clone(), left))
        });
        let fences = self
            .records
            .fences
            .iter()
            .map(|(key, last)| (key.clone(), (last.fence.get(), Some(now.saturating_until(last.ends)))));
        Dump { locks: locks.collect(), fences: fences.collect() }
    }
}

/// All that a store holds: contents, numbers, and the time that each has left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dump {
    /// What stands at each key.
    pub locks: BTreeMap<Key, (Content, Option<Duration>)>,
    /// The last fence of each key.
    pub fences: BTreeMap<Key, (u64, Option<Duration>)>,
}

/// Left out of the comparison, by name: how much of a ttl has passed since it was set (up to ten seconds), and the value of
/// a fence that came from a clock (within two minutes of ours).
#[derive(Clone, Copy, Debug)]
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
        dump
    }

    /// An answer without what is left out.
    #[must_use]
    pub fn answer(self, answer: Answer) -> Answer {
        let held = |answer| match answer {
            HoldAnswer::NotHeld { key, held_by } => {
                HoldAnswer::NotHeld { key, held_by: held_by.map(|held_by| self.tenancy(held_by)) }
            }
            other => other,
        };
        match answer {
            Answer::Grant(GrantAnswer::Granted { fence }) => {
                Answer::Grant(GrantAnswer::Granted { fence: self.fence(fence) })
            }
            Answer::Grant(GrantAnswer::Busy { held_by, place }) => {
                Answer::Grant(GrantAnswer::Busy { held_by: self.tenancy(held_by), place })
            }
            Answer::Grant(GrantAnswer::TooLate { now }) => {
                Answer::Grant(GrantAnswer::TooLate { now: Stamp::from_micros(self.number(now.as_micros())) })
            }
            Answer::Renew(answer) => Answer::Renew(held(answer)),
            Answer::Release(answer) => Answer::Release(held(answer)),
            Answer::Inspect(mut state) => {
                state.tenancies = state.tenancies.into_iter().map(|seen| self.tenancy(seen)).collect();
                Answer::Inspect(state)
            }
            other => other,
        }
    }
}
