//! The members of a quorum, its clients, and the network between them.
//!
//! A client is core's `QuorumAttempt`, whose renewals a `Ballot` counts, and a member is `apply`
//! over its records. The code around them makes the calls that a machine requests.
//!
//! A call may be served at any moment within a tick, in any order, twice or never; its answer may
//! be late or lost. A client may stall or die, a member restart without its state, another program
//! take the key there. After `Store::give_up`, nothing is left of the id, and nothing can come.
//!
//! An operator may break a lease through the quorum: if a majority shows it, at each member with
//! the fence that this one shows. A member's message to the holder comes within a tick, or is lost;
//! other messages are forged. A member's record of breaks is read at once.

mod client;
mod flaw;
mod ghost;
mod invariants;
mod member;
mod operator;
mod scope;

use std::hash::{Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Answer, Attempt, Claim, Drift, Fault, Fence, Holder, Key, Push, PushEvent, QuorumSettings, Rejoin,
    Request, Ttl, WaitMode,
};

use crate::explore::World;
use crate::name::{self, Horizon, Now, first_id};
use crate::server::known;
use client::{Client, Does, Phase, Shared};
pub use flaw::Flaw;
use member::Member;
use operator::{Operator, lost};
use scope::Left;
pub use scope::Scope;

/// A tick is long compared with the machine's timers.
const TICK: Duration = Duration::from_millis(120);
const MAX_TTL: Duration = Duration::from_millis(240);

/// The part of a world that no step changes.
#[derive(Debug)]
struct Fixed {
    settings: Arc<QuorumSettings>,
    /// The key that other programs and operators use.
    key: Key,
    asks: u8,
    hangs: bool,
    wait_mode: WaitMode,
    flaw: Option<Flaw>,
}

impl Fixed {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

/// The world.
#[derive(Clone, Debug)]
pub struct Quorum {
    fixed: Rc<Fixed>,
    now: Now,
    left: Left,
    members: Vec<Rc<Member>>,
    clients: Vec<Shared>,
    operator: Option<Operator>,
    fault: Option<&'static str>,
}

impl Hash for Quorum {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.left, &self.members, &self.clients, &self.operator, self.fault).hash(state);
    }
}

/// The possible steps; clients, members and calls are given by number.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each reads as a sentence in a trace")]
pub enum Step {
    TimePasses,
    Asks(usize),
    TimerRings(usize),
    Renews(usize),
    Releases(usize),
    GivesUp(usize),
    Leaves(usize),
    Crashes(usize),
    IsServed { client: usize, call: usize },
    IsServedAndTheAnswerIsLate { client: usize, call: usize },
    IsServedAndComesAgain { client: usize, call: usize },
    IsServedAndTheAnswerIsLost { client: usize, call: usize },
    IsLost { client: usize, call: usize },
    FindsTheMemberDown { client: usize, call: usize },
    TakesLong { client: usize, call: usize },
    TheAnswerComes { client: usize, call: usize },
    IsUndone { client: usize, undo: usize },
    RestartsEmpty(usize),
    StrangerTakes(usize),
    SomebodyLooksAt(usize),
    BreaksAtAMember(usize),
    LosesABreak(usize),
    SomebodyBreaksAtOneMember { member: usize, client: usize },
    Reads { client: usize, message: usize },
    LosesAMessage { client: usize, message: usize },
    SomebodyForges { client: usize, member: usize },
}

impl Quorum {
    /// A world of this scope.
    pub fn new(flaw: Option<Flaw>, scope: &Scope) -> Self {
        let max_ttl = Ttl::new(MAX_TTL).expect("it is a ttl");
        let key = scope.claims[0].first_key().clone();
        let names = ["a", "b", "c", "d", "e"];
        let settings = Arc::new(QuorumSettings {
            name: "quorum".into(),
            members: names[..scope.members].iter().map(|name| (*name).into()).collect(),
            drift: Drift::NONE,
            max_ttl,
        });
        let wait_mode = if scope.waits { WaitMode::Wait { queue_limit: None } } else { WaitMode::Try };
        let fixed = Fixed { settings, key, asks: scope.asks, hangs: scope.hangs, wait_mode, flaw };
        let is_down = |nth: usize| nth + scope.down >= scope.members;
        let members =
            (0..scope.members).map(|nth| Rc::new(Member { down: is_down(nth), ..Member::default() }));
        let mut world = Self {
            fixed: Rc::new(fixed),
            now: Now::new(TICK),
            left: scope.left,
            members: members.collect(),
            clients: Vec::new(),
            operator: None,
            fault: None,
        };
        for claim in &scope.claims {
            let permit = Claim::permits([world.fixed.key.clone()], 1, 2).expect("there are as many");
            world.enters(if flaw == Some(Flaw::GrantsPermits) { permit } else { claim.clone() });
        }
        world
    }

    /// Another client comes, which has not asked yet. Returns its number.
    fn enters(&mut self, claim: Claim) -> usize {
        let nth = self.clients.len();
        let holder = Holder::from_bits(first_id(nth as u64).into());
        let attempt = Attempt::new(claim, holder, None, self.fixed.settings.max_ttl);
        self.clients.push(Rc::new(Client::new(&self.fixed, attempt, self.now)));
        nth
    }

    fn client(&mut self, nth: usize) -> &mut Client {
        Rc::make_mut(&mut self.clients[nth])
    }

    fn member(&mut self, nth: usize) -> &mut Member {
        Rc::make_mut(&mut self.members[nth])
    }

    fn steps_of_client(&self, nth: usize, steps: &mut Vec<Step>) {
        let (it, left) = (&self.clients[nth], self.left);
        // Which of those with the same claim begins first makes no difference.
        let goes_first =
            |other: &Shared| matches!(other.phase, Phase::Idle) && other.attempt.claim == it.attempt.claim;
        let is_next = !self.clients[..nth].iter().any(goes_first);
        if it.may_ask() && is_next {
            steps.push(Step::Asks(nth));
        }
        if it.timer().is_some_and(|at| at < self.now.instant() + TICK) {
            steps.push(Step::TimerRings(nth));
        }
        if let Phase::Holding { renewal, .. } = &it.phase {
            if !self.fixed.hangs {
                steps.push(Step::Releases(nth));
            }
            if left.renewals > 0 && renewal.is_none() && it.believes(self.now) {
                steps.push(Step::Renews(nth));
            }
        }
        if it.has_no_asks_left() {
            steps.push(Step::Leaves(nth));
        }
        if left.cancels > 0 && matches!(it.phase, Phase::Asking { .. } | Phase::Waiting { .. }) {
            steps.push(Step::GivesUp(nth));
        }
        if left.crashes > 0 && !it.is_over() {
            steps.push(Step::Crashes(nth));
        }
        for message in 0..it.messages.len() {
            steps.push(Step::Reads { client: nth, message });
            if left.lost > 0 {
                steps.push(Step::LosesAMessage { client: nth, message });
            }
        }
        if left.forgeries > 0 && matches!(it.phase, Phase::Holding { .. }) {
            let members = 0..self.members.len();
            steps.extend(members.map(|member| Step::SomebodyForges { client: nth, member }));
        }
        for (number, call) in it.calls.iter().enumerate() {
            self.steps_of_call(nth, number, call, steps);
        }
        let undos = it.undos.iter().enumerate().filter(|(_, (member, _))| !self.members[*member].down);
        steps.extend(undos.map(|(undo, _)| Step::IsUndone { client: nth, undo }));
    }

    fn steps_of_call(&self, client: usize, call: usize, it: &client::Call, steps: &mut Vec<Step>) {
        let left = self.left;
        if it.answer.is_some() {
            return steps.push(Step::TheAnswerComes { client, call });
        }
        if self.members[it.member].down {
            return steps.push(Step::FindsTheMemberDown { client, call });
        }
        let is_dead = matches!(self.clients[client].phase, Phase::Dead);
        steps.push(Step::IsServed { client, call });
        if left.twins > 0 && !it.again {
            steps.push(Step::IsServedAndComesAgain { client, call });
        }
        if left.late > 0 && !is_dead && !it.again {
            steps.push(Step::IsServedAndTheAnswerIsLate { client, call });
        }
        if left.lost > 0 && !is_dead {
            steps.push(Step::IsServedAndTheAnswerIsLost { client, call });
        }
        if left.lost > 0 {
            steps.push(Step::IsLost { client, call });
        }
        if left.late > 0 && !is_dead && !it.late {
            steps.push(Step::TakesLong { client, call });
        }
    }

    /// Serves a call, and returns it with the answer.
    fn serve(&mut self, client: usize, number: usize, stays: bool) {
        let now = self.now;
        let fixed = Rc::clone(&self.fixed);
        let mut call = self.clients[client].calls[number].clone();
        if let Does::Renew(renewal) = &mut call.does
            && renewal.rejoin == Rejoin::UnlessBroken
        {
            let last = self.members[call.member].last_break(&self.clients[client].attempt.claim, now);
            let last = last.filter(|_| !fixed.has(Flaw::IgnoresTheRecord));
            let machine = &mut self.client(client).machine;
            let is_unbroken = machine.handle_last_break(call.member, renewal, last);
            renewal.rejoin = if is_unbroken { Rejoin::Yes } else { Rejoin::No };
        }
        let request = self.clients[client].request(&fixed, &call);
        let answer = self.serve_at(call.member, request);
        let it = &mut self.client(client).calls[number];
        if stays {
            it.again = true;
        } else {
            it.answer = Some(answer);
        }
    }

    fn serve_at(&mut self, member: usize, request: Request) -> Result<Answer, Fault> {
        let (now, flaw) = (self.now, self.fixed.flaw);
        let (answer, pushes) = self.member(member).serve(request, now, flaw);
        pushes.into_iter().for_each(|push| self.deliver(member, &push));
        answer
    }

    fn deliver(&mut self, member: usize, push: &Push) {
        let is_of = |client: &Shared| client.attempt.holder.is_same_attempt(push.holder);
        let Some(nth) = self.clients.iter().position(is_of) else { return };
        let client = self.client(nth);
        let granted = match push.event {
            PushEvent::First { .. } => return,
            _ if client.is_over() || client.machine.holder(member) != push.holder => return,
            PushEvent::Broken => return client.is_told(member),
            PushEvent::Granted { .. } => true,
            PushEvent::AskAgain => false,
        };
        client.wakes.retain(|wake| (wake.0, wake.1) != (member, push.holder));
        client.wakes.push((member, push.holder, granted));
        client.wakes.sort_unstable();
    }

    /// Ends a call with its answer, or with a fault if there is none.
    fn end(&mut self, client: usize, number: usize) {
        let (fixed, now) = (Rc::clone(&self.fixed), self.now);
        let call = self.client(client).calls.remove(number);
        if matches!(self.clients[client].phase, Phase::Dead) {
            return;
        }
        // A repeated message is answered on a connection that is gone.
        let answer = call.answer.clone().filter(|_| !call.again).unwrap_or_else(|| Err(lost()));
        let was_granted = matches!(self.clients[client].phase, Phase::Holding { .. });
        self.client(client).hears(&fixed, now, &call, answer);
        self.notices_a_grant(client, was_granted);
    }

    fn pass_time(&mut self) {
        let fixed = Rc::clone(&self.fixed);
        for nth in 0..self.clients.len() {
            while !self.clients[nth].undos.is_empty() {
                self.undo(nth, 0);
            }
        }
        let before = self.now.instant();
        self.now.pass();
        let now = self.now;
        for nth in 0..self.members.len() {
            self.member(nth).forget_ended(now);
        }
        for nth in 0..self.clients.len() {
            self.client(nth).time_passes(now);
            // A message that was sent a tick before is served by now, or never.
            let is_due = |call: &client::Call| call.sent < before;
            while let Some(number) = self.clients[nth].calls.iter().position(is_due) {
                let call = self.client(nth).calls.remove(number);
                if !matches!(self.clients[nth].phase, Phase::Dead) {
                    let was_granted = matches!(self.clients[nth].phase, Phase::Holding { .. });
                    self.client(nth).drops(&fixed, now, &call);
                    self.notices_a_grant(nth, was_granted);
                }
            }
            let is_lost =
                matches!(self.clients[nth].phase, Phase::Holding { end, .. } if end <= now.instant());
            if is_lost {
                self.client(nth).gives_up(&fixed);
            }
        }
    }

    /// Returns true if something of an id is in flight: a call, or that it is given up.
    fn is_in_flight(&self, member: usize, id: Holder) -> bool {
        self.clients.iter().any(|client| {
            client.undos.contains(&(member, id))
                || client.calls.iter().any(|call| (call.member, call.holder) == (member, id))
        })
    }

    /// Returns true if a client that lives has an id that it still uses, or holds.
    fn is_wanted(&self, member: usize, id: Holder) -> bool {
        self.clients.iter().any(|client| {
            matches!(client.phase, Phase::Dead) && client.attempt.holder.is_same_attempt(id)
                || !client.is_over() && client.machine.holder(member) == id
        })
    }
}

impl World for Quorum {
    type Step = Step;

    fn name(&self) -> u128 {
        let horizon = Horizon { instants: 2, stamps: 0, margin: Fence::MARGIN, apart: 2 };
        name::of(self, self.now, horizon)
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::with_capacity(16);
        // A call that is not known to take long is served within its tick.
        let is_prompt = |client: &Shared| client.calls.iter().all(|call| call.late || call.answer.is_some());
        let is_going_on = |client: &Shared| !client.is_over() || !client.calls.is_empty();
        let is_broken = self.operator.is_some() || self.clients.iter().any(|it| !it.messages.is_empty());
        if self.clients.iter().any(is_going_on) && self.clients.iter().all(is_prompt) && !is_broken {
            steps.push(Step::TimePasses);
        }
        for nth in 0..self.clients.len() {
            self.steps_of_client(nth, &mut steps);
        }
        self.steps_of_the_operator(&mut steps);
        let begun = self.clients.iter().any(|client| !matches!(client.phase, Phase::Idle));
        for nth in (0..self.members.len()).filter(|nth| begun && !self.members[*nth].down) {
            if self.left.restarts > 0 {
                steps.push(Step::RestartsEmpty(nth));
            }
            if self.left.strangers > 0 && self.members[nth].is_free(&self.fixed.key, self.now) {
                steps.push(Step::StrangerTakes(nth));
            }
        }
        steps
    }

    fn take(&self, step: &Step) -> Self {
        let mut next = self.clone();
        let (fixed, now) = (Rc::clone(&self.fixed), self.now);
        match *step {
            Step::TimePasses => next.pass_time(),
            Step::Asks(nth) => {
                next.notices_a_request(nth);
                next.client(nth).asks_again(&fixed, now);
            }
            Step::TimerRings(nth) => {
                let at = self.clients[nth].timer().unwrap_or(now.instant());
                if !matches!(self.clients[nth].phase, Phase::Asking { .. }) {
                    next.notices_a_request(nth);
                }
                next.client(nth).rings(&fixed, now, at);
                next.notices_a_grant(nth, false);
            }
            Step::Renews(nth) => {
                next.left.renewals -= 1;
                next.client(nth).renews(now);
            }
            Step::Releases(nth) => {
                next.client(nth).phase = Phase::Gone;
                next.client(nth).releases(now);
            }
            Step::GivesUp(nth) => {
                next.left.cancels -= 1;
                next.client(nth).gives_up(&fixed);
            }
            Step::Leaves(nth) => next.client(nth).gives_up(&fixed),
            Step::Crashes(nth) => {
                next.left.crashes -= 1;
                let client = next.client(nth);
                client.phase = Phase::Dead;
                client.undos.clear();
                client.wakes.clear();
                client.messages.clear();
                client.calls.retain(|call| call.answer.is_none());
            }
            Step::IsServed { client, call } => {
                next.serve(client, call, false);
                next.end(client, call);
            }
            Step::IsServedAndTheAnswerIsLate { client, call } => {
                next.left.late -= 1;
                next.serve(client, call, false);
            }
            Step::IsServedAndComesAgain { client, call } => {
                next.left.twins -= 1;
                next.serve(client, call, true);
            }
            Step::IsServedAndTheAnswerIsLost { client, call } => {
                next.left.lost -= 1;
                next.serve(client, call, false);
                next.client(client).calls[call].answer = None;
                next.end(client, call);
            }
            Step::IsLost { client, call } => {
                next.left.lost -= 1;
                next.end(client, call);
            }
            Step::FindsTheMemberDown { client, call } => next.end(client, call),
            Step::TakesLong { client, call } => {
                next.left.late -= 1;
                next.client(client).is_late(&fixed, now, call);
                next.notices_a_grant(client, matches!(self.clients[client].phase, Phase::Holding { .. }));
            }
            Step::TheAnswerComes { client, call } => next.end(client, call),
            Step::IsUndone { client, undo } => next.undo(client, undo),
            Step::RestartsEmpty(nth) => {
                next.left.restarts -= 1;
                next.member(nth).restart(now, fixed.flaw);
            }
            Step::StrangerTakes(nth) => {
                next.left.strangers -= 1;
                next.member(nth).is_taken(&fixed.key, now);
            }
            Step::SomebodyLooksAt(client) => {
                next.left.breaks -= 1;
                next.begins_to_break(client);
            }
            Step::BreaksAtAMember(call) => next.goes_on_breaking(call, false),
            Step::LosesABreak(call) => {
                next.left.lost -= 1;
                next.goes_on_breaking(call, true);
            }
            Step::SomebodyBreaksAtOneMember { member, client } => {
                next.left.single_breaks -= 1;
                next.breaks_at_one_member(member, client);
            }
            Step::Reads { client, message } => next.client(client).reads(&fixed, now, message),
            Step::LosesAMessage { client, message } => {
                next.left.lost -= 1;
                next.client(client).messages.remove(message);
            }
            Step::SomebodyForges { client, member } => {
                next.left.forgeries -= 1;
                next.client(client).is_told(member);
            }
        }
        next.does_what_changes_nothing();
        next
    }

    fn broken(&self) -> Option<String> {
        self.what_is_wrong().map(str::to_owned)
    }

    /// True if every client has held and released, or is dead.
    fn is_settled(&self) -> bool {
        self.clients.iter().all(|client| matches!(client.phase, Phase::Gone | Phase::Dead))
    }

    fn is_fair(step: &Step) -> bool {
        matches!(
            step,
            Step::TimePasses
                | Step::Asks(_)
                | Step::TimerRings(_)
                | Step::Leaves(_)
                | Step::Releases(_)
                | Step::IsServed { .. }
                | Step::FindsTheMemberDown { .. }
                | Step::TheAnswerComes { .. }
                | Step::IsUndone { .. }
                | Step::BreaksAtAMember(_)
                | Step::Reads { .. }
        )
    }
}

impl Quorum {
    /// Gives up and releases at once what no member has and no call can bring.
    fn does_what_changes_nothing(&mut self) {
        if self.fixed.has(Flaw::OneIdForAllRounds) {
            return;
        }
        for client in 0..self.clients.len() {
            let it = &self.clients[client];
            let has = |member: usize, id: Holder| {
                known(&self.members[member].records, self.now).any(|known| known == id)
            };
            let comes = |member: usize, id: Holder| {
                let is_of_it = |call: &&client::Call| (call.member, call.holder) == (member, id);
                it.calls.iter().filter(is_of_it).any(|call| !call.is_release())
            };
            let is_in_vain = |member: usize, id: Holder| !has(member, id) && !comes(member, id);
            if let Some(undo) = it.undos.iter().position(|(member, id)| is_in_vain(*member, *id)) {
                self.undo(client, undo);
                return self.does_what_changes_nothing();
            }
            let in_vain = |call: &client::Call| {
                call.is_release() && call.answer.is_none() && is_in_vain(call.member, call.holder)
            };
            if let Some(call) = it.calls.iter().position(in_vain) {
                self.serve(client, call, false);
                self.end(client, call);
                return self.does_what_changes_nothing();
            }
        }
    }

    /// An id is given up at a member: nothing of it is left there or in flight.
    fn undo(&mut self, client: usize, undo: usize) {
        let (fixed, now) = (Rc::clone(&self.fixed), self.now);
        let (member, holder) = self.client(client).undos.remove(undo);
        let request = self.clients[client].release_of(&fixed, holder);
        // It is given up, whatever the member answers.
        let _ = self.serve_at(member, request);
        self.client(client).machine.handle_undone();
        let of_it =
            |call: &client::Call| (call.member, call.holder) == (member, holder) && call.answer.is_none();
        while let Some(number) = self.clients[client].calls.iter().position(of_it) {
            let call = self.client(client).calls.remove(number);
            self.client(client).drops(&fixed, now, &call);
        }
    }
}
