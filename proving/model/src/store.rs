//! One store, the processes that have locks in it, and the network between them. The code under
//! test is core's: `apply`, and `Acquire` and `LeaseRenewal` with the `WaiterRegistry` and
//! `InDoubtGrants` of the process. The code around it carries messages, as the library's driver and
//! its stores do.

mod client;
mod ghost;
mod process;
mod scope;
mod serving;

use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::time::Duration;

use leasehold_core::{Content, Fence, Holder, Key, Lock};

use crate::Flaw;
use crate::explore::World;
use crate::name::{self, Horizon, Now};
use crate::server::Server;
use client::{Client, Phase};
use ghost::Ghost;
use process::Process;

use scope::{Fixed, Left};
pub use scope::{Party, Scope};

/// The world.
#[derive(Clone, Debug)]
pub struct Store {
    fixed: Rc<Fixed>,
    now: Now,
    left: Left,
    server: Rc<Server>,
    processes: Vec<Rc<Process>>,
    clients: Vec<Rc<Client>>,
    ghost: Rc<Ghost>,
}

impl Hash for Store {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.left, &self.server, &self.clients, &self.ghost).hash(state);
        for (number, process) in self.processes.iter().enumerate() {
            // A client that has not asked yet cannot have received a push.
            let asks = self.of(number).any(|who| matches!(self.clients[who].phase, Phase::Asking(_)));
            (process, asks.then_some(process.since)).hash(state);
        }
    }
}

/// The possible steps; clients and processes are given by number.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each reads as a sentence in a trace")]
pub enum Step {
    TimePasses,
    Asks(usize),
    Wakes(usize),
    Renews(usize),
    RenewsForLonger(usize),
    Releases(usize),
    ReleasesAgain(usize),
    GivesUp(usize),
    HearsThatItWasBroken(usize),
    Pings(usize),
    ProcessCrashes(usize),
    ConnectionBreaks { process: usize, still_arriving: usize },
    StoreServes(usize),
    StoreServesOnceAndAgain(usize),
    StoreServesAStray(usize),
    StoreSeesTheEndOf { process: usize, connection: u64 },
    Reads(usize),
    LosesAPush(usize),
    SomebodyForges { process: usize, forgery: u8 },
    EverythingIsDeleted,
    ServerStartsEmpty,
    StrangerTakes,
    StrangerReleases,
    SomebodyDeletesTheKey,
    QueueIsForgotten,
    FenceIsForgotten,
    ServersClockIsSetForward,
    SomebodyLooks,
    SomebodyBreaksWhatItSaw,
}

impl Store {
    /// A world of this scope.
    pub fn new(flaw: Option<Flaw>, scope: &Scope) -> Self {
        let fixed = Fixed::new(flaw, scope);
        let now = Now::new(fixed.tick);
        let mut server = Server::default();
        let processes = (0..fixed.processes()).map(|number| {
            let process = Process::new(number, now, flaw == Some(Flaw::ReusesTheChannel));
            server.listeners.0.push(process.listener());
            Rc::new(process)
        });
        let processes = processes.collect();
        let clients = (0..fixed.parties.len()).map(|who| Rc::new(Client::new(&fixed, who))).collect();
        let (left, server) = (fixed.left, Rc::new(server));
        Self { fixed: Rc::new(fixed), now, left, server, processes, clients, ghost: Rc::default() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.fixed.flaw == Some(flaw)
    }

    fn client(&mut self, who: usize) -> &mut Client {
        Rc::make_mut(&mut self.clients[who])
    }

    fn process(&mut self, number: usize) -> &mut Process {
        Rc::make_mut(&mut self.processes[number])
    }

    fn server(&mut self) -> &mut Server {
        Rc::make_mut(&mut self.server)
    }

    fn ghost(&mut self) -> &mut Ghost {
        Rc::make_mut(&mut self.ghost)
    }

    fn of(&self, process: usize) -> impl Iterator<Item = usize> + use<> {
        let fixed = Rc::clone(&self.fixed);
        (0..fixed.parties.len()).filter(move |who| fixed.parties[*who].process == process)
    }

    fn who(&self, holder: Holder) -> Option<usize> {
        self.clients.iter().position(|client| client.attempt.holder == holder)
    }

    /// The key that other programs and operators use.
    fn key(&self) -> &Key {
        self.fixed.parties[0].claim.first_key()
    }

    /// The least fence of a grant that is served now.
    fn floor(&self) -> Fence {
        if self.has(Flaw::ClockBehind) && self.ghost.state_was_lost {
            return Fence::new(1).expect("it is small");
        }
        self.now.floor().max(self.ghost.clock.unwrap_or(self.now.floor()))
    }

    fn pass_time(&mut self) {
        let (held, lines) = (self.server.records.locks.len(), self.server.records.queues.len());
        self.now.pass();
        let now = self.now;
        self.server().forget_ended(now);
        let ended = self.server.records.locks.len() < held;
        if self.server.records.queues.len() < lines {
            self.ghost().queue_is_lost();
        }
        let unclaimed = self.ghost.unclaimed.as_ref().is_some_and(|it| !self.holds(it.holder));
        if ended {
            self.ghost().lease_ended(unclaimed);
        }
    }

    fn holds(&self, holder: Holder) -> bool {
        let mut keys = self.server.records.locks.keys();
        keys.any(|key| self.server.records.holder_ids(key, self.now.stamp()).contains(&holder))
    }

    /// All holders lose their locks without being notified.
    fn orphan_all(&mut self) {
        for who in 0..self.clients.len() {
            if self.holds(self.clients[who].attempt.holder) {
                self.client(who).orphan = true;
            }
        }
        self.ghost().disturbed = true;
    }

    fn steps_of_the_server(&self, steps: &mut Vec<Step>) {
        let begun = self.clients.iter().any(|it| !matches!(it.phase, Phase::Idle));
        let lock = self.server.records.locks.get(self.key());
        let is_foreign = |lock: &Lock| matches!(lock.content, Content::Foreign(_));
        let (left, ours) = (self.left, lock.is_some_and(|lock| !is_foreign(lock)));
        let line = self.server.records.queues.get(self.key());
        let offers = [
            (self.fixed.time && self.may_be_slow(), Step::TimePasses),
            (left.flushes > 0 && begun, Step::EverythingIsDeleted),
            (left.restarts > 0 && begun, Step::ServerStartsEmpty),
            (left.strangers > 0 && lock.is_none(), Step::StrangerTakes),
            (lock.is_some_and(is_foreign), Step::StrangerReleases),
            (left.deletions > 0 && ours, Step::SomebodyDeletesTheKey),
            (left.queue_ends > 0 && line.is_some(), Step::QueueIsForgotten),
            (left.forgotten_fences > 0 && begun && lock.is_none(), Step::FenceIsForgotten),
            (left.clock_steps > 0 && lock.is_none(), Step::ServersClockIsSetForward),
            (left.breaks_of_leases > 0 && ours, Step::SomebodyLooks),
            (self.ghost.seen.is_some(), Step::SomebodyBreaksWhatItSaw),
        ];
        steps.extend(offers.into_iter().filter(|(can, _)| *can).map(|(_, step)| step));
    }

    /// Returns true if time may pass: nothing has been in flight for the longest permitted time.
    fn may_be_slow(&self) -> bool {
        let oldest = self.now.instant() - self.fixed.tick * self.fixed.delay;
        let is_late = |it: &Rc<Process>| it.has_been_under_way_since(oldest);
        if self.processes.iter().any(is_late) {
            return false;
        }
        let prompt = |at: usize| self.fixed.only_one_slow.is_some_and(|slow| at != slow);
        let mut others = self.processes.iter().enumerate().filter(|(at, it)| prompt(*at) && it.alive);
        others.all(|(_, it)| it.up.is_empty() && it.down.is_empty())
    }

    fn happen_at_the_server(&mut self, step: Step) {
        let key = self.key().clone();
        match step {
            Step::EverythingIsDeleted => {
                self.left.flushes -= 1;
                self.orphan_all();
                self.server().forget_everything();
                self.ghost().state_is_lost();
            }
            Step::ServerStartsEmpty => {
                self.left.restarts -= 1;
                self.orphan_all();
                self.server().forget_everything();
                self.server().listeners.0.clear();
                self.ghost().state_is_lost();
                for number in 0..self.processes.len() {
                    self.process(number).stray.clear();
                    if self.processes[number].alive {
                        self.break_connection(number, 0);
                    } else {
                        self.process(number).up.clear();
                    }
                }
            }
            Step::StrangerTakes => {
                self.left.strangers -= 1;
                let ends = self.now.stamp() + self.fixed.ttl.duration();
                self.server()
                    .records
                    .locks
                    .insert(key, Lock::new(Content::Foreign(STRANGER.into()), Some(ends)));
            }
            Step::StrangerReleases => {
                let its_own = Content::Foreign(STRANGER.into());
                if self.server.records.locks.get(&key).is_some_and(|lock| lock.content != its_own) {
                    self.ghost().wrong("another program cannot release its lock");
                }
                self.server().records.locks.remove(&key);
                self.ghost().disturbed = true;
            }
            Step::SomebodyDeletesTheKey => {
                self.left.deletions -= 1;
                self.orphan_all();
                self.server().records.locks.remove(&key);
                self.ghost().lease_ended(true);
            }
            Step::QueueIsForgotten => {
                self.left.queue_ends -= 1;
                self.server().records.queues.remove(&key);
                self.ghost().queue_is_lost();
            }
            Step::FenceIsForgotten => {
                self.left.forgotten_fences -= 1;
                self.server().records.fences.remove(&key);
                self.ghost().fence_is_lost();
            }
            Step::ServersClockIsSetForward => {
                self.left.clock_steps -= 1;
                self.ghost().clock_off += 1;
            }
            Step::SomebodyLooks => {
                self.left.breaks_of_leases -= 1;
                let (fence, stamp) = (self.server.records.fence(&key, self.now.stamp()), self.now.stamp());
                let holder = self.server.records.holder_ids(&key, stamp).first().copied();
                self.ghost().seen = holder.zip(fence);
            }
            _ => self.break_what_was_seen(&key),
        }
    }
}

/// The value of another program's lock.
const STRANGER: &[u8] = b"a stranger's";

impl World for Store {
    type Step = Step;

    fn name(&self) -> u128 {
        let horizon = Horizon {
            instants: self.fixed.delay,
            stamps: self.fixed.remembers,
            margin: Duration::ZERO,
            apart: 1,
        };
        name::of(self, self.now, horizon)
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(16);
        self.steps_of_the_server(&mut steps);
        for who in 0..self.clients.len() {
            self.steps_of_client(who, &mut steps);
        }
        for number in 0..self.processes.len() {
            self.steps_of_the_network(number, &mut steps);
        }
        steps
    }

    fn take(&self, step: &Step) -> Self {
        let mut next = self.clone();
        match *step {
            Step::TimePasses => next.pass_time(),
            Step::Asks(who) => next.asks(who),
            Step::Wakes(who) => next.wakes(who),
            Step::Renews(who) => next.renews(who, next.fixed.ttl),
            Step::RenewsForLonger(who) => {
                next.left.longer_renewals -= 1;
                next.renews(who, next.fixed.longer);
            }
            Step::Releases(who) => {
                next.leaves(who);
                next.releases(who);
            }
            Step::ReleasesAgain(who) => next.releases(who),
            Step::GivesUp(who) => {
                next.left.cancels -= 1;
                next.leaves(who);
                next.releases(who);
            }
            Step::HearsThatItWasBroken(nth) => next.hears_of_a_break(nth),
            Step::Pings(who) => next.pings(who),
            Step::ProcessCrashes(number) => {
                next.left.crashes -= 1;
                next.crash(number);
            }
            Step::ConnectionBreaks { process, still_arriving } => {
                next.left.breaks -= 1;
                next.break_connection(process, still_arriving);
            }
            Step::StoreServes(number) => next.serve(number, false, false),
            Step::StoreServesOnceAndAgain(number) => {
                next.left.twins -= 1;
                next.serve(number, false, true);
            }
            Step::StoreServesAStray(number) => next.serve(number, true, false),
            Step::StoreSeesTheEndOf { process, connection } => {
                let is_it =
                    |it: &crate::server::Listener| (it.process, it.connection) == (process, connection);
                next.server().listeners.0.retain(|it| !is_it(it));
            }
            Step::Reads(number) => next.read(number),
            Step::LosesAPush(number) => {
                next.left.lost_pushes -= 1;
                next.process(number).down.pop_front();
                next.ghost().disturbed = true;
            }
            Step::SomebodyForges { process, forgery } => {
                next.left.forgeries -= 1;
                next.forge(process, forgery);
            }
            step => next.happen_at_the_server(step),
        }
        next
    }

    fn tell(&self, step: &Step) -> String {
        let told = match *step {
            Step::StoreServes(number) | Step::StoreServesOnceAndAgain(number) => {
                self.processes[number].up.front().map(process::RequestMessage::told)
            }
            Step::StoreServesAStray(number) => {
                self.processes[number].stray.front().map(process::RequestMessage::told)
            }
            Step::Reads(number) | Step::LosesAPush(number) => {
                self.processes[number].down.front().map(|word| format!("{word:?}"))
            }
            _ => None,
        };
        format!("{step:?} {}", told.unwrap_or_default())
    }

    fn broken(&self) -> Option<String> {
        self.what_is_wrong().map(str::to_owned)
    }

    /// True if no client asks or holds any more, and nothing is in flight or left.
    fn is_settled(&self) -> bool {
        let over = |it: &Rc<Client>| matches!(it.phase, Phase::Idle | Phase::Gone | Phase::Dead);
        self.clients.iter().all(over)
    }

    fn is_fair(step: &Step) -> bool {
        matches!(
            step,
            Step::TimePasses
                | Step::Asks(_)
                | Step::Wakes(_)
                | Step::Renews(_)
                | Step::Releases(_)
                | Step::ReleasesAgain(_)
                | Step::HearsThatItWasBroken(_)
                | Step::Pings(_)
                | Step::Reads(_)
                | Step::StoreServes(_)
                | Step::StoreServesAStray(_)
                | Step::StrangerReleases
        )
    }
}
