//! The line of one key: who waits is handed the lock by whoever leaves it.
//!
//! Processes have one connection each, in order both ways, and one channel drawn for it; attempts of one process share them. Time
//! passes in ticks at any moment. A claim window is one tick and a ttl two, which is enough to confuse them.

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
const MOST: usize = 4;

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
    AsksByThePair(usize),
    AsksInTheScript(usize),
    AsksAgain(usize),
    Pings(usize),
    Renews(usize),
    ReleasesNatively(usize),
    Releases(usize),
    GivesUp(usize),
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

    fn of(&self, process: usize) -> impl Iterator<Item = usize> + use<> {
        let scope = self.scope;
        (0..scope.attempts as usize).filter(move |who| scope.process_of(*who) == process)
    }

    fn moves(&self, who: usize) -> Few<Move> {
        let at = self.scope.process_of(who);
        let asks_for_all = self.of(at).find(|it| self.attempts[*it].phase == Phase::Waiting) == Some(who);
        let start = self.processes[at].start;
        self.attempts[who].moves(self.scope, self.flaw, start, asks_for_all)
    }

    fn make(&mut self, who: usize, it: Move) {
        let what = self.attempts[who].makes(it, self.flaw);
        self.send(who, what);
    }

    fn send(&mut self, who: usize, what: Request) {
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
        let attempt = &mut self.attempts[who];
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
                        let sibling = &mut self.attempts[it];
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
        self.of(at).for_each(|who| self.attempts[who].loses_the_connection());
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
            let ended = |connection: &u8| self.store.turns.is_listened(at, *connection) && nothing_comes(*connection);
            let ends = (0..=it.channel).filter(ended);
            steps.extend(ends.map(|connection| Step::StoreSeesTheEndOf { process: at, connection }));
            let at_work = self.of(at).any(|who| !matches!(self.attempts[who].phase, Phase::Idle | Phase::Gone));
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

    fn steps_of_the_server(&self, steps: &mut Vec<Step>) {
        let begun = self.attempts.iter().any(|it| it.phase != Phase::Idle);
        let offers = [
            (self.scope.time, Step::TimePasses),
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
        let believers = (0..self.attempts.len()).filter(|who| self.attempts[*who].believed > 0);
        for who in believers {
            self.store.orphan(who);
        }
    }

    fn is_left_behind(&self) -> bool {
        let provisional = self.store.owner().is_some_and(|owner| owner.provisional);
        let key = matches!(self.store.key, Key::Ours(_)) && !provisional;
        key || !self.store.turns.is_empty() || self.store.turns.is_unclaimed() || self.store.fence.has_endless()
    }
}

impl World for Line {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(16);
        self.steps_of_the_server(&mut steps);
        for (who, it) in self.attempts.iter().enumerate() {
            // Of those that are alike, number 0 asks first.
            let comes_next = who == 0 || self.scope.siblings && who == 2 || self.attempts[who - 1].phase != Phase::Idle;
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
                let what = next.attempts[who].gives_up(self.flaw);
                next.send(who, what);
            }
            Step::ProcessCrashes(at) => {
                next.scope.crashes -= 1;
                next.processes[at].alive = false;
                next.processes[at].down.clear();
                next.store.turns.dies(at);
                next.of(at).for_each(|who| next.attempts[who].dies());
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
        let believes = |who: &usize| self.attempts[*who].believed > 0 && !self.store.orphans.contains(who);
        let all = 0..self.attempts.len();
        if all.clone().filter(believes).count() > 1 {
            return fault("two believe that they hold");
        }
        if let Some(found) = self.store.fault.or(self.store.turns.fault) {
            return fault(found);
        }
        if self.store.turns.passed_over().is_some_and(|who| self.attempts[who].phase != Phase::Dead) {
            return fault("a live waiter was passed over");
        }
        let over = |who: &usize| self.attempts[*who].phase == Phase::Gone;
        let owns = |who: &usize| self.store.owner().is_some_and(|it| it.who == *who && !it.provisional);
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
        let idle = |it: &Attempt| matches!(it.phase, Phase::Idle | Phase::Gone);
        if self.attempts.iter().all(idle) && !self.littered && self.is_left_behind() {
            return fault("something is left behind");
        }
        None
    }

    fn is_settled(&self) -> bool {
        !self.attempts.iter().any(|it| it.is_in_want() || it.phase == Phase::Lingering)
    }

    fn is_fair(step: &Step) -> bool {
        use Step::{
            AsksAgain, Pings, Reads, Releases, ReleasesNatively, Renews, StoreServes, StoreServesAStray, TimePasses,
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
    const fn of(it: Move, who: usize) -> Self {
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
