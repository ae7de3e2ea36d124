//! The effects of the network and the store on what was sent.

use std::rc::Rc;

use leasehold_core::{
    Answer, BreakAnswer, BreakNote, Fence, HoldAnswer, Key, LeaseBreak, Owner, Push, PushEvent, Request,
    Served,
};

use super::client::Phase;
use super::process::{Kind, RequestMessage, StoreMessage};
use super::{Step, Store};
use crate::Flaw;

impl Store {
    pub(super) fn steps_of_the_network(&self, number: usize, steps: &mut Vec<Step>) {
        let it = &self.processes[number];
        if let Some(first) = it.up.front() {
            steps.push(Step::StoreServes(number));
            if self.left.twins > 0 && !first.again {
                steps.push(Step::StoreServesOnceAndAgain(number));
            }
        }
        if !it.stray.is_empty() {
            steps.push(Step::StoreServesAStray(number));
        }
        if let Some(first) = it.down.front() {
            steps.push(Step::Reads(number));
            if self.left.lost_pushes > 0 && matches!(first, StoreMessage::Push(..)) {
                steps.push(Step::LosesAPush(number));
            }
        }
        let of_it = self.server.listeners.0.iter().filter(|listener| listener.process == number);
        let has_ended = |connection: u64| {
            let is_last = connection == it.connection;
            if is_last { !it.alive && it.up.is_empty() } else { it.stray.is_empty() }
        };
        let ended = of_it.map(|listener| listener.connection).filter(|connection| has_ended(*connection));
        steps.extend(ended.map(|connection| Step::StoreSeesTheEndOf { process: number, connection }));
        let is_at_work =
            |who: usize| !matches!(self.clients[who].phase, Phase::Idle | Phase::Gone | Phase::Dead);
        if !it.alive || !self.of(number).any(is_at_work) {
            return;
        }
        if self.left.breaks > 0 && it.stray.is_empty() {
            let ways = 0..=it.up.len();
            steps.extend(
                ways.map(|still_arriving| Step::ConnectionBreaks { process: number, still_arriving }),
            );
        }
        if self.left.crashes > 0 {
            steps.push(Step::ProcessCrashes(number));
        }
        let waits = |who: usize| matches!(self.clients[who].phase, Phase::Asking(_));
        if self.left.forgeries > 0 && self.of(number).any(waits) {
            steps.extend((0..3).map(|forgery| Step::SomebodyForges { process: number, forgery }));
        }
    }

    /// Serves the next request of the connection, or of what is left of the previous one.
    pub(super) fn serve(&mut self, number: usize, stray: bool, twice: bool) {
        let process = self.process(number);
        let connection = process.connection - u64::from(stray);
        let queue = if stray { &mut process.stray } else { &mut process.up };
        let Some(letter) = queue.front().cloned() else { return };
        if twice {
            queue[0].again = true;
        } else {
            queue.pop_front();
        }
        let answer = self.answer(number, connection, &letter);
        let process = self.process(number);
        if process.alive && !stray && !twice {
            process.down.push_back(StoreMessage::Answer(letter.call, answer));
        }
    }

    fn answer(&mut self, number: usize, connection: u64, letter: &RequestMessage) -> Option<Answer> {
        let call = letter.call;
        let now = self.now;
        let Some(request) = &letter.request else {
            let key = self.fixed.parties[call.who].claim.first_key().clone();
            let deleted =
                matches!(call.kind, Kind::ByValue) && self.server().delete_if_equal(&key, call.holder, now);
            return deleted.then_some(Answer::Release(HoldAnswer::Done));
        };
        self.hear(number, connection, letter, request);
        let mut floor = self.floor();
        if self.has(Flaw::FloorFromTheClient) {
            let age = now.instant().saturating_since(call.sent);
            let micros = u64::try_from(age.as_micros()).unwrap_or(0);
            floor = Fence::new(floor.get() - micros).unwrap_or(floor);
        }
        let before = Rc::clone(&self.server);
        let (window, flaw) = (self.fixed.window, self.fixed.flaw);
        let Served { answer, pushes, .. } = self.server().serve(request.clone(), now, floor, window, flaw);
        self.look_at(&before, letter, request, &answer, &pushes);
        pushes.into_iter().for_each(|push| self.deliver(push));
        Some(answer)
    }

    fn deliver(&mut self, push: Push) {
        if push.event == PushEvent::Broken {
            self.ghost().notices.push((push.holder, push.key));
            return;
        }
        let said = self.now.instant();
        let listens = |at: &usize| {
            let process = &self.processes[*at];
            process.alive && push.to.as_ref() == Some(&process.channel())
        };
        match (0..self.processes.len()).find(listens) {
            Some(at) => self.process(at).down.push_back(StoreMessage::Push(push, said)),
            None => self.ghost().disturbed = true,
        }
    }

    /// The operator breaks the lease that it saw.
    pub(super) fn break_what_was_seen(&mut self, key: &Key) {
        let Some((seen, fence)) = self.ghost().seen.take() else { return };
        let request =
            Request::Break { key: key.clone(), lease: LeaseBreak::new(fence, BreakNote::default()) };
        let (now, floor, window, flaw) = (self.now, self.floor(), self.fixed.window, self.fixed.flaw);
        let Served { answer, pushes, .. } = self.server().serve(request, now, floor, window, flaw);
        if let Answer::Break(BreakAnswer::Broken { holding }) = answer {
            let Owner::Holder { holder, .. } = holding.owner else { return };
            if (holder, holding.fence) != (seen, Some(fence)) {
                self.ghost().wrong("a break ends another's lease");
            }
            if let Some(who) = self.who(holder) {
                self.client(who).orphan = true;
            }
            self.ghost().lease_ended(true);
        }
        self.note_hand_overs(&pushes);
        pushes.into_iter().for_each(|push| self.deliver(push));
    }
}
