//! The waiters of this process: what each of them is notified of, and which one asks again for all.
//!
//! A waiter in a queue is notified when its turn has come, so it need not poll. But a wake-up may
//! get lost, a holder may die, and a queue may be lost with its server. So of this process's
//! waiters for one key, the first asks again from time to time, for all of them; if its answer
//! shows that the others may have been lost too, each of them asks.
//!
//! On a server, anybody who may publish can send messages to a waiter. So a grant is accepted only
//! with its proof. Every other message is a hint: it can make a waiter ask sooner, but neither
//! later nor without a bound.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::sync::Mutex;
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::backoff::{jitter, roll};
use crate::{
    Attempt, Backoff, BoxFuture, Channel, Fence, GrantAnswer, Holder, HolderInfo, Instant, Key, Nonce,
    PushEvent, QueuePosition, Runtime, Ticket, WaitQueue, Wake, locked,
};

/// The waiters of one store in this process.
///
/// The store reports its requests, answers and messages here; a waiter's future is
/// [`WaiterRegistry::called`].
#[derive(Debug)]
pub struct WaiterRegistry(Mutex<Waiters>);

#[derive(Clone, Debug)]
struct Waiters {
    /// Boxed, so that free places of the tree are small.
    all: BTreeMap<Holder, Box<Waiter>>,
    by_key: BTreeMap<Key, Queue>,
    /// For jitter.
    seed: u64,
    /// A number of this process.
    process: u64,
    /// The tasks to wake once the mutex is unlocked.
    woken: Vec<Waker>,
}

/// The waiters of one key.
#[derive(Clone, Debug, Default, Hash)]
struct Queue {
    order: BTreeSet<(Ticket, Holder)>,
    /// When each of them asked, without those that were made to ask since.
    asked: BTreeSet<(Instant, Holder)>,
}

/// The proof that a grant which a waiter receives is genuine: it comes on the channel that the
/// waiter's last request named, and repeats the secret of that request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a proof has no more to it")]
pub struct Proof {
    /// The channel. Each connection has another one, because whoever received a message on an
    /// earlier channel could repeat it.
    pub channel: Channel,
    /// The secret.
    pub nonce: Nonce,
}

#[derive(Clone, Debug)]
struct Waiter {
    /// Its last place; it is in that queue unless it holds the key.
    place: Option<(Key, Ticket)>,
    /// A message or an answer said so. It is kept until it is released, so that a late
    /// message to it is not taken for a grant that nobody wants.
    holds: bool,
    asks: u32,
    /// When its last request was sent.
    asked: Instant,
    /// The proof that a grant must have; `None` if only the store can send messages.
    proof: Option<Box<Proof>>,
    /// The fence of the holder in its last answer: the next holder of the key has a greater one.
    above: Option<Fence>,
    /// The number of hints since a request last made progress.
    hints: u32,
    /// How often it asked in vain as the first waiter, or without a notification.
    rests: u32,
    /// True if it is notified when its turn has come.
    told: bool,
    /// True if the store showed it as holder since its last request.
    found: bool,
    /// Boxed, because it is there only for a moment.
    wake: Option<Box<Wake>>,
    ask_at: Option<Instant>,
    task: Option<Waker>,
}

impl WaiterRegistry {
    /// No waiters yet. `seed` is random, and need not be secret: it spreads the requests, and tells this
    /// process from others that cannot be notified either.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let (all, by_key) = (BTreeMap::new(), BTreeMap::new());
        Self(Mutex::new(Waiters { all, by_key, seed, process: seed, woken: Vec::new() }))
    }

    /// Notes that a waiter is about to ask, and from now on accepts only a grant with this proof;
    /// `None` if only the store can send messages to it. Returns its last known place.
    pub fn asks(&self, holder: Holder, proof: Option<Proof>, now: Instant) -> Option<(Key, Ticket)> {
        let mut waiters = locked(&self.0);
        let waiter = waiters.all.entry(holder).or_insert_with(|| {
            Box::new(Waiter {
                place: None,
                holds: false,
                asks: 0,
                asked: now,
                proof: None,
                above: None,
                hints: 0,
                rests: 0,
                told: true,
                found: false,
                wake: None,
                ask_at: None,
                task: None,
            })
        });
        let before = std::mem::replace(&mut waiter.asked, now);
        waiter.proof = proof.map(Box::new);
        waiter.told = true;
        waiter.asks += 1;
        // The answer replaces earlier messages: what they said may have ended, and the waiter may
        // join the queue again.
        (waiter.holds, waiter.found, waiter.ask_at, waiter.wake) = (false, false, None, None);
        let place = waiter.place.clone();
        if let Some((key, ticket)) = &place
            && let Some(queue) = waiters.by_key.get_mut(key)
            && queue.order.contains(&(*ticket, holder))
        {
            queue.asked.remove(&(before, holder));
            queue.asked.insert((now, holder));
        }
        place
    }

    /// Notes that a waiter, which is about to ask, cannot be notified of its turn: until its next
    /// request it only polls, often. Returns the silent channel for that request.
    pub fn cannot_be_told(&self, holder: Holder) -> Channel {
        let mut waiters = locked(&self.0);
        if let Some(waiter) = waiters.all.get_mut(&holder) {
            waiter.told = false;
        }
        Channel::silent(waiters.process)
    }

    /// Handles the answer to a waiter's request.
    pub fn answered(&self, attempt: &Attempt, answer: &GrantAnswer, now: Instant) {
        self.change(|waiters| match answer {
            GrantAnswer::Busy { held_by, place: Some(place) } => {
                waiters.stands(attempt, held_by, *place, now);
            }
            GrantAnswer::Unfinished | GrantAnswer::TooLate { .. } => {}
            GrantAnswer::Granted { .. } => {
                // It got its turn by asking and not by a push: if a push was due, the next waiter
                // may wait in vain too.
                waiters.holds(attempt.holder, now, Duration::ZERO);
                if waiters.all.get(&attempt.holder).is_some_and(|waiter| waiter.asks == 1) {
                    waiters.all.remove(&attempt.holder);
                }
            }
            _ => _ = waiters.goes(attempt.holder, now),
        });
    }

    /// Removes a waiter that gives up or whose lock is released. Returns true if it ever waited; an
    /// attempt that was granted at its first request did not.
    pub fn leave(&self, holder: Holder, now: Instant) -> bool {
        self.change(|waiters| waiters.goes(holder, now))
    }

    /// Handles a message to a waiter; a lease in it started at `since` at the earliest. Returns
    /// `false` if it contains a lease and the waiter is not here: then a store to which nobody else
    /// can write must release that lease.
    pub fn hears(
        &self,
        holder: Holder,
        event: PushEvent,
        proof: Option<&Proof>,
        since: Instant,
        now: Instant,
    ) -> bool {
        self.change(|waiters| waiters.hears(holder, event, proof, since, now))
    }

    /// Notes that the store shows a waiter as holder, although it considers itself waiting. The
    /// second time, the waiter asks; the first time, its notification may be on the way.
    pub fn finds(&self, holder: Holder, key: &Key) {
        self.change(|waiters| {
            let waiter = waiters.all.get_mut(&holder).filter(|waiter| waiter.waits_for(key));
            if let Some(waiter) = waiter
                && std::mem::replace(&mut waiter.found, true)
            {
                waiters.woken.extend(waiter.must_ask());
            }
        });
    }

    /// Makes all waiters of a key ask: a lock that was handed over to one of them was lost before
    /// it was claimed, and so may be their places.
    pub fn ask_for(&self, key: &Key, now: Instant) {
        self.change(|waiters| waiters.all_ask(key, now));
    }

    /// Makes all waiters ask: messages to them since some time ago may have been lost.
    pub fn ask_for_all(&self) {
        self.change(|waiters| {
            let waiting = waiters.all.values_mut().filter(|waiter| !waiter.holds);
            waiters.woken.extend(waiting.filter_map(|waiter| waiter.must_ask()));
        });
    }

    /// Resolves when the waiter is notified, or should ask for all; never if it does not wait.
    ///
    /// Cancel safe: a wake-up that nobody received goes to the next call.
    pub fn called<'a>(&'a self, holder: Holder, runtime: &'a dyn Runtime) -> BoxFuture<'a, Wake> {
        let mut timer: Option<(Instant, BoxFuture<'static, ()>)> = None;
        Box::pin(poll_fn(move |context| {
            let mut waiters = locked(&self.0);
            let Some(waiter) = waiters.all.get_mut(&holder) else { return Poll::Pending };
            if let Some(wake) = waiter.wake.take() {
                return Poll::Ready(*wake);
            }
            waiter.task = Some(context.waker().clone());
            let ask_at = waiter.ask_at;
            drop(waiters);
            if timer.as_ref().map(|(at, _)| *at) != ask_at {
                timer = ask_at.map(|at| (at, runtime.sleep_until(at)));
            }
            let rung = timer.as_mut().is_some_and(|(_, sleep)| sleep.as_mut().poll(context).is_ready());
            if !rung {
                return Poll::Pending;
            }
            timer = None;
            if let Some(waiter) = locked(&self.0).all.get_mut(&holder) {
                waiter.ask_at = None;
            }
            Poll::Ready(Wake::AskAgain)
        }))
    }

    /// Returns true if any request of this process is in a queue.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        !locked(&self.0).by_key.is_empty()
    }

    /// The keys in whose queues requests of this process are, in no particular order.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        locked(&self.0).by_key.keys().cloned().collect()
    }

    /// The number of waiters.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether there are none")]
    pub fn len(&self) -> usize {
        locked(&self.0).all.values().filter(|waiter| !waiter.holds).count()
    }

    /// Changes the waiters, and then wakes the tasks of those that this concerns.
    fn change<T>(&self, change: impl FnOnce(&mut Waiters) -> T) -> T {
        let mut waiters = locked(&self.0);
        let changed = change(&mut waiters);
        let woken = std::mem::take(&mut waiters.woken);
        drop(waiters);
        woken.into_iter().for_each(Waker::wake);
        changed
    }
}

fn ask_again() -> Box<Wake> {
    Box::new(Wake::AskAgain)
}

/// A store counts milliseconds, so it is asked when a lease has certainly ended there.
const ROUNDING: Duration = Duration::from_millis(1);

/// Keeps the waiters of a dead holder apart.
const SPREAD: Duration = Duration::from_millis(10);

/// A waiter that is not the first gives the first this much time to ask after a lease has ended.
const AFTER_THE_FIRST: Duration = Duration::from_millis(100);

impl Waiter {
    fn waits_for(&self, key: &Key) -> bool {
        !self.holds && self.place.as_ref().is_some_and(|(stands_at, _)| stands_at == key)
    }

    /// Makes the waiter ask now; returns its task.
    fn must_ask(&mut self) -> Option<Waker> {
        self.wake.get_or_insert_with(ask_again);
        self.task.take()
    }

    fn is_proven(&self, proof: Option<&Proof>, fence: Fence) -> bool {
        self.proof.as_deref() == proof && self.above.is_none_or(|last| last < fence)
    }

    /// Handles a message without proof: the waiter asks at this instant, or when it would have
    /// asked anyway. Each hint that makes no progress lengthens the pause after its last request.
    fn hint(&mut self, at: Instant, now: Instant, roll: u64) {
        let rest = self.hints.checked_sub(1).map_or(Duration::ZERO, |n| Backoff::WHILE_HELD.delay(n, roll));
        self.hints = self.hints.saturating_add(1);
        let at = at.max(self.asked + rest);
        if at <= now {
            self.wake.get_or_insert_with(ask_again);
        } else {
            self.asks_by(at);
        }
    }

    /// Makes the waiter ask at this instant, unless it asks earlier anyway.
    fn asks_by(&mut self, at: Instant) {
        self.ask_at = Some(self.ask_at.map_or(at, |set| set.min(at)));
    }
}

impl Waiters {
    fn hears(
        &mut self,
        holder: Holder,
        event: PushEvent,
        proof: Option<&Proof>,
        since: Instant,
        now: Instant,
    ) -> bool {
        let spread = jitter(SPREAD, roll(&mut self.seed));
        let (pace, random) = (self.pace(), roll(&mut self.seed));
        let Some(waiter) = self.all.get_mut(&holder) else {
            return !matches!(event, PushEvent::Granted { .. });
        };
        if waiter.holds {
            return true;
        }
        match event {
            // However long that is: the push for its turn may get lost nevertheless.
            PushEvent::First { left } => {
                waiter.hint(now + pace.min(left.saturating_add(ROUNDING + spread)), now, random);
            }
            PushEvent::Granted { fence, lasts } if waiter.is_proven(proof, fence) => {
                // The store did not know the proof before the request was sent.
                let since = if proof.is_some() { since.max(waiter.asked) } else { since };
                waiter.wake = Some(Box::new(Wake::Granted { fence, since, lasts }));
                let place = waiter.place.clone();
                self.holds(holder, now, pace);
                if let Some((key, _)) = place.filter(|_| since + lasts.duration() <= now) {
                    // A delay of this message has delayed those to the other waiters, too.
                    self.all_ask(&key, now);
                }
            }
            PushEvent::AskAgain | PushEvent::Granted { .. } => waiter.hint(now, now, random),
            // A waiter holds nothing that could be broken.
            PushEvent::Broken => {}
        }
        self.woken.extend(self.all.get_mut(&holder).and_then(|waiter| waiter.task.take()));
        true
    }

    fn stands(&mut self, attempt: &Attempt, held_by: &HolderInfo, place: QueuePosition, now: Instant) {
        let holder = attempt.holder;
        // The attempt's own key, so that the answer's key is not kept during the wait.
        let key = attempt.claim.keys().find(|key| **key == held_by.key).unwrap_or(&held_by.key);
        let Some(waiter) = self.all.get_mut(&holder) else { return };
        let before = waiter.place.replace((key.clone(), place.ticket));
        if before.as_ref() != waiter.place.as_ref() {
            waiter.hints = 0;
        }
        waiter.above = held_by.fence;
        if waiter.holds {
            // A push since its request said that it holds the key; the older answer is read now.
            return;
        }
        let (rejoined, asked) =
            (before.as_ref().is_some_and(|(at, _)| at == key) && !place.stood, waiter.asked);
        let told = waiter.told;
        waiter.rests = if place.before == 0 || !told { waiter.rests + 1 } else { 0 };
        let rests = waiter.rests;
        if let Some((at, ticket)) = before.filter(|before| *before != (key.clone(), place.ticket)) {
            let pace = self.pace();
            self.steps_out(&at, ticket, holder, now, pace);
        }
        let queue = self.by_key.entry(key.clone()).or_default();
        queue.order.insert((place.ticket, holder));
        queue.asked.insert((asked, holder));
        let asks_for_all = queue.order.first().is_some_and(|(_, first)| *first == holder);
        let mut rest = asks_for_all.then(|| self.rest(held_by, place, rests, told));
        if attempt.claim.wants().len() > 1 {
            // Meanwhile it keeps other keys, whose leases are renewed by asking.
            let third = attempt.ttl.duration() / 3;
            rest = Some(rest.map_or(third, |rest| rest.min(third)));
        }
        // A message since the request may have named an earlier time, and came after this answer.
        if let Some((waiter, rest)) = self.all.get_mut(&holder).zip(rest) {
            waiter.asks_by(now + rest);
        }
        if rejoined {
            self.all_ask(key, asked);
        }
    }

    /// How long the waiter that asks for all pauses after an answer.
    fn rest(&mut self, held_by: &HolderInfo, place: QueuePosition, rests: u32, told: bool) -> Duration {
        let first = place.before == 0;
        if !told {
            let often = Backoff::WHILE_HELD.delay(rests, roll(&mut self.seed));
            let spread = jitter(SPREAD, roll(&mut self.seed));
            return held_by.remaining.map_or(often, |left| often.min(left.saturating_add(ROUNDING + spread)));
        }
        // The end of another program's lock is not notified to the queue.
        if first && held_by.owner.holder().is_none() {
            return Backoff::WHILE_HELD.delay(rests, roll(&mut self.seed));
        }
        let spread = if first {
            jitter(SPREAD, roll(&mut self.seed))
        } else {
            AFTER_THE_FIRST + jitter(AFTER_THE_FIRST, roll(&mut self.seed))
        };
        let pace = self.pace();
        held_by.remaining.map_or(pace, |left| pace.min(left.saturating_add(ROUNDING + spread)))
    }

    /// Its longest pause.
    fn pace(&mut self) -> Duration {
        WaitQueue::RE_ASK / 2 + jitter(WaitQueue::RE_ASK / 2, roll(&mut self.seed))
    }

    fn goes(&mut self, holder: Holder, now: Instant) -> bool {
        if !self.all.contains_key(&holder) {
            return false;
        }
        let pace = self.pace();
        self.holds(holder, now, pace);
        self.all.remove(&holder).is_some()
    }

    /// Notes that a waiter has left its queue. If the next one asks for all, it does after `rest`.
    fn holds(&mut self, holder: Holder, now: Instant, rest: Duration) {
        let Some(waiter) = self.all.get_mut(&holder).filter(|waiter| !waiter.holds) else { return };
        waiter.holds = true;
        waiter.ask_at = None;
        if let Some((key, ticket)) = waiter.place.clone() {
            self.steps_out(&key, ticket, holder, now, rest);
        }
    }

    fn steps_out(&mut self, key: &Key, ticket: Ticket, holder: Holder, now: Instant, rest: Duration) {
        let Some(queue) = self.by_key.get_mut(key) else { return };
        let asked_for_all = queue.order.first() == Some(&(ticket, holder));
        queue.order.remove(&(ticket, holder));
        if let Some(waiter) = self.all.get(&holder) {
            queue.asked.remove(&(waiter.asked, holder));
        }
        let Some((_, next)) = queue.order.first().copied() else {
            self.by_key.remove(key);
            return;
        };
        if let Some(waiter) = self.all.get_mut(&next).filter(|_| asked_for_all) {
            waiter.asks_by(if waiter.told { now + rest } else { now });
            self.woken.extend(waiter.task.take());
        }
    }

    /// Makes all waiters of a key ask that have not asked since.
    fn all_ask(&mut self, key: &Key, since: Instant) {
        let Some(queue) = self.by_key.get_mut(key) else { return };
        let later = queue.asked.split_off(&(since, Holder::from_bits(0)));
        for (_, holder) in std::mem::replace(&mut queue.asked, later) {
            self.woken.extend(self.all.get_mut(&holder).and_then(|waiter| waiter.must_ask()));
        }
    }
}

impl Clone for WaiterRegistry {
    fn clone(&self) -> Self {
        Self(Mutex::new(locked(&self.0).clone()))
    }
}

/// Two tables with equal hashes decide the same from here on, but for the lengths of pauses.
impl Hash for WaiterRegistry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let waiters = locked(&self.0);
        for (holder, it) in &waiters.all {
            (holder, &it.place, it.holds, it.asks == 1, it.asked, &it.proof, it.above).hash(state);
            (it.hints > 0, it.told, it.found, &it.wake, it.ask_at).hash(state);
        }
        waiters.by_key.hash(state);
    }
}

#[cfg(test)]
mod tests;
