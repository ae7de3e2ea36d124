//! The invariants, and the data needed to check them.

use std::collections::BTreeMap;
use std::rc::Rc;

use leasehold_core::{
    Answer, Channel, Claim, Content, Fence, GrantAnswer, HoldAnswer, Holder, Key, Lock, Mode, Push,
    PushEvent, Request, Subscribers, Ticket, Wait, WaitQueue,
};

use super::Store;
use super::client::{Client, Phase};
use super::process::{Call, RequestMessage};
use crate::exclusion::exclude_each_other;
use crate::server::{Server, known};

/// Observations that only the checks use, not the world itself.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Ghost {
    fault: Option<&'static str>,
    /// The greatest fence granted for each key; `in_hand` has that of an exclusive holder.
    given: BTreeMap<Key, Fence>,
    in_hand: BTreeMap<Key, Fence>,
    /// The waiters in the order of their first requests, which a lost ticket does not change.
    came: Vec<Holder>,
    pub(super) unclaimed: Option<Unclaimed>,
    /// For each dead process, the number of claim windows that it wasted since its last request.
    wasted: BTreeMap<usize, u8>,
    /// True if a waiter may have to ask again without a wake-up.
    pub(super) disturbed: bool,
    /// True if a lease has ended, and nobody has asked since.
    lapsed: bool,
    /// True if remains are permitted.
    pub(super) littered: bool,
    pub(super) state_was_lost: bool,
    /// The least time that the store's wall clock shows.
    pub(super) clock: Option<Fence>,
    /// How many ticks the server's clock was set forward since the clients compared theirs.
    pub(super) clock_off: u32,
    /// The lease that an operator saw and is going to break.
    pub(super) seen: Option<(Holder, Fence)>,
    /// Holders that must still learn that their lease was broken.
    pub(super) notices: Vec<(Holder, Key)>,
}

/// A hand-over of a key to an exclusive holder.
#[derive(Clone, Debug, Hash)]
pub(super) struct Unclaimed {
    pub(super) holder: Holder,
    channel: Option<Channel>,
    /// True if its window has ended, or the lock was taken from it.
    ended: bool,
    /// True if its holder, or another waiter on its channel, has asked since.
    heard: bool,
}

/// The queue before and after a request, the holders before it, and the ticket in the request.
struct Seen<'a> {
    before: &'a WaitQueue,
    after: &'a WaitQueue,
    was_held: &'a [Holder],
    ticket: Option<Ticket>,
}

impl Ghost {
    pub(super) fn wrong(&mut self, what: &'static str) {
        self.fault.get_or_insert(what);
    }

    pub(super) fn lease_ended(&mut self, unclaimed: bool) {
        self.lapsed = true;
        if let Some(it) = self.unclaimed.as_mut().filter(|_| unclaimed) {
            it.ended = true;
        }
    }

    pub(super) fn queue_is_lost(&mut self) {
        (self.disturbed, self.unclaimed) = (true, None);
    }

    /// From now on the clock is ahead of every fence that was granted.
    pub(super) fn fence_is_lost(&mut self) {
        let above = self.given.values().max().map(|fence| fence.get() + 1);
        self.clock = above.and_then(Fence::new).max(self.clock);
    }

    pub(super) fn state_is_lost(&mut self) {
        self.state_was_lost = true;
        self.fence_is_lost();
        self.queue_is_lost();
        self.wasted.clear();
    }

    pub(super) fn goes(&mut self, holder: Holder) {
        self.came.retain(|other| *other != holder);
    }

    fn is_given(&mut self, key: &Key, fence: Fence) {
        if self.given.get(key).is_some_and(|last| *last >= fence) {
            self.wrong("a fence does not rise");
        }
        self.given.insert(key.clone(), fence);
    }
}

impl Store {
    pub(super) fn hear(
        &mut self,
        number: usize,
        connection: u64,
        letter: &RequestMessage,
        request: &Request,
    ) {
        let call = letter.call;
        let now = self.now.stamp();
        let mut channel = None;
        if let Request::Grant { wait, not_after, .. } = request {
            if not_after.is_some_and(|limit| now > limit) {
                return;
            }
            self.client(call.who).asked_on = connection;
            channel = wait.as_ref().and_then(|wait| wait.channel.clone());
        }
        let ghost = self.ghost();
        ghost.wasted.remove(&number);
        ghost.lapsed &= channel.is_none();
        if let Some(it) = &mut ghost.unclaimed {
            it.heard |= it.holder == call.holder || channel.is_some() && it.channel == channel;
        }
    }

    /// Checks what the store did with a request.
    pub(super) fn look_at(
        &mut self,
        before: &Server,
        letter: &RequestMessage,
        request: &Request,
        answer: &Answer,
        pushes: &[Push],
    ) {
        let now = self.now.stamp();
        let call = letter.call;
        let claim = self.fixed.parties[call.who].claim.clone();
        let key = claim.first_key();
        let asker = match request {
            Request::Grant { wait: Some(wait), .. } => wait.channel.clone(),
            _ => None,
        };
        if matches!(answer, Answer::Grant(GrantAnswer::TooLate { .. })) {
            return;
        }
        if matches!(answer, Answer::Renew(HoldAnswer::Done)) && self.clients[call.who].orphan {
            self.ghost().wrong("a lease that was lost is renewed");
        }
        let line = |server: &Server| server.records.queue(key, now).cloned().unwrap_or_default();
        let (queue_before, line) = (line(before), line(&self.server));
        let held = before.records.holder_ids(key, now);
        self.look_at_unresponsive(&queue_before, &held, asker.as_ref(), call);
        if asker.is_some() && claim.wants().len() == 1 {
            let keeps = letter.knew || queue_before.ticket(call.holder).is_some();
            let ghost = self.ghost();
            if !keeps {
                ghost.goes(call.holder);
            }
            if !ghost.came.contains(&call.holder) {
                ghost.came.push(call.holder);
            }
        }
        let granted = match answer {
            Answer::Grant(GrantAnswer::Granted { fence }) => Some((call.holder, *fence)),
            _ => None,
        };
        let handed = |push: &&Push| matches!(push.event, PushEvent::Granted { .. } | PushEvent::AskAgain);
        let mut takers: Vec<Holder> = granted.iter().map(|(holder, _)| *holder).collect();
        takers.extend(pushes.iter().filter(handed).filter(|push| push.key == *key).map(|push| push.holder));
        if claim.wants().len() == 1 {
            // The present holder may ask again, whoever waits.
            let ticket = match request {
                Request::Grant { wait: Some(Wait { ticket: Some((_, ticket)), .. }), .. } => Some(*ticket),
                _ => None,
            };
            let seen = Seen { before: &queue_before, after: &line, was_held: &held, ticket };
            let new = takers.iter().filter(|taker| !held.contains(taker));
            new.for_each(|taker| self.look_at_the_order(*taker, &takers, &seen));
        }
        // A client that is granted a lock holds it, whatever it lost before.
        for who in takers.iter().filter_map(|taker| self.who(*taker)).collect::<Vec<_>>() {
            self.client(who).orphan = false;
        }
        self.note_hand_overs(pushes);
        if let Some((_, fence)) = granted {
            claim.keys().for_each(|key| self.ghost().is_given(key, fence));
        }
        let mut stood = queue_before.waiters().map(|(_, waiter)| waiter.holder);
        let is_dropped = |holder: Holder| {
            holder != call.holder && !takers.contains(&holder) && line.ticket(holder).is_none()
        };
        let is_alive =
            |holder| self.who(holder).is_some_and(|who| !matches!(self.clients[who].phase, Phase::Dead));
        if stood.any(|holder| is_dropped(holder) && is_alive(holder)) {
            self.ghost().disturbed = true;
        }
        let endless = |server: &Server| {
            server.records.locks.values().any(|lock| lock.ends.is_none())
                || server.records.queues.values().any(|line| line.ends().is_none() && !line.is_empty())
        };
        if endless(&self.server) {
            self.ghost().wrong("an entry never expires");
        }
    }

    /// Checks that of waiters, exactly those that did not claim are passed over from now on.
    fn look_at_unresponsive(
        &mut self,
        before: &WaitQueue,
        was_held: &[Holder],
        asker: Option<&Channel>,
        call: Call,
    ) {
        if asker.is_some_and(|channel| self.is_unresponsive(call, channel)) {
            self.ghost().wrong("a waiter that asks again stays unresponsive");
        }
        let lies = before.unclaimed().filter(|it| !was_held.contains(&it.holder));
        let unresponsive =
            lies.filter(|it| it.holder != call.holder && (asker.is_none() || it.channel.as_ref() != asker));
        let noted = self.ghost.unclaimed.clone();
        let Some(it) =
            noted.filter(|it| unresponsive.is_some_and(|unresponsive| unresponsive.channel == it.channel))
        else {
            return;
        };
        let ghost = self.ghost();
        ghost.unclaimed = None;
        if !it.ended {
            ghost.wrong("a waiter that claimed in time was marked unresponsive");
        } else if it.heard {
            ghost.wrong("a waiter that asked again was marked unresponsive");
        }
    }

    fn is_unresponsive(&self, call: Call, channel: &Channel) -> bool {
        let key = self.fixed.parties[call.who].claim.first_key();
        let line = self.server.records.queues.get(key);
        line.is_some_and(|line| line.unresponsive().any(|unresponsive| unresponsive == channel))
    }

    /// Checks that no reachable waiter that came earlier was passed over.
    fn look_at_the_order(&mut self, taker: Holder, takers: &[Holder], seen: &Seen<'_>) {
        let place = |who: Holder| self.ghost.came.iter().position(|other| *other == who);
        let first = place(taker).unwrap_or(usize::MAX);
        let lies = seen.before.unclaimed().filter(|it| !seen.was_held.contains(&it.holder));
        let unresponsive = |channel: &Channel| {
            let lies = lies.is_some_and(|it| it.channel.as_ref() == Some(channel));
            lies || seen
                .before
                .unresponsive()
                .chain(seen.after.unresponsive())
                .any(|unresponsive| unresponsive == channel)
        };
        // Of two waiters that came in one moment, the smaller id is first.
        let ticket = seen.before.ticket(taker).or(seen.ticket);
        let is_passed = |(at, it): (Ticket, &leasehold_core::QueueEntry)| {
            let hears = it
                .channel
                .as_ref()
                .is_some_and(|channel| self.server.listeners.listens(channel) && !unresponsive(channel));
            let is_alive =
                self.who(it.holder).is_some_and(|who| matches!(self.clients[who].phase, Phase::Asking(_)));
            let came_first = place(it.holder).is_some_and(|at| at < first) && ticket != Some(at);
            hears && is_alive && !takers.contains(&it.holder) && came_first
        };
        if seen.before.waiters().any(is_passed) {
            self.ghost().wrong("a live waiter was passed over");
        }
    }

    pub(super) fn note_hand_overs(&mut self, pushes: &[Push]) {
        for push in pushes {
            let PushEvent::Granted { fence, .. } = push.event else { continue };
            self.ghost().is_given(&push.key, fence);
            let Some(who) = self.who(push.holder) else {
                self.ghost().wrong("the lock was handed to a client that is gone");
                continue;
            };
            let client = Rc::clone(&self.clients[who]);
            let (process, connection) = (self.fixed.parties[who].process, client.asked_on);
            let stands = |it: &&crate::server::Listener| (it.process, it.connection) == (process, connection);
            if !self.server.listeners.0.iter().any(|it| stands(&it)) {
                self.ghost().wrong("the lock was handed to a connection that is known to be closed");
            }
            let is_alone = client.attempt.claim.wants()[0].mode == Mode::Exclusive;
            let is_dead = !self.processes[process].alive;
            let ghost = self.ghost();
            if is_dead {
                let wasted = ghost.wasted.entry(process).or_default();
                *wasted += 1;
                if *wasted > 1 && is_alone {
                    ghost.wrong("a dead process wasted a second claim window");
                }
            }
            if is_alone {
                let (holder, channel) = (push.holder, push.to.clone());
                ghost.unclaimed = Some(Unclaimed { holder, channel, ended: false, heard: false });
            }
        }
    }

    pub(super) fn believes_in(&mut self, who: usize, fence: Fence) {
        if self.clients[who].orphan {
            return;
        }
        let claim = self.clients[who].attempt.claim.clone();
        for want in claim.wants().iter().filter(|want| want.mode == Mode::Exclusive) {
            let ghost = self.ghost();
            if ghost.in_hand.get(&want.key).is_some_and(|last| *last >= fence) {
                ghost.wrong("a fence does not rise");
            }
            ghost.in_hand.insert(want.key.clone(), fence);
        }
    }

    pub(super) fn what_is_wrong(&self) -> Option<&'static str> {
        let now = self.now.instant();
        let believers = self.clients.iter().filter(|it| it.believes(now) && !it.orphan);
        let believed: Vec<&Claim> = believers.map(|it| &it.attempt.claim).collect();
        if exclude_each_other(&believed) {
            return Some("two believe that they hold");
        }
        if let Some(fault) = self.ghost.fault {
            return Some(fault);
        }
        let is_over = |holder: Holder| match self.who(holder) {
            Some(who) => matches!(self.clients[who].phase, Phase::Idle | Phase::Gone),
            None => true,
        };
        if known(&self.server.records, self.now).any(is_over) {
            return Some("something is left of a client that is gone");
        }
        if !self.processes.iter().all(|process| process.is_silent()) {
            return None;
        }
        let idle = |it: &Client| matches!(it.phase, Phase::Idle | Phase::Gone);
        let records = &self.server.records;
        if self.clients.iter().all(|it| idle(it)) {
            let is_ours = |lock: &Lock| !matches!(lock.content, Content::Foreign(_));
            let is_left = records.locks.values().any(is_ours) || !records.queues.is_empty();
            return (is_left && !self.ghost.littered).then_some("something is left behind");
        }
        let calm = !self.ghost.disturbed && !self.ghost.lapsed;
        if calm && records.locks.is_empty() && (0..self.clients.len()).any(|who| self.sleeps(who)) {
            return Some("a wake-up is lost");
        }
        None
    }
}
