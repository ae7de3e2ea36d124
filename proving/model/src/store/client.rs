//! The actions of a client: it sends what its machines request, and passes the answers to them.

use std::hash::{Hash, Hasher};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_core::{
    Acquire, Answer, Attempt, BoxFuture, Channel, Drift, Fault, Granted, HoldAnswer, Holder, Instant,
    LeaseRenewal, Nonce, Patience, Proof, Push, PushEvent, Renewal, RenewalStep, Request, Runtime,
    Step as Does, Ttl, Wait, WaiterRegistry, Wake,
};

use super::process::{Call, Kind, RequestMessage, StoreMessage};
use super::scope::Fixed;
use super::{Step, Store};
use crate::Flaw;

#[derive(Clone, Debug, Hash)]
pub(super) enum Phase {
    Idle,
    Asking(Acquire),
    Holding(LeaseRenewal),
    /// Gives up or releases: both end in the same way.
    Leaving {
        again_at: Instant,
        by_script: bool,
    },
    Gone,
    Dead,
}

#[derive(Clone, Debug)]
pub(super) struct Client {
    pub(super) attempt: Attempt,
    pub(super) phase: Phase,
    /// True while an answer is expected.
    pub(super) awaits: bool,
    /// It was deprived of its lock without notice, and may still consider itself the holder.
    pub(super) orphan: bool,
    /// The connection on which its last request arrived.
    pub(super) asked_on: u64,
    times: u8,
    asks: u64,
}

impl Hash for Client {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.attempt.holder, &self.phase, self.awaits, self.orphan, self.asked_on, self.times).hash(state);
    }
}

impl Client {
    pub(super) fn new(fixed: &Fixed, who: usize) -> Self {
        let party = &fixed.parties[who];
        let holder = Holder::from_bits(who as u128 * 16 + 1);
        Self {
            attempt: Attempt::new(party.claim.clone(), holder, None, fixed.ttl),
            phase: Phase::Idle,
            awaits: false,
            orphan: false,
            asked_on: 0,
            times: party.times,
            asks: 0,
        }
    }

    pub(super) fn believes(&self, now: Instant) -> bool {
        matches!(&self.phase, Phase::Holding(machine) if machine.loss().is_none() && machine.lease().is_held(now))
    }
}

/// A clock that does not advance.
#[derive(Debug)]
struct Standing(Instant);

impl Runtime for Standing {
    fn now(&self) -> Instant {
        self.0
    }

    fn since_epoch(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()> {
        if at <= self.0 { Box::pin(std::future::ready(())) } else { Box::pin(std::future::pending()) }
    }

    fn spawn(&self, _task: BoxFuture<'static, ()>) {}

    fn random(&self) -> u128 {
        0
    }
}

/// The wake-up of a waiter at this moment, if there is one.
fn called(waiting: &WaiterRegistry, holder: Holder, now: Instant) -> Option<Wake> {
    let clock = Standing(now);
    let mut called = waiting.called(holder, &clock);
    match called.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(wake) => Some(wake),
        Poll::Pending => None,
    }
}

impl Store {
    fn place_of(&self, who: usize) -> usize {
        self.fixed.parties[who].process
    }

    pub(super) fn steps_of_client(&self, who: usize, steps: &mut Vec<Step>) {
        let it = &self.clients[who];
        let now = self.now.instant();
        match &it.phase {
            Phase::Idle => {
                // Of identical clients, the first one begins first.
                let parties = &self.fixed.parties;
                let is_alike = who > 0
                    && parties[who].claim == parties[who - 1].claim
                    && parties[who].times == parties[who - 1].times
                    && self.of(parties[who].process).count() == self.of(parties[who - 1].process).count();
                if !is_alike || !matches!(self.clients[who - 1].phase, Phase::Idle) {
                    steps.push(Step::Asks(who));
                }
            }
            Phase::Asking(machine) => {
                if !it.awaits {
                    if let Some(step) = self.stirs(who, machine) {
                        steps.push(step);
                    }
                    let process = &self.processes[self.place_of(who)];
                    if self.fixed.pings && process.since < now && process.is_silent() {
                        steps.push(Step::Pings(who));
                    }
                }
                if self.left.cancels > 0 {
                    steps.push(Step::GivesUp(who));
                }
            }
            Phase::Holding(machine) => {
                if !it.awaits {
                    if matches!(machine.clone().next(now), RenewalStep::Renew(_)) {
                        steps.push(Step::Renews(who));
                    }
                    if self.left.longer_renewals > 0 && it.believes(now) {
                        steps.push(Step::RenewsForLonger(who));
                    }
                }
                steps.push(Step::Releases(who));
            }
            Phase::Leaving { again_at, .. } if !it.awaits && *again_at <= now => {
                steps.push(Step::ReleasesAgain(who));
            }
            _ => {}
        }
        let notices = self.ghost.notices.iter().enumerate();
        let own = notices.filter(|(_, (holder, _))| *holder == it.attempt.holder);
        steps.extend(own.map(|(nth, _)| Step::HearsThatItWasBroken(nth)));
    }

    /// A step of the client that needs no answer.
    fn stirs(&self, who: usize, machine: &Acquire) -> Option<Step> {
        let now = self.now.instant();
        if matches!(machine.clone().next(now), Does::Ask) {
            return Some(Step::Asks(who));
        }
        let waiting = &self.processes[self.place_of(who)].waiting;
        called(&waiting.clone(), self.clients[who].attempt.holder, now).map(|_| Step::Wakes(who))
    }

    /// True if the client waits in the queue and nothing makes it ask again for now.
    pub(super) fn sleeps(&self, who: usize) -> bool {
        let Phase::Asking(machine) = &self.clients[who].phase else { return false };
        let has_waiters =
            machine.clone().next(self.now.instant()) == Does::WaitUntil(Instant::from_nanos(u64::MAX));
        has_waiters && !self.clients[who].awaits && self.stirs(who, machine).is_none()
    }

    pub(super) fn asks(&mut self, who: usize) {
        let now = self.now.instant();
        let fixed = self.fixed.clone();
        let place = self.place_of(who);
        let waits = fixed.parties[who].waits;
        let attempt = self.clients[who].attempt.clone();
        let one_secret = self.has(Flaw::OneSecretForAllAsks);
        let client = self.client(who);
        client.asks += u64::from(!one_secret);
        // Numbers of a series, so that only their order is part of a state's name.
        let nonce = Nonce::from_bits(u128::from(crate::name::drawn(client.asks * 4 + who as u64)));
        if matches!(client.phase, Phase::Idle) {
            let patience = Patience::new((!waits).then_some(Duration::ZERO), Duration::MAX);
            client.phase = Phase::Asking(Acquire::new(now, fixed.ttl, Drift::NONE, patience, 1));
        }
        client.awaits = true;
        if let Phase::Asking(machine) = &mut client.phase {
            machine.handle_sent(now);
        }
        let process = self.process(place);
        let wait = waits.then(|| {
            let channel = process.channel();
            let proof = Proof { channel: channel.clone(), nonce };
            let ticket = process.waiting.asks(attempt.holder, Some(proof), now);
            Wait { channel: Some(channel), ticket, queue_limit: None, nonce: Some(nonce) }
        });
        let threw_away = fixed.flaw == Some(Flaw::ReleasesALatePush);
        let knew = threw_away || wait.as_ref().is_some_and(|wait| wait.ticket.is_some());
        let wait = match fixed.flaw {
            Some(Flaw::ForgetsTheTicket) => wait.map(|wait| Wait { ticket: None, ..wait }),
            _ => wait,
        };
        // The request is sent before a release at the same moment.
        let sent = now - Duration::from_nanos(1);
        let settles_at = now + fixed.tick * 2;
        let sending = process.unsettled.sending(attempt.holder, process.via(), sent, settles_at);
        let not_after = (fixed.flaw != Some(Flaw::NoNotAfter)).then_some(self.now.stamp() + fixed.tick);
        let request = Request::Grant { attempt, wait, not_after };
        self.send(who, Kind::Ask(sending), Some(request), knew);
    }

    fn send(&mut self, who: usize, kind: Kind, request: Option<Request>, knew: bool) {
        let (sent, holder) = (self.now.instant(), self.clients[who].attempt.holder);
        let call = Call { who, holder, sent, kind };
        let place = self.place_of(who);
        self.process(place).up.push_back(RequestMessage { call, request, knew, again: false });
    }

    pub(super) fn pings(&mut self, who: usize) {
        self.send(who, Kind::Ping, None, false);
    }

    pub(super) fn wakes(&mut self, who: usize) {
        let now = self.now.instant();
        let holder = self.clients[who].attempt.holder;
        let place = self.place_of(who);
        let Some(mut wake) = called(&self.process(place).waiting, holder, now) else { return };
        let flaw = self.fixed.flaw;
        if let (Wake::Granted { lasts, .. }, Some(Flaw::CountsTheTtlAtOnce)) = (&mut wake, flaw) {
            *lasts = self.fixed.ttl;
        }
        let is_grant = matches!(wake, Wake::Granted { .. });
        if let Phase::Asking(machine) = &mut self.client(who).phase {
            machine.handle_wake(now, wake);
        }
        self.settle(who);
        let Phase::Asking(machine) = &self.clients[who].phase else { return };
        if is_grant && flaw == Some(Flaw::ReleasesALatePush) {
            // After that it begins anew, as if it had never waited.
            let request = Request::Release(self.clients[who].attempt.clone());
            self.process(place).waiting.leave(holder, now);
            self.send(who, Kind::Ping, Some(request), false);
        } else if matches!(machine.clone().next(now), Does::Ask) {
            self.asks(who);
        }
    }

    /// Continues with the next step if the acquisition is over.
    fn settle(&mut self, who: usize) {
        let now = self.now.instant();
        let ttl = self.fixed.ttl;
        let Phase::Asking(machine) = &mut self.client(who).phase else { return };
        match machine.next(now) {
            Does::Done(Ok(Granted { lease, fence, handed })) => {
                let machine =
                    LeaseRenewal::new(now, lease, ttl, Drift::NONE, Renewal::Automatic).handed(handed);
                self.client(who).phase = Phase::Holding(machine);
                self.believes_in(who, fence);
            }
            Does::Done(Err(_)) => {
                self.leaves(who);
                self.releases(who);
            }
            _ => {}
        }
    }

    pub(super) fn renews(&mut self, who: usize, ttl: Ttl) {
        let now = self.now.instant();
        let is_own = ttl != self.fixed.ttl;
        let client = self.client(who);
        client.awaits = true;
        let attempt = client.attempt.with_ttl(ttl);
        if let Phase::Holding(machine) = &mut client.phase
            && !is_own
        {
            machine.handle_sent(now, ttl);
        }
        self.send(who, Kind::Hold(is_own.then_some(ttl)), Some(Request::Renew(attempt)), false);
    }

    /// Abandons the call in flight, if there is one. The call itself goes on.
    pub(super) fn leaves(&mut self, who: usize) {
        let now = self.now.instant();
        let (place, flaw, by_value) = (self.place_of(who), self.fixed.flaw, self.fixed.by_value);
        let holder = self.clients[who].attempt.holder;
        let waited = self.process(place).waiting.leave(holder, now);
        let client = self.client(who);
        let by_script = match (&client.phase, flaw) {
            (Phase::Holding(_), Some(Flaw::HandOverDropsTheMark)) => false,
            (Phase::Asking(_), flaw) => flaw != Some(Flaw::GivesUpByValue),
            _ => waited || !by_value,
        };
        client.phase = Phase::Leaving { again_at: now, by_script };
        (client.awaits, client.orphan) = (false, false);
    }

    pub(super) fn releases(&mut self, who: usize) {
        let client = self.client(who);
        let Phase::Leaving { by_script, .. } = client.phase else { return };
        client.awaits = true;
        let request = by_script.then(|| Request::Release(client.attempt.clone()));
        self.send(who, if by_script { Kind::LetGo } else { Kind::ByValue }, request, false);
    }

    fn is_gone(&mut self, who: usize) {
        let same_id = self.has(Flaw::OneIdPerClient);
        let holder = self.clients[who].attempt.holder;
        self.ghost().goes(holder);
        let client = self.client(who);
        client.phase = Phase::Gone;
        client.times -= 1;
        if client.times > 0 {
            client.phase = Phase::Idle;
            client.attempt.holder = if same_id { holder } else { Holder::from_bits(holder.bits() + 1) };
        }
    }

    pub(super) fn read(&mut self, number: usize) {
        match self.process(number).down.pop_front() {
            Some(StoreMessage::Answer(call, answer)) => {
                let process = self.process(number);
                process.since = process.since.max(call.sent);
                self.reads_an_answer(number, call, answer);
            }
            Some(StoreMessage::Push(push, said)) => self.reads_a_push(number, &push, said),
            None => {}
        }
    }

    fn reads_an_answer(&mut self, number: usize, call: Call, answer: Option<Answer>) {
        let now = self.now.instant();
        let Call { who, holder, sent, kind } = call;
        if self.clients[who].attempt.holder != holder || !self.clients[who].awaits {
            return;
        }
        let (client, flaw, waits) =
            (self.clients[who].clone(), self.fixed.flaw, self.fixed.parties[who].waits);
        match (kind, answer, &client.phase) {
            (Kind::Ask(sending), Some(Answer::Grant(answer)), Phase::Asking(_)) => {
                let process = self.process(number);
                process.unsettled.answered([sending]);
                if waits {
                    process.waiting.answered(&client.attempt, &answer, now);
                }
                let client = self.client(who);
                client.awaits = false;
                if let Phase::Asking(machine) = &mut client.phase {
                    if flaw == Some(Flaw::CountedFromTheReply) {
                        machine.handle_sent(now);
                    }
                    machine.handle_answer(now, answer);
                }
                self.settle(who);
            }
            (Kind::Hold(own), Some(Answer::Renew(answer)), Phase::Holding(_)) => {
                if let HoldAnswer::NotHeld { key, .. } = &answer {
                    self.process(number).waiting.ask_for(key, sent);
                }
                self.hears_of_a_renewal(who, own, sent, answer);
            }
            (Kind::LetGo, Some(Answer::Release(answer)), Phase::Leaving { .. }) => {
                if let HoldAnswer::NotHeld { key, .. } = &answer {
                    self.process(number).waiting.ask_for(key, sent);
                }
                self.hears_of_its_release(number, who, sent);
            }
            (Kind::ByValue, Some(_), Phase::Leaving { .. }) => self.hears_of_its_release(number, who, sent),
            (Kind::ByValue, None, Phase::Leaving { .. }) if flaw == Some(Flaw::GivesUpByValue) => {
                self.hears_of_its_release(number, who, sent);
            }
            (Kind::ByValue, None, Phase::Leaving { .. }) => {
                self.client(who).phase = Phase::Leaving { again_at: now, by_script: true };
                self.releases(who);
            }
            _ => {}
        }
    }

    fn hears_of_a_renewal(&mut self, who: usize, own: Option<Ttl>, sent: Instant, answer: HoldAnswer) {
        let now = self.now.instant();
        let client = self.client(who);
        client.awaits = false;
        let Phase::Holding(machine) = &mut client.phase else { return };
        match own {
            Some(ttl) => machine.handle_own_renewal(now, sent, ttl, answer),
            None => machine.handle_answer(now, answer),
        }
    }

    fn hears_of_its_release(&mut self, number: usize, who: usize, sent: Instant) {
        let holder = self.clients[who].attempt.holder;
        let process = self.process(number);
        let again = process.unsettled.released(holder, process.via(), sent);
        self.client(who).awaits = false;
        match again.filter(|_| !self.has(Flaw::OneRelease)) {
            Some(again_at) => self.client(who).phase = Phase::Leaving { again_at, by_script: true },
            None => self.is_gone(who),
        }
    }

    fn reads_a_push(&mut self, number: usize, push: &Push, said: Instant) {
        let now = self.now.instant();
        let since = match self.fixed.flaw {
            Some(Flaw::CountsFromThePush) => now,
            Some(Flaw::CountsByTheServersClock) => said + self.fixed.tick * self.ghost.clock_off,
            _ => self.processes[number].since,
        };
        let proof = push.to.clone().zip(push.nonce).map(|(channel, nonce)| Proof { channel, nonce });
        // A forger of a grant does not know the nonce.
        let proof = proof.unwrap_or_else(|| Proof {
            channel: push.to.clone().unwrap_or_else(|| Channel::new("")),
            nonce: Nonce::from_bits(0),
        });
        self.process(number).waiting.hears(push.holder, push.event, Some(&proof), since, now);
    }

    pub(super) fn hears_of_a_break(&mut self, nth: usize) {
        let (holder, _) = self.ghost().notices.remove(nth);
        let now = self.now.instant();
        let Some(who) = self.who(holder) else { return };
        if let Phase::Holding(machine) = &mut self.client(who).phase {
            machine.handle_broken(now);
        }
    }

    pub(super) fn break_connection(&mut self, number: usize, still_arriving: usize) {
        let now = self.now.instant();
        let process = self.process(number);
        process.stray = process.up.drain(..).take(still_arriving).collect();
        process.up.clear();
        process.down.clear();
        process.connection += 1;
        process.since = now;
        process.waiting.ask_for_all();
        let listener = process.listener();
        let server = self.server();
        server.listeners.0.push(listener);
        server.listeners.0.sort_unstable();
        for who in self.of(number) {
            let client = self.client(who);
            if !std::mem::take(&mut client.awaits) {
                continue;
            }
            match &mut client.phase {
                Phase::Asking(machine) => machine.handle_fault(now, Fault::passing("s", "gone")),
                Phase::Holding(machine) => machine.handle_fault(now, Fault::passing("s", "gone"), 0),
                _ => {}
            }
        }
        self.ghost().disturbed = true;
    }

    pub(super) fn crash(&mut self, number: usize) {
        let process = self.process(number);
        process.alive = false;
        process.down.clear();
        process.waiting = WaiterRegistry::new(1);
        process.unsettled = leasehold_core::InDoubtGrants::default();
        for who in self.of(number) {
            let client = self.client(who);
            (client.phase, client.awaits, client.orphan) = (Phase::Dead, false, false);
        }
        let ghost = self.ghost();
        (ghost.disturbed, ghost.littered) = (true, true);
    }

    /// Somebody with the right to publish sends a forged message to a waiter.
    pub(super) fn forge(&mut self, number: usize, forgery: u8) {
        let (said, left) = (self.now.instant(), Duration::ZERO);
        let Some(who) = self.of(number).find(|who| matches!(self.clients[*who].phase, Phase::Asking(_)))
        else {
            return;
        };
        let holder = self.clients[who].attempt.holder;
        let (fence, lasts) = (self.now.floor(), self.fixed.longer);
        let event = match forgery {
            0 => PushEvent::AskAgain,
            1 => PushEvent::First { left },
            _ => PushEvent::Granted { fence, lasts },
        };
        let key = self.key().clone();
        let process = self.process(number);
        let push = Push { to: Some(process.channel()), holder, key, event, nonce: None };
        process.down.push_back(StoreMessage::Push(push, said));
    }
}
