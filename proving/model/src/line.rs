//! The line of one key: who waits is handed the lock by whoever leaves it.
//!
//! Processes have one connection each, in order both ways, and one channel drawn for it; attempts of one process share them. Time
//! passes in ticks at any moment. A claim window is one tick and a ttl two, which is enough to confuse them.
//!
//! # The rules
//!
//! **Ask** (join, and ask again) is one script. Past its not-after it writes nothing. It lifts the strike of its channel and clears
//! the unclaimed record of it. Who owns the key already is granted it, and its lease never gets shorter; but who has it by a pair
//! that was not believed, while others wait, goes back to its place. Otherwise it joins, with its ticket if it knows one, the line
//! advances, and what it finds of ours at the key it marks.
//!
//! **Renew** clears the unclaimed record of its attempt, owner or not, and keeps the mark. **Release**, which is also giving up,
//! always leaves the line. Both advance. After each script the fence stands aside while there is a line, whoever comes to stand
//! first is told when the holder's lease ends, and a counter without end is gone.
//!
//! **Advance** first strikes the channel of who was handed the lock and no longer owns it unclaimed. While the key is free, the first
//! in line has it: by the answer if it asks; by push and for a window if its channel is listened to and not struck; else it
//! is dropped.
//!
//! **The pair** takes and then counts; others may come between. It comes first in an attempt or not at all. Only who holds and never
//! joined releases natively.
//!
//! **A pushed grant** lasts a window from the first ask, or from the latest command on this connection that was answered before, whichever is
//! later. If that is past when it is read, the attempt asks again. A loss makes the siblings ask again.
//!
//! # What must be
//!
//! No two believe at once, except who owned when the state was lost. A fence that a pair counts is above all that were given. Nobody
//! who came later goes first, but past who cannot hear. From everywhere everybody in want gets there by fair steps, of which the store's
//! noticing that a peer is dead is none. Nothing is left by who is gone.
//!
//! # What is left out
//!
//! - *The limit of drops in one call,* and several keys.
//! - *The ttl of the line.* It is forgotten at any moment, so many times.
//! - *A not-after of the native pair.* It has none: what it leaves ends with its ttl, and is not held against it.
//! - *All at once.* Each world has a few kinds of trouble; see [`Scope`].
//! - *Three attempts of which two are siblings,* to the end. Rules left out are sought and found in that world; the sound rules are
//!   explored there in none. To the end they are for two siblings, and for three attempts apart.

mod client;
mod fence;
mod flaw;
mod scope;
mod store;
mod turn;

use std::hash::{Hash, Hasher};

use crate::explore::World;
use arrayvec::ArrayVec;
use client::{Attempt, Message, Move, Phase, Process, Queue};
use store::{Key, Push, Reply, Request, Store};

pub use flaw::Flaw;
pub use scope::Scope;

const TTL: u8 = 2;
/// How long a lock that was handed over waits to be claimed.
const WINDOW: u8 = 1;

/// The most attempts that there are.
const MOST: usize = 3;

/// An attempt, by its number.
type Who = u8;

/// As many as there are attempts, at most.
type Few<T> = ArrayVec<T, MOST>;

/// What is the same in all states of a world, and need not be looked at to tell them apart.
#[derive(Clone, Copy, Debug)]
struct Fixed<T>(T);

impl<T> PartialEq for Fixed<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Fixed<T> {}

impl<T> Hash for Fixed<T> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// The world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    flaw: Option<Flaw>,
    scope: Scope,
    store: Store,
    processes: Few<Process>,
    attempts: Few<Attempt>,
    /// Whether something happened after which a waiter may have to ask again of itself.
    disturbed: bool,
    /// Whether a lease ended, and nobody asked since.
    lapsed: bool,
    /// Whether something may rightly be left behind.
    littered: bool,
}

/// A request as a trace shows it.
#[derive(Clone, Debug)]
pub struct Served(#[expect(dead_code, reason = "to be read in a trace")] Message<Request>);

/// An answer or a push as a trace shows it.
#[derive(Clone, Debug)]
pub struct Heard(#[expect(dead_code, reason = "to be read in a trace")] Message<Reply>);

/// What can happen; attempts and processes are told apart by number.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each reads as a sentence in a trace")]
pub enum Step {
    TimePasses,
    AsksByThePair(u8),
    AsksInTheScript(u8),
    AsksAgain(u8),
    Pings(u8),
    Renews(u8),
    ReleasesNatively(u8),
    Releases(u8),
    GivesUp(u8),
    ProcessCrashes(usize),
    ConnectionBreaks { process: usize, still_arriving: bool },
    StoreServes { process: usize, what: Served },
    StoreServesAStray { process: usize, what: Served },
    StoreSeesTheEndOf { process: usize, connection: u8 },
    Reads { process: usize, what: Heard },
    LosesAPush(usize),
    EverythingIsDeleted,
    ServerStartsEmpty,
    StrangerTakes,
    StrangerReleases,
    SomebodyDeletesTheKey,
    LineIsForgotten,
    ServersClockIsSetForward,
}

impl Line {
    /// A world of that scope.
    #[must_use]
    pub fn new(flaw: Option<Flaw>, scope: Scope) -> Self {
        Self {
            flaw,
            scope,
            store: Store::new(flaw, scope),
            processes: std::iter::repeat_n(Process::new(), scope.processes()).collect(),
            attempts: std::iter::repeat_n(Attempt::default(), scope.attempts as usize).collect(),
            disturbed: false,
            lapsed: false,
            littered: false,
        }
    }

    fn of(&self, process: usize) -> impl Iterator<Item = Who> + use<> {
        let scope = self.scope;
        (0..scope.attempts).filter(move |who| scope.process_of(*who) == process)
    }

    fn moves(&self, who: Who) -> Few<Move> {
        let at = self.scope.process_of(who);
        let asks_for_all =
            self.of(at).find(|it| self.attempts[*it as usize].phase == Phase::Waiting) == Some(who);
        let start = self.processes[at].start;
        self.attempts[who as usize].moves(self.scope, self.flaw, start, asks_for_all)
    }

    fn make(&mut self, who: Who, it: Move) {
        let what = self.attempts[who as usize].makes(it, self.flaw);
        self.send(who, what);
    }

    fn send(&mut self, who: Who, what: Request) {
        self.processes[self.scope.process_of(who)].up.push(Message { who, what, age: 0 });
    }

    /// On the connection, or what is left of the one before.
    fn serve(&mut self, at: usize, stray: bool) {
        let process = &mut self.processes[at];
        let (queue, channel) = if stray {
            (&mut process.stray, process.channel - 1)
        } else {
            (&mut process.up, process.channel)
        };
        let mut pushes = Vec::new();
        let Message { who, age, .. } = queue[0];
        let answer = self.store.serve(who, channel, age, &mut queue[0].what, &mut pushes);
        let Some(what) = answer else { return };
        self.lapsed &= !matches!(queue[0].what, Request::Ask { .. } if what != Reply::TooLate);
        queue.remove(0);
        pushes.into_iter().for_each(|push| self.deliver(push));
        let process = &mut self.processes[at];
        if process.alive && !stray {
            process.down.push(Message { who, what, age });
        }
        self.disturbed |= std::mem::take(&mut self.store.turns.dropped);
    }

    fn deliver(&mut self, (who, channel, what): Push) {
        let process = &mut self.processes[self.scope.process_of(who)];
        let hears = channel == process.channel || self.flaw == Some(Flaw::ReusesTheChannel);
        if process.alive && hears {
            process.down.push(Message { who, what, age: 0 });
        } else {
            self.disturbed = true;
        }
    }

    fn read(&mut self, at: usize) {
        let process = &mut self.processes[at];
        let Message { who, what, age } = process.down.remove(0);
        let attempt = &mut self.attempts[who as usize];
        match what {
            Reply::Pushed => {
                if attempt.hears_the_push(age, process.start, process.clock_off, self.flaw) {
                    self.send(who, Request::Release);
                }
            }
            Reply::First(left) => attempt.hears_that_it_is_first(left),
            _ => {
                process.start = process.start.min(age);
                if attempt.hears(what, age, self.flaw) && self.flaw != Some(Flaw::SiblingsStayAway) {
                    self.of(at).filter(|it| *it != who).for_each(|it| {
                        let sibling = &mut self.attempts[it as usize];
                        sibling.told |= sibling.phase == Phase::Waiting;
                    });
                }
            }
        }
    }

    fn break_connection(&mut self, at: usize, still_arriving: bool) {
        let process = &mut self.processes[at];
        let sent = std::mem::take(&mut process.up);
        process.stray = if still_arriving { sent } else { Queue::new() };
        process.down.clear();
        process.channel += 1;
        (process.start, process.clock_off) = (TTL, 0);
        self.store.turns.listens(at, process.channel, true);
        self.of(at).for_each(|who| self.attempts[who as usize].loses_the_connection());
        self.disturbed = true;
    }

    fn steps_of_the_network(&self, steps: &mut Vec<Step>) {
        for (at, it) in self.processes.iter().enumerate() {
            if let Some(first) = it.up.first() {
                steps.push(Step::StoreServes { process: at, what: Served(*first) });
            }
            if let Some(first) = it.stray.first() {
                steps.push(Step::StoreServesAStray { process: at, what: Served(*first) });
            }
            if let Some(first) = it.down.first() {
                steps.push(Step::Reads { process: at, what: Heard(*first) });
                if first.what == Reply::Pushed && self.scope.lost_pushes > 0 {
                    steps.push(Step::LosesAPush(at));
                }
            }
            let nothing_comes = |connection| {
                let last = connection == it.channel;
                if last { !it.alive && it.up.is_empty() } else { it.stray.is_empty() }
            };
            let ended =
                |connection: &u8| self.store.turns.is_listened(at, *connection) && nothing_comes(*connection);
            let ends = (0..=it.channel).filter(ended);
            steps.extend(ends.map(|connection| Step::StoreSeesTheEndOf { process: at, connection }));
            let at_work = self
                .of(at)
                .any(|who| !matches!(self.attempts[who as usize].phase, Phase::Idle | Phase::Gone));
            if it.alive && at_work && self.scope.breaks > 0 && it.stray.is_empty() {
                steps.push(Step::ConnectionBreaks { process: at, still_arriving: false });
                if !it.up.is_empty() {
                    steps.push(Step::ConnectionBreaks { process: at, still_arriving: true });
                }
            }
            if it.alive && at_work && self.scope.crashes > 0 {
                steps.push(Step::ProcessCrashes(at));
            }
        }
    }

    fn may_be_slow(&self) -> bool {
        let prompt = |at: usize| self.scope.slow.is_some_and(|slow| at != slow);
        let mut others = self.processes.iter().enumerate().filter(|(at, it)| prompt(*at) && it.alive);
        others.all(|(_, it)| it.up.is_empty() && it.down.is_empty())
    }

    fn steps_of_the_server(&self, steps: &mut Vec<Step>) {
        let begun = self.attempts.iter().any(|it| it.phase != Phase::Idle);
        let offers = [
            (self.scope.time && self.may_be_slow(), Step::TimePasses),
            (self.scope.flushes > 0 && begun, Step::EverythingIsDeleted),
            (self.scope.restarts > 0 && begun, Step::ServerStartsEmpty),
            (self.scope.strangers > 0 && self.store.key == Key::Free, Step::StrangerTakes),
            (matches!(self.store.key, Key::Stranger { .. }), Step::StrangerReleases),
            (self.scope.deletions > 0 && self.store.owner().is_some(), Step::SomebodyDeletesTheKey),
            (self.scope.line_ends > 0 && !self.store.turns.is_empty(), Step::LineIsForgotten),
            (self.scope.clock_steps > 0 && self.store.key == Key::Free, Step::ServersClockIsSetForward),
        ];
        steps.extend(offers.into_iter().filter(|(can, _)| *can).map(|(_, step)| step));
    }

    fn happen_at_the_server(&mut self, step: &Step) {
        match step {
            Step::EverythingIsDeleted => {
                self.scope.flushes -= 1;
                self.orphan_all();
            }
            Step::ServerStartsEmpty => {
                self.scope.restarts -= 1;
                self.orphan_all();
                self.store.turns.forget_listeners();
                for at in 0..self.processes.len() {
                    self.processes[at].stray.clear();
                    self.break_connection(at, false);
                }
            }
            Step::StrangerTakes => {
                self.scope.strangers -= 1;
                self.store.key = Key::Stranger { marked: false, left: TTL };
            }
            Step::StrangerReleases => {
                if self.store.key == (Key::Stranger { marked: true, left: self.store.left() }) {
                    self.store.fault = Some("a stranger cannot release");
                }
                self.store.key = Key::Free;
            }
            Step::SomebodyDeletesTheKey => {
                self.scope.deletions -= 1;
                self.store.forget_the_owner();
            }
            Step::LineIsForgotten => {
                self.scope.line_ends -= 1;
                self.store.turns.forget();
            }
            _ => {
                self.scope.clock_steps -= 1;
                self.processes.iter_mut().for_each(|it| it.clock_off += 1);
                return;
            }
        }
        self.disturbed = true;
    }

    fn orphan_all(&mut self) {
        self.store.forget_everything();
        let believers = (0..self.scope.attempts).filter(|who| self.attempts[*who as usize].believed > 0);
        for who in believers {
            self.store.orphan(who);
        }
    }

    /// Whether somebody that waits for a reason to ask again will have none, when no more than one process dies.
    fn breaks_patience(&self) -> bool {
        let turns = &self.store.turns;
        let sleeps = |who: &Who| self.attempts[*who as usize].sleeps();
        let is_first = turns.first().is_some_and(|who| sleeps(&who)) && self.store.key != Key::Free;
        let quiet = |who: Who| {
            let it = &self.attempts[who as usize];
            it.sleeps() || matches!(it.phase, Phase::Idle | Phase::Gone)
        };
        let nobody_stirs = |who: &Who| self.of(self.scope.process_of(*who)).all(quiet);
        let stands_nowhere = |who: &Who| sleeps(who) && !turns.stands(*who) && nobody_stirs(who);
        is_first || (0..self.scope.attempts).any(|who| stands_nowhere(&who))
    }

    fn is_left_behind(&self) -> bool {
        let provisional = self.store.owner().is_some_and(|owner| owner.provisional);
        let key = matches!(self.store.key, Key::Ours(_)) && !provisional;
        key || !self.store.turns.is_empty()
            || self.store.turns.is_unclaimed()
            || self.store.fence.has_endless()
    }
}

impl World for Line {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(16);
        self.steps_of_the_server(&mut steps);
        for (who, it) in (0..).zip(&self.attempts) {
            // Of those that are alike, number 0 asks first.
            let comes_next = who == 0
                || self.scope.siblings && who == 2
                || self.attempts[who as usize - 1].phase != Phase::Idle;
            if it.phase != Phase::Idle || comes_next {
                steps.extend(self.moves(who).into_iter().map(|it| Step::of(it, who)));
            }
            if it.is_in_want() && self.scope.cancels > 0 {
                steps.push(Step::GivesUp(who));
            }
        }
        self.steps_of_the_network(&mut steps);
        steps
    }

    fn take(&self, step: &Step) -> Self {
        let mut next = self.clone();
        match *step {
            Step::TimePasses => {
                next.lapsed |= next.store.pass_time();
                next.attempts.iter_mut().for_each(Attempt::pass_time);
                next.processes.iter_mut().for_each(Process::pass_time);
            }
            Step::AsksByThePair(who) => next.make(who, Move::Pair),
            Step::AsksInTheScript(who) => next.make(who, Move::Ask),
            Step::AsksAgain(who) => next.make(who, Move::AskAgain),
            Step::Pings(who) => next.make(who, Move::Ping),
            Step::Renews(who) => next.make(who, Move::Renew),
            Step::ReleasesNatively(who) => next.make(who, Move::ReleaseNatively),
            Step::Releases(who) => next.make(who, Move::Release),
            Step::GivesUp(who) => {
                next.scope.cancels -= 1;
                let what = next.attempts[who as usize].gives_up(self.flaw);
                next.send(who, what);
            }
            Step::ProcessCrashes(at) => {
                next.scope.crashes -= 1;
                next.processes[at].alive = false;
                next.processes[at].down.clear();
                next.store.turns.dies(at);
                next.of(at).for_each(|who| next.attempts[who as usize].dies());
                (next.disturbed, next.littered) = (true, true);
            }
            Step::ConnectionBreaks { process, still_arriving } => {
                next.scope.breaks -= 1;
                next.break_connection(process, still_arriving);
            }
            Step::StoreServes { process, .. } => next.serve(process, false),
            Step::StoreServesAStray { process, .. } => next.serve(process, true),
            Step::StoreSeesTheEndOf { process, connection } => {
                next.store.turns.listens(process, connection, false);
            }
            Step::Reads { process, .. } => next.read(process),
            Step::LosesAPush(at) => {
                next.scope.lost_pushes -= 1;
                next.processes[at].down.remove(0);
                next.disturbed = true;
            }
            _ => next.happen_at_the_server(step),
        }
        next
    }

    fn broken(&self) -> Option<String> {
        let fault = |text: &str| Some(text.to_owned());
        let believes =
            |who: &Who| self.attempts[*who as usize].believed > 0 && !self.store.orphans.contains(who);
        let all = 0..self.scope.attempts;
        if all.clone().filter(believes).count() > 1 {
            return fault("two believe that they hold");
        }
        if let Some(found) = self.store.fault.or(self.store.turns.fault) {
            return fault(found);
        }
        if self.store.turns.passed_over().is_some_and(|who| self.attempts[who as usize].phase != Phase::Dead)
        {
            return fault("a live waiter was passed over");
        }
        let over = |who: &Who| self.attempts[*who as usize].phase == Phase::Gone;
        let owns = |who: &Who| self.store.owner().is_some_and(|it| it.who == *who && !it.provisional);
        if all.clone().filter(over).any(|who| owns(&who) || self.store.turns.stands(who)) {
            return fault("who is gone is still there");
        }
        if !self.processes.iter().all(Process::is_silent) {
            return None;
        }
        let waits = self.attempts.iter().any(|it| it.phase == Phase::Waiting && !it.told);
        if waits && !self.disturbed && !self.lapsed && self.store.key == Key::Free {
            return fault("a wake-up is lost");
        }
        if self.scope.patient && self.breaks_patience() {
            return fault("who waits sleeps for ever");
        }
        let idle = |it: &Attempt| matches!(it.phase, Phase::Idle | Phase::Gone);
        if self.attempts.iter().all(idle) && !self.littered && self.is_left_behind() {
            return fault("something is left behind");
        }
        None
    }

    fn is_settled(&self) -> bool {
        !self.attempts.iter().any(Attempt::is_in_want)
    }

    fn is_fair(step: &Step) -> bool {
        use Step::{
            AsksAgain, Pings, Reads, Releases, ReleasesNatively, Renews, StoreServes, StoreServesAStray,
            TimePasses,
        };
        matches!(
            step,
            TimePasses
                | AsksAgain(_)
                | Pings(_)
                | Renews(_)
                | ReleasesNatively(_)
                | Releases(_)
                | StoreServes { .. }
                | StoreServesAStray { .. }
                | Reads { .. }
                | Step::StrangerReleases
        )
    }
}

impl Step {
    const fn of(it: Move, who: Who) -> Self {
        match it {
            Move::Pair => Self::AsksByThePair(who),
            Move::Ask => Self::AsksInTheScript(who),
            Move::AskAgain => Self::AsksAgain(who),
            Move::Ping => Self::Pings(who),
            Move::Renew => Self::Renews(who),
            Move::ReleaseNatively => Self::ReleasesNatively(who),
            Move::Release => Self::Releases(who),
        }
    }
}
