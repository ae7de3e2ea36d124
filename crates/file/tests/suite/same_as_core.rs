//! The file against the plainest store there is: core's `apply` on records in memory. The same requests at the same times give
//! the same answers and leave the same records, through whichever connection, before and after the file was closed and opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, Claim, Fence, Holder, Label, LastFence, Manner, Records, Request, Runtime, Scene, Stamp,
    Store, Ttl, apply,
};
use leasehold_file::{BootId, FileStore, Ledger};
use tempfile::TempDir;

use crate::clocks::ByHand;
use crate::seeds::{Dice, key};

#[test]
fn a_ledger_answers_and_remembers_as_core_does() {
    let mut seen = Seen::default();
    for seed in 0..12 {
        let mut world = World::new(seed);
        let mut ledgers = [world.ledger(), world.ledger()];
        for _ in 0..800 {
            world.pass_some_time();
            if world.dice.once_in(200) {
                ledgers = world.reboot();
            }
            let which = usize::from(world.dice.once_in(2));
            if world.dice.once_in(20) {
                ledgers[which] = world.ledger();
            }
            let request = world.some_request(true);
            let expected = world.expect(&request);
            let served = ledgers[which].serve(request.clone()).unwrap();
            assert_eq!(served, expected, "seed {seed}: {request:?}");
            world.compare(ledgers[1 - which].dump().unwrap());
            seen.note(&served.answer);
        }
    }
    seen.enough();
}

#[tokio::test]
async fn a_store_answers_and_remembers_as_core_does() {
    let mut seen = Seen::default();
    for seed in 100..108 {
        let mut world = World::new(seed);
        let mut stores = [world.store(), world.store()];
        for _ in 0..600 {
            world.pass_some_time();
            let which = usize::from(world.dice.once_in(2));
            if world.dice.once_in(20) {
                stores[which] = world.store();
            }
            let store = &stores[which];
            let request = world.some_request(false);
            let expected = world.expect(&request).answer;
            let answer = match &request {
                Request::Grant { attempt, .. } => {
                    let manner = world.dice.one_of(&[Manner::Try, Manner::Wait { line_limit: None }]);
                    Answer::Grant(store.grant(attempt, manner).await.unwrap())
                }
                Request::Renew(attempt) => {
                    let twice = [attempt.clone(), attempt.clone()];
                    let again = world.expect(&request).answer;
                    let mut answers: Vec<_> = store
                        .renew(&twice)
                        .await
                        .into_iter()
                        .map(|answer| Answer::Renew(answer.unwrap()))
                        .collect();
                    assert_eq!(answers.pop(), Some(again));
                    answers.pop().unwrap()
                }
                Request::Release(attempt) => Answer::Release(store.release(attempt).await.unwrap()),
                Request::Inspect(key) => Answer::Inspect(store.inspect(key).await.unwrap()),
                _ => unreachable!("no such request is made here"),
            };
            assert_eq!(answer, expected, "seed {seed}: {request:?}");
            world.compare(stores[1 - which].dump().unwrap());
            seen.note(&answer);
        }
    }
    seen.enough();
}

struct World {
    directory: TempDir,
    clock: Arc<ByHand>,
    boots: u32,
    dice: Dice,
    plain: Records,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            clock: ByHand::new(),
            boots: 0,
            dice: Dice(seed),
            plain: Records::default(),
        }
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("leases.db")
    }

    fn ledger(&self) -> Ledger {
        Ledger::at(self.file(), self.runtime()).in_boot(BootId::new(&self.boots.to_string()))
    }

    fn store(&self) -> FileStore {
        FileStore::at(self.file(), self.runtime()).in_boot(BootId::new(&self.boots.to_string()))
    }

    fn runtime(&self) -> Arc<dyn Runtime> {
        Arc::clone(&self.clock) as _
    }

    fn now(&self) -> Stamp {
        Stamp::from_micros(self.clock.lease_clock())
    }

    fn pass_some_time(&mut self) {
        let micros = match self.dice.below(8) {
            0..4 => self.dice.below(5_000),
            4..6 => self.dice.below(2_000_000),
            6 => self.dice.below(700_000_000),
            _ => 0,
        };
        self.clock.pass(Duration::from_micros(micros));
        if self.dice.once_in(30) {
            let back = self.dice.below(3_600_000_000);
            self.clock.set_wall_clock(self.clock.wall_clock() - back);
        }
        if self.dice.once_in(10) {
            self.pass_until_something_ends();
        }
    }

    /// To the very microsecond at which a record ends, the one before it, or the one after.
    fn pass_until_something_ends(&mut self) {
        let now = self.now();
        let locks = self.plain.locks.values().filter_map(|lock| lock.ends);
        let ends: Vec<_> = locks.chain(self.plain.fences.values().map(|last| last.ends)).collect();
        let soon: Vec<_> = ends
            .into_iter()
            .filter(|ends| *ends > now && now.saturating_until(*ends).as_secs() < 7200)
            .collect();
        if !soon.is_empty() {
            let end = self.dice.one_of(&soon).as_micros() + self.dice.below(3) - 1;
            self.clock.pass(Duration::from_micros(end.saturating_sub(now.as_micros())));
        }
    }

    /// The machine goes down, and comes up with a clock that begins anew.
    fn reboot(&mut self) -> [Ledger; 2] {
        self.boots += 1;
        self.clock.set_lease_clock(self.dice.below(100_000_000));
        let ends = self.now() + LastFence::kept_for(Ttl::MIN);
        self.plain.locks.clear();
        // Of those that had ended the file may still know some, and the model none: both give them up here.
        let mut ledger = self.ledger();
        let written = ledger.dump().unwrap().fences;
        self.plain.fences =
            written.into_iter().map(|(key, last)| (key, LastFence::new(last.fence, ends))).collect();
        [ledger, self.ledger()]
    }

    fn some_request(&mut self, with_not_after: bool) -> Request {
        match self.dice.below(10) {
            0..5 => {
                let attempt = self.some_attempt();
                let around = self.clock.lease_clock() + self.dice.below(4);
                let not_after = (with_not_after && self.dice.once_in(3))
                    .then(|| Stamp::from_micros(around.saturating_sub(2)));
                Request::Grant { attempt, wait: None, not_after }
            }
            5..7 => Request::Renew(self.some_attempt()),
            7..9 => Request::Release(self.some_attempt()),
            _ => Request::Inspect(key(self.dice.one_of(&KEYS))),
        }
    }

    fn some_attempt(&mut self) -> Attempt {
        let keys: Vec<_> = (0..=self.dice.below(3)).map(|_| key(self.dice.one_of(&KEYS))).collect();
        let label = self.dice.one_of(&[None, Some("web-3"), Some("größe \\n ☃"), Some("")]);
        let ttl = self.dice.one_of(&[10, 1_000, 30_000, 3_600_000, Ttl::MAX.as_millis()]);
        // Long leases are rare, or nobody else would ever be granted anything.
        let ttl = if ttl > 30_000 && !self.dice.once_in(20) { 500 } else { ttl };
        Attempt::new(
            Claim::exclusive_all(keys).unwrap(),
            Holder::from_bits(u128::MAX - u128::from(self.dice.below(4))),
            label.map(|text| Label::new(text).unwrap()),
            Ttl::new(Duration::from_millis(ttl)).unwrap(),
        )
    }

    fn expect(&mut self, request: &Request) -> leasehold_core::Served {
        let scene = Scene::new(self.now(), Fence::new(self.clock.wall_clock()).unwrap());
        apply(&mut self.plain, request.clone(), &scene)
    }

    fn compare(&mut self, mut written: Records) {
        written.forget_ended(self.now());
        self.plain.forget_ended(self.now());
        assert_eq!(written, self.plain);
    }
}

const KEYS: [&str; 4] = ["a", "b", "\u{1}\u{0}{c}", "d d"];

/// Which answers came: a comparison of refusals only would prove little.
#[derive(Debug, Default)]
struct Seen {
    granted: u32,
    busy: u32,
    done: u32,
    not_held: u32,
    held: u32,
}

impl Seen {
    fn note(&mut self, answer: &Answer) {
        use leasehold_core::{GrantAnswer, HoldAnswer};
        match answer {
            Answer::Grant(GrantAnswer::Granted { .. }) => self.granted += 1,
            Answer::Grant(GrantAnswer::Busy { .. }) => self.busy += 1,
            Answer::Renew(HoldAnswer::Done) | Answer::Release(HoldAnswer::Done) => self.done += 1,
            Answer::Renew(_) | Answer::Release(_) => self.not_held += 1,
            Answer::Inspect(state) if !state.tenancies.is_empty() => self.held += 1,
            _ => {}
        }
    }

    fn enough(&self) {
        let least = [self.granted, self.busy, self.done, self.not_held, self.held].into_iter().min();
        assert!(least >= Some(30), "{self:?}");
        println!("{self:?}");
    }
}
