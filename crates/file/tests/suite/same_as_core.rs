//! The file compared with core's `apply` on records in memory. The same requests at the same times
//! give the same answers, concern the same waiters and leave the same records, through any
//! connection, before and after the file was closed. Grants of a connection end when it is closed,
//! which the model is told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold_core::{
    Answer, ApplyContext, Attempt, BreakAnswer, BreakNote, Channel, Claim, Content, Fence, GrantAnswer,
    HoldAnswer, Holder, Key, Label, LastFence, LeaseBreak, Mark, Marked, Proposal, PushEvent, RaiseAnswer,
    Records, Request, Served, Shares, Stamp, Subscribers, Successor, Ticket, Ttl, Wait, WaitQueue, apply,
};
use leasehold_file::{BootId, Ledger};
use tempfile::TempDir;

use crate::clocks::ByHand;
use crate::seeds::{Dice, key};

#[test]
fn a_ledger_answers_and_remembers_as_core_does() {
    let mut seen = Seen::default();
    for seed in 0..24 {
        let mut world = World::new(seed);
        let mut ledgers = [world.ledger(), world.ledger()];
        for _ in 0..1100 {
            world.pass_some_time();
            if world.dice.once_in(200) {
                drop(ledgers);
                ledgers = world.reboot();
            }
            let which = usize::from(world.dice.once_in(2));
            if world.dice.once_in(20) {
                let dead = std::mem::replace(&mut ledgers[which], world.ledger());
                world.dies(dead, &mut ledgers[which]);
            }
            if world.dice.once_in(10) {
                world.somebody_stops_or_begins_to_listen();
            }
            let request = world.some_request();
            world.serve(&mut ledgers[which], &request, &mut seen);
            world.compare(ledgers[1 - which].0.dump().unwrap());
        }
    }
    seen.enough();
    seen.at_least(501, &["place in a queue"]);
    seen.at_least(201, &["death"]);
    seen.at_least(151, &["push"]);
}

/// More dead waiters than one request removes, and then those behind them.
#[test]
fn a_crowd_that_is_gone_is_cleared_away_as_core_does_it() {
    for gone in [2, 5, 99, 100, 101, 102, 103, 104, 105, 230] {
        let mut seen = Seen::default();
        let mut world = World::new(gone);
        let mut ledger = world.ledger();
        let claim = |who: u64| {
            Attempt::new(Claim::exclusive(key("a")), Holder::from_bits(who.into()), None, Ttl::DEFAULT)
        };
        for who in 0..=gone + 5 {
            world.clock.pass(Duration::from_micros(10));
            let channel = if who <= gone { "gone" } else { "left" };
            let wait = Wait { channel: Some(Channel::new(channel)), ..Wait::default() };
            let request = Request::Grant { attempt: claim(who), wait: Some(wait), not_after: None };
            world.serve(&mut ledger, &request, &mut seen);
        }
        world.listening.0.lock().unwrap().remove(&Channel::new("gone"));
        // The last waiter, one in the middle, and the holder.
        for who in [gone + 5, gone / 2 + 1, 0, gone + 1, gone + 2] {
            let served = world.serve(&mut ledger, &Request::Release(claim(who)), &mut seen);
            world.compare(ledger.0.dump().unwrap());
            let mut unfinished = served.unfinished;
            while !unfinished.is_empty() {
                unfinished = world.serve(&mut ledger, &Request::Advance(unfinished), &mut seen).unfinished;
                world.compare(ledger.0.dump().unwrap());
            }
        }
        assert_eq!(seen.of("push"), 6, "three were handed the lock, and each time somebody was next");
    }
}

/// A ledger, and the number by which the model knows it.
struct Numbered(Ledger, u32);

/// The channels that are listened on in this test.
#[derive(Debug)]
struct Listening(Mutex<BTreeSet<Channel>>);

impl Subscribers for Listening {
    fn listens(&self, channel: &Channel) -> bool {
        self.0.lock().unwrap().contains(channel)
    }
}

struct World {
    directory: TempDir,
    clock: Arc<ByHand>,
    boots: u32,
    dice: Dice,
    plain: Records,
    listening: Arc<Listening>,
    ledgers: u32,
    /// The ledger by which each lease was granted, or by which its waiter joined.
    lives: BTreeMap<(Key, Holder), u32>,
    waiting: BTreeMap<(Key, Holder), u32>,
    tickets: BTreeMap<Holder, (Key, Ticket)>,
    dead: BTreeSet<u32>,
    deaths: usize,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            clock: ByHand::new(),
            boots: 0,
            dice: Dice(seed),
            plain: Records::default(),
            listening: Arc::new(Listening(Mutex::new(CHANNELS.map(Channel::new).into()))),
            ledgers: 0,
            lives: BTreeMap::new(),
            waiting: BTreeMap::new(),
            tickets: BTreeMap::new(),
            dead: BTreeSet::new(),
            deaths: 0,
        }
    }

    fn ledger(&mut self) -> Numbered {
        self.ledgers += 1;
        let mut ledger = Ledger::at(self.directory.path().join("leases.db"), Arc::clone(&self.clock) as _)
            .in_boot(BootId::new(&self.boots.to_string()));
        // The first one makes the file. A forked child may keep an earlier ledger alive for a moment.
        let begun = Instant::now();
        while let Err(fault) = ledger.open() {
            assert!(begun.elapsed() < Duration::from_secs(5), "{fault}");
            std::thread::sleep(Duration::from_millis(1));
        }
        let now = self.now();
        self.plain.voided.get_or_insert(now);
        Numbered(ledger.mortal().with_subscribers(Arc::clone(&self.listening) as _), self.ledgers)
    }

    /// Grants of a ledger end with it, unless a forked child keeps it alive for a moment.
    fn dies(&mut self, ledger: Numbered, witness: &mut Numbered) {
        self.dead.insert(ledger.1);
        self.void_the_dead();
        drop(ledger);
        let begun = Instant::now();
        while !self.is_same(witness.0.dump().unwrap()) {
            assert!(begun.elapsed() < Duration::from_secs(5), "the dead live on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Also a lock that a dead waiter was handed.
    fn void_the_dead(&mut self) {
        let (lives, dead) = (&self.lives, &self.dead);
        let is_dead =
            |key: &Key, holder| lives.get(&(key.clone(), holder)).is_some_and(|life| dead.contains(life));
        let before = self.plain.locks.len();
        self.plain.locks.retain(|key, lock| match lock.content {
            Content::Lease { holder, .. } => !is_dead(key, holder),
            _ => true,
        });
        self.deaths += before - self.plain.locks.len();
        for (key, holder) in shares(&self.plain) {
            if is_dead(&key, holder) {
                self.plain.end_share(&key, holder);
                self.deaths += 1;
            }
        }
    }

    /// Serves a request by the file and by the model, which must agree.
    fn serve(&mut self, ledger: &mut Numbered, request: &Request, seen: &mut Seen) -> Served {
        self.plain.forget_ended(self.now());
        let before = self.plain.clone();
        let context = ApplyContext::new(self.now(), Fence::new(self.clock.wall_clock()).unwrap());
        let context = context.with_subscribers(&*self.listening);
        let expected = apply(&mut self.plain, request.clone(), &context);
        let mut served = ledger.0.serve(request.clone()).unwrap();
        for push in served.pushes.iter_mut().filter(|push| push.event == PushEvent::Broken) {
            // Only the file knows the session of a lease, and so the channel of its holder.
            let is_bound = self.lives.contains_key(&(push.key.clone(), push.holder));
            assert_eq!(push.to.take().is_some(), is_bound, "is told that its lease was broken");
        }
        assert_eq!(served, expected, "{request:?}");
        self.note_lives(&before, request, ledger.1);
        self.void_the_dead();
        if let (
            Request::Grant { attempt, .. },
            Answer::Grant(GrantAnswer::Busy { held_by, place: Some(place) }),
        ) = (request, &served.answer)
        {
            self.tickets.insert(attempt.holder, (held_by.key.clone(), place.ticket));
            seen.count("place in a queue", 1);
        }
        seen.note(&served.answer);
        seen.count("push", served.pushes.len());
        seen.count("death", std::mem::take(&mut self.deaths));
        served
    }

    fn note_lives(&mut self, before: &Records, request: &Request, ledger: u32) {
        let is_of_holder = !matches!(request, Request::Transfer { .. } | Request::Mark { .. });
        let requester = request.attempt().filter(|_| is_of_holder);
        let asks_for = |key: &Key, holder: Holder| {
            requester.is_some_and(|requester| {
                requester.holder == holder && requester.claim.keys().any(|own| own == key)
            })
        };
        let now = self.now();
        for key in self.plain.locks.keys() {
            for holder in self.plain.holder_ids(key, now) {
                let place = (key.clone(), holder);
                if asks_for(key, holder) {
                    self.lives.insert(place, ledger);
                } else if !before.holder_ids(key, now).contains(&holder) {
                    // A lease that was transferred to a successor depends on no process.
                    self.lives.extend(self.waiting.get(&place).map(|life| (place, *life)));
                }
            }
        }
        for (key, queue) in &self.plain.queues {
            for (_, waiter) in queue.waiters().filter(|(_, waiter)| asks_for(key, waiter.holder)) {
                self.waiting.insert((key.clone(), waiter.holder), ledger);
            }
        }
    }

    fn somebody_stops_or_begins_to_listen(&mut self) {
        let channel = Channel::new(self.dice.one_of(&CHANNELS));
        let mut listening = self.listening.0.lock().unwrap();
        if !listening.remove(&channel) {
            listening.insert(channel);
        }
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

    /// To the microsecond at which a record ends, the one before it, or the one after.
    fn pass_until_something_ends(&mut self) {
        let now = self.now();
        let locks = self.plain.locks.values().filter_map(|lock| lock.ends);
        let shares = self.plain.shares.values().flat_map(Shares::all).map(|(_, share)| share.ends);
        let lines = self.plain.queues.values().filter_map(WaitQueue::ends);
        let fences = self.plain.fences.values().map(|last| last.ends);
        let ends: Vec<_> = locks.chain(shares).chain(lines).chain(fences).collect();
        let soon: Vec<_> = ends
            .into_iter()
            .filter(|ends| *ends > now && now.saturating_until(*ends).as_secs() < 7200)
            .collect();
        if !soon.is_empty() {
            let end = self.dice.one_of(&soon).as_micros() + self.dice.below(3) - 1;
            self.clock.pass(Duration::from_micros(end.saturating_sub(now.as_micros())));
        }
    }

    /// The machine goes down, and comes up with a clock that starts at zero.
    fn reboot(&mut self) -> [Numbered; 2] {
        self.boots += 1;
        self.clock.set_lease_clock(self.dice.below(100_000_000));
        let ends = self.now() + LastFence::kept_for(Ttl::MIN);
        self.plain.locks.clear();
        self.plain.shares.clear();
        self.plain.queues.clear();
        self.plain.voided = Some(self.now());
        // The file may still have some of the ended leases: both give them up here.
        let mut ledger = self.ledger();
        let written = ledger.0.dump().unwrap().fences;
        self.plain.fences =
            written.into_iter().map(|(key, last)| (key, LastFence::new(last.fence, ends))).collect();
        [ledger, self.ledger()]
    }

    fn some_request(&mut self) -> Request {
        match self.dice.below(17) {
            14 => {
                let attempt = self.some_holders_attempt();
                let fence = Fence::new(self.dice.below(1 << 50)).unwrap();
                let mark =
                    Mark::new(Stamp::from_micros(self.dice.below(1 << 50)), fence, attempt.label.clone());
                let period = Duration::from_micros(self.dice.below(1 << 50));
                let mark = if self.dice.once_in(2) { mark.every(period) } else { mark };
                // The clock is set back and forth here, so ended records may or may not be gone.
                Request::Mark { attempt, mark, keep: Mark::FOR_EVER }
            }
            16 if self.dice.once_in(2) => {
                let attempt = self.some_holders_attempt();
                let fresh = Holder::from_bits(1 << 64 | u128::from(self.dice.below(1 << 32)));
                let holder = if self.dice.once_in(3) { attempt.holder } else { fresh };
                let successor = Successor { holder, label: attempt.label.clone() };
                Request::Transfer { attempt, successor, not_after: None }
            }
            15 => Request::Marked(key(self.dice.one_of(&KEYS))),
            13 => {
                let key = key(self.dice.one_of(&KEYS));
                let last = self.plain.fences.get(&key).map_or(1, |last| last.fence.get());
                // The fence of the holder, or an earlier one.
                let fence = Fence::new(last - self.dice.below(2)).unwrap();
                Request::Break { key, lease: LeaseBreak::new(fence, self.some_note()) }
            }
            10 | 11 => {
                let not_after = self.some_not_after();
                let attempt = self.some_holders_attempt();
                Request::Rejoin { attempt: self.proposing(attempt), not_after }
            }
            12 => {
                let attempt = self.some_holders_attempt();
                Request::Raise(self.proposing(attempt))
            }
            0..5 => {
                let attempt = self.some_attempt();
                let not_after = self.some_not_after();
                let wait = (!self.dice.once_in(4)).then(|| self.some_wait(attempt.holder));
                Request::Grant { attempt, wait, not_after }
            }
            5..7 => Request::Renew(self.some_holders_attempt()),
            7..9 => Request::Release(self.some_holders_attempt()),
            9 if self.dice.once_in(2) => {
                Request::Advance(vec![key(self.dice.one_of(&KEYS)), key(self.dice.one_of(&KEYS))])
            }
            _ => Request::Inspect(key(self.dice.one_of(&KEYS))),
        }
    }

    /// Around the present.
    fn some_not_after(&mut self) -> Option<Stamp> {
        let around = self.clock.lease_clock() + self.dice.below(4);
        self.dice.once_in(3).then(|| Stamp::from_micros(around.saturating_sub(2)))
    }

    fn some_note(&mut self) -> BreakNote {
        let said = |text: &str| Some(Label::new(text).unwrap());
        let by = if self.dice.once_in(2) { said("ada") } else { None };
        let reason = if self.dice.once_in(2) { said("it hangs") } else { said("") };
        BreakNote { by, reason }
    }

    fn proposing(&mut self, attempt: Attempt) -> Attempt {
        let clock = self.clock.wall_clock();
        let near = clock + self.dice.below(3_000_000) - 1_500_000;
        let fence = Fence::new(self.dice.one_of(&[near, near, clock + 90_000_000, 5, Fence::MAX.get()]));
        let max_ttl = Ttl::new(Duration::from_secs(self.dice.one_of(&[5, 60]))).unwrap();
        attempt.at_member(attempt.holder, Proposal { fence: fence.unwrap(), max_ttl })
    }

    /// Mostly of a current holder; otherwise nothing would ever be released.
    fn some_holders_attempt(&mut self) -> Attempt {
        let attempt = self.some_attempt();
        let leases = self.plain.locks.iter().filter_map(|(key, lock)| match lock.content {
            Content::Lease { holder, .. } => Some((key.clone(), holder)),
            _ => None,
        });
        let held: Vec<_> = leases.chain(shares(&self.plain)).collect();
        if held.is_empty() || self.dice.once_in(3) {
            return attempt;
        }
        let (key, holder) = self.dice.one_of(&held);
        Attempt::new(self.some_claim(vec![key]), holder, attempt.label, attempt.ttl)
    }

    /// In any mode: a holder is released and renewed whatever its claim says.
    fn some_claim(&mut self, keys: Vec<Key>) -> Claim {
        match self.dice.below(8) {
            0..3 => Claim::exclusive_all(keys),
            3..6 => Claim::shared(keys),
            // Few different totals; otherwise permits would never be shared.
            _ => {
                let of = self.dice.one_of(&[3, 3, 2]);
                let weight = self.dice.below(2) as u32 + 1;
                Claim::permits(keys, weight, of)
            }
        }
        .unwrap()
    }

    fn some_wait(&mut self, holder: Holder) -> Wait {
        let channel = self.dice.one_of(&[Some(CHANNELS[0]), Some(CHANNELS[1]), Some(CHANNELS[2]), None]);
        let ticket = self.tickets.get(&holder).cloned().filter(|_| self.dice.once_in(2));
        let queue_limit = self.dice.once_in(10).then(|| self.dice.below(8));
        Wait { channel: channel.map(Channel::new), ticket, queue_limit, ..Wait::default() }
    }

    fn some_attempt(&mut self) -> Attempt {
        let more = if self.dice.once_in(3) { self.dice.below(3) } else { 0 };
        let keys: Vec<_> = (0..=more).map(|_| key(self.dice.one_of(&KEYS))).collect();
        let label = self.dice.one_of(&[None, Some("web-3"), Some("größe \\n ☃"), Some("")]);
        let ttl = self.dice.one_of(&[10, 1_000, 30_000, 3_600_000, Ttl::MAX.as_millis()]);
        // Long leases are rare; otherwise nobody else would ever be granted anything.
        let ttl = if ttl > 30_000 && !self.dice.once_in(20) { 500 } else { ttl };
        let attempt = Attempt::new(
            self.some_claim(keys),
            Holder::from_bits(u128::MAX - u128::from(self.dice.below(14))),
            label.map(|text| Label::new(text).unwrap()),
            Ttl::new(Duration::from_millis(ttl)).unwrap(),
        );
        if self.dice.once_in(4) { self.proposing(attempt) } else { attempt }
    }

    fn compare(&mut self, mut written: Records) {
        written.forget_ended(self.now());
        self.plain.forget_ended(self.now());
        assert_eq!(written, self.plain);
    }

    fn is_same(&mut self, mut written: Records) -> bool {
        written.forget_ended(self.now());
        self.plain.forget_ended(self.now());
        written == self.plain
    }
}

fn shares(records: &Records) -> Vec<(Key, Holder)> {
    let shares = records.shares.iter();
    shares.flat_map(|(key, shares)| shares.all().map(|(holder, _)| (key.clone(), holder))).collect()
}

const CHANNELS: [&str; 4] = ["left", "right", "far away", "gone"];

const KEYS: [&str; 4] = ["a", "b", "\u{1}\u{0}{c}", "d d"];

/// How often each kind of answer or event came: a comparison of refusals only would prove little.
#[derive(Debug, Default)]
struct Seen(BTreeMap<&'static str, usize>);

impl Seen {
    fn count(&mut self, kind: &'static str, times: usize) {
        *self.0.entry(kind).or_default() += times;
    }

    fn of(&self, kind: &str) -> usize {
        self.0.get(kind).copied().unwrap_or(0)
    }

    fn at_least(&self, least: usize, kinds: &[&str]) {
        for kind in kinds {
            assert!(self.of(kind) >= least, "{kind}: {self:?}");
        }
    }

    fn note(&mut self, answer: &Answer) {
        let kind = match answer {
            Answer::Grant(GrantAnswer::Granted { .. }) => "granted",
            Answer::Grant(GrantAnswer::Busy { .. }) => "busy",
            Answer::Rejoin(HoldAnswer::Done) => "rejoined",
            Answer::Transfer(HoldAnswer::Done) => "transferred",
            Answer::Raise(RaiseAnswer::Raised { .. }) => "raised",
            Answer::Mark(HoldAnswer::Done) => "marked",
            Answer::Marked(Marked { mark: Some(_), .. }) => "mark found",
            Answer::Quarantined { .. } => "quarantined",
            Answer::Break(BreakAnswer::Broken { .. }) => "broken",
            Answer::Renew(HoldAnswer::Done) | Answer::Release(HoldAnswer::Done) => "done",
            Answer::Renew(_) | Answer::Release(_) => "not held",
            Answer::Inspect(state) if state.holders.len() > 1 => "held together",
            Answer::Inspect(state) if !state.holders.is_empty() => "held",
            _ => return,
        };
        self.count(kind, 1);
    }

    fn enough(&self) {
        println!("{self:?}");
        self.at_least(30, &["granted", "busy", "done", "not held", "held"]);
        self.at_least(15, &["rejoined", "raised", "quarantined", "broken", "transferred"]);
        self.at_least(15, &["marked", "mark found"]);
        self.at_least(2, &["held together"]);
    }
}
