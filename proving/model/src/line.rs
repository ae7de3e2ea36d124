//! The line of one key: who waits is handed the lock by whoever leaves it.
//!
//! Each attempt has one connection with one channel, in order both ways. Time passes in ticks at any moment. A claim window is
//! one tick and a ttl two, which is enough to confuse them. Left out, each for a reason:
//!
//! - *A reconnection.* A push that was lost, and a peer that is dead before the store notices, are all that the line can see of
//!   it. A fresh channel name for an attempt that waits on is not modelled.
//! - *Asking again at once.* A waiter asks again, or pings, when some time has passed since its last answer.
//! - *Between `SET` and `INCR`.* The native pair is one step, in which the counter says whether there is a line.
//! - *Fences, ids, giving up on another connection.* See [`grant`](crate::grant).
//! - *The ttl of the line itself.* What dead waiters leave in it is not held against it.

mod client;
mod store;

use crate::explore::World;
use client::{Client, Phase};
use store::{Reply, Request, Store};

const TTL: u8 = 2;
/// How long a lock that was handed over waits to be claimed.
const WINDOW: u8 = 1;

/// A rule left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flaw {
    /// A renewal writes a value without the mark.
    RenewalDropsTheMark,
    /// A hand-over writes a value without the mark, and every holder may release natively.
    HandOverDropsTheMark,
    /// A release by who stands in line leaves it there.
    ReleaseStaysInLine,
    /// A push that counts nobody is taken for one that reached nobody.
    TrustsTheCountOfThePush,
    /// Only a release by the owner hands over.
    AdvancesOnlyWhenTheOwnerLeaves,
    /// A pushed grant is believed for its ttl from the start.
    CountsTheTtlAtOnce,
    /// A pushed grant is counted from when the push was read.
    CountsFromThePush,
    /// Whoever owns the key and asks again steps back behind those who wait.
    StepsBackWithoutTheFlag,
    /// The native pair takes a free key although there is a line.
    PairSlipsPastTheLine,
}

/// How much may go wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Trouble {
    /// Clients that crash.
    pub crashes: u8,
    /// Waiters that change their mind.
    pub cancels: u8,
    /// Pushes that are lost.
    pub lost_pushes: u8,
}

impl Trouble {
    /// So much.
    #[must_use]
    pub const fn new(crashes: u8, cancels: u8, lost_pushes: u8) -> Self {
        Self { crashes, cancels, lost_pushes }
    }
}

/// The world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    flaw: Option<Flaw>,
    trouble: Trouble,
    timeless: bool,
    by_script: bool,
    store: Store,
    clients: Vec<Client>,
    /// Whether something happened after which a waiter may have to ask again: a crash, a lost push, a lease that ended.
    disturbed: bool,
    crashed: bool,
}

/// What can happen, to which client.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each reads as a sentence in a trace")]
pub enum Step {
    TimePasses,
    AsksByThePair(usize),
    AsksInTheScript(usize),
    AsksAgain(usize),
    Pings(usize),
    Renews(usize),
    ReleasesNatively(usize),
    Releases(usize),
    Cancels(usize),
    Crashes(usize),
    StoreServes(usize),
    StoreSeesTheDeathOf(usize),
    Reads(usize),
    LosesAPush(usize),
}

impl Line {
    /// So many attempts on one key, each by a process of its own.
    #[must_use]
    pub fn new(flaw: Option<Flaw>, attempts: usize, trouble: Trouble) -> Self {
        Self {
            flaw,
            trouble,
            timeless: false,
            by_script: false,
            store: Store::new(flaw, attempts),
            clients: vec![Client::default(); attempts],
            disturbed: false,
            crashed: false,
        }
    }

    /// The same without time: no lease ends, and nobody asks again, so each wake-up must come by push. Much smaller.
    #[must_use]
    pub fn timeless(self) -> Self {
        Self { timeless: true, ..self }
    }

    /// The same without the native pair, and without pings, so that leases from a push are rarely fresh. Smaller.
    #[must_use]
    pub fn by_script(self) -> Self {
        Self { by_script: true, ..self }
    }

    fn serve(&mut self, at: usize) {
        let request = self.clients[at].up.remove(0);
        let (reply, pushes) = self.store.serve(at, request);
        for to in pushes {
            if self.clients[to].phase != Phase::Dead {
                self.clients[to].down.push(Reply::Pushed);
            }
        }
        if self.clients[at].phase != Phase::Dead {
            self.clients[at].down.push(reply);
        }
    }
}

impl World for Line {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = if self.timeless { Vec::new() } else { vec![Step::TimePasses] };
        for (at, it) in self.clients.iter().enumerate() {
            // Who asks first is number 0: until then all are alike.
            let comes_next = at == 0 || self.clients[at - 1].phase != Phase::Idle;
            if it.phase != Phase::Idle || comes_next {
                it.steps(at, self.flaw, &mut steps);
            }
            let waits = matches!(it.phase, Phase::Asking | Phase::Waiting);
            if waits && self.trouble.cancels > 0 {
                steps.push(Step::Cancels(at));
            }
            if (waits || it.phase == Phase::Holding) && self.trouble.crashes > 0 {
                steps.push(Step::Crashes(at));
            }
            if !it.up.is_empty() {
                steps.push(Step::StoreServes(at));
            }
            if it.phase == Phase::Dead && it.up.is_empty() && self.store.is_listened(at) {
                steps.push(Step::StoreSeesTheDeathOf(at));
            }
            if let Some(first) = it.down.first() {
                steps.push(Step::Reads(at));
                if *first == Reply::Pushed && self.trouble.lost_pushes > 0 {
                    steps.push(Step::LosesAPush(at));
                }
            }
        }
        steps.retain(|step| !self.by_script || !matches!(step, Step::AsksByThePair(_) | Step::Pings(_)));
        steps
    }

    fn take(&self, step: &Step) -> Self {
        let mut next = self.clone();
        match *step {
            Step::TimePasses => {
                next.disturbed |= next.store.pass_time();
                next.clients.iter_mut().for_each(Client::pass_time);
            }
            Step::AsksByThePair(at) => next.clients[at].asks(Request::Pair),
            Step::AsksInTheScript(at) | Step::AsksAgain(at) => next.clients[at].asks(Request::Ask),
            Step::Pings(at) => next.clients[at].calls(Request::Ping),
            Step::Renews(at) => next.clients[at].calls(Request::Renew),
            Step::ReleasesNatively(at) => next.clients[at].leaves(Request::NativeRelease),
            Step::Releases(at) => next.clients[at].leaves(Request::Release),
            Step::Cancels(at) => {
                next.trouble.cancels -= 1;
                next.clients[at].leaves(Request::Release);
            }
            Step::Crashes(at) => {
                next.trouble.crashes -= 1;
                next.clients[at].dies();
                (next.disturbed, next.crashed) = (true, true);
            }
            Step::StoreServes(at) => next.serve(at),
            Step::StoreSeesTheDeathOf(at) => next.store.hears_of_death(at),
            Step::Reads(at) => {
                let reply = next.clients[at].down.remove(0);
                next.clients[at].hears(reply, self.flaw);
            }
            Step::LosesAPush(at) => {
                next.trouble.lost_pushes -= 1;
                next.clients[at].down.remove(0);
                next.disturbed = true;
            }
        }
        next
    }

    fn broken(&self) -> Option<String> {
        let fault = |text: &str| Some(text.to_owned());
        if self.clients.iter().filter(|client| client.believed > 0).count() > 1 {
            return fault("two believe that they hold");
        }
        let alive = |at: usize| self.clients[at].phase != Phase::Dead;
        if self.store.passed_over.is_some_and(alive) {
            return fault("a live waiter was passed over");
        }
        let silent = self.clients.iter().all(|client| client.up.is_empty() && client.down.is_empty());
        let waits = self.clients.iter().any(|client| client.phase == Phase::Waiting);
        if silent && waits && !self.disturbed && self.store.is_free() {
            return fault("a wake-up is lost");
        }
        let over = self.clients.iter().all(|client| matches!(client.phase, Phase::Idle | Phase::Gone));
        if silent && over && !self.crashed && !self.store.is_empty() {
            return fault("something is left behind");
        }
        None
    }

    fn is_settled(&self) -> bool {
        !self.clients.iter().any(|client| matches!(client.phase, Phase::Asking | Phase::Waiting))
    }

    fn is_fair(step: &Step) -> bool {
        use Step::{AsksByThePair, AsksInTheScript, Cancels, Crashes, LosesAPush};
        !matches!(step, Cancels(_) | Crashes(_) | LosesAPush(_) | AsksByThePair(_) | AsksInTheScript(_))
    }
}
