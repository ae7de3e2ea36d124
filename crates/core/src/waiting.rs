//! Who waits in this process, what each is to be told, and who asks again for all.
//!
//! A waiter in line is told when its turn has come, so it need not ask. But a wake-up may get lost, a holder may die, and a
//! line may be forgotten with its server. So of the waiters of one key in this process the first asks again from time to time,
//! for all of them; when its answer shows that the others may have been forgotten too, each asks for itself.
//!
//! On a server anybody who may publish can speak to a waiter. So a grant is believed only with its proof; whatever else is
//! said is a hint, which can have a waiter ask sooner, but neither later nor without end.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::backoff::{Dice, jitter};
use crate::{
    Attempt, Backoff, BoxFuture, Channel, Fence, GrantAnswer, Holder, HolderInfo, Instant, Key, News, Nonce,
    Owner, QueuePosition, Runtime, Ticket, WaitQueue, Wake,
};

/// The waiters of one store in this process.
///
/// The store says what it asks, answers and hears; the waiter's future is [`WaiterRegistry::called`].
#[derive(Debug)]
pub struct WaiterRegistry(Mutex<Waiters>);

#[derive(Clone, Debug)]
struct Waiters {
    /// In boxes, so that the table's free places are small.
    all: HashMap<Holder, Box<Waiter>>,
    /// Those who stand in the line of a key, in its order.
    by_key: HashMap<Key, BTreeSet<(Ticket, Holder)>>,
    dice: Dice,
}

/// What shows a waiter that a grant which it hears of is true: it comes where the waiter's last ask said that it listens, and
/// repeats the secret of that ask.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a proof has no more to it")]
pub struct Proof {
    /// Where it came. Each connection has another: what was said on an earlier one may be repeated by anybody who heard it.
    pub channel: Channel,
    /// The secret.
    pub nonce: Nonce,
}

#[derive(Clone, Debug)]
struct Waiter {
    /// Its last place; it stands there unless it holds.
    place: Option<(Key, Ticket)>,
    /// It was told so, or answered. It is remembered until it is released, so that what it is told late is not taken for what
    /// nobody wants.
    holds: bool,
    asks: u32,
    /// When its last ask was sent.
    asked: Instant,
    /// What that ask demanded of a grant; `None` where nobody but the store can speak.
    proof: Option<Box<Proof>>,
    /// The fence of the holder that its last answer named: whoever is granted the key next has a greater one.
    above: Option<Fence>,
    /// How many hints it was given since an ask last got it any further.
    hints: u32,
    /// How often it asked in vain while it stood first, or without being told anything.
    rests: u32,
    /// Whether it hears when its turn has come.
    told: bool,
    wake: Option<Wake>,
    ask_at: Option<Instant>,
    task: Option<Waker>,
}

impl WaiterRegistry {
    /// Nobody waits. `seed` spreads the asks; it need not be secret.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Mutex::new(Waiters { all: HashMap::new(), by_key: HashMap::new(), dice: Dice::new(seed) }))
    }

    /// A waiter is about to ask, and will believe only a grant with this proof from then on; `None` where nobody but the store can speak
    /// to it. Says where it stands, for the store to put it there again.
    pub fn asks(&self, holder: Holder, proof: Option<Proof>, now: Instant) -> Option<(Key, Ticket)> {
        let mut waiters = self.waiters();
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
                wake: None,
                ask_at: None,
                task: None,
            })
        });
        waiter.asked = now;
        waiter.proof = proof.map(Box::new);
        waiter.told = true;
        waiter.asks += 1;
        // Whatever it was told before, the answer says better: that may have ended since, and it may stand in line anew.
        (waiter.holds, waiter.ask_at, waiter.wake) = (false, None, None);
        waiter.place.clone()
    }

    /// Nobody can tell a waiter, who is about to ask, that its turn has come: until its next ask it goes by asking alone, often.
    pub fn cannot_be_told(&self, holder: Holder) {
        if let Some(waiter) = self.waiters().all.get_mut(&holder) {
            waiter.told = false;
        }
    }

    /// A waiter's ask was answered.
    pub fn answered(&self, attempt: &Attempt, answer: &GrantAnswer, now: Instant) {
        let mut woken = Vec::new();
        let mut waiters = self.waiters();
        match answer {
            GrantAnswer::Busy { held_by, place: Some(place) } => {
                waiters.stands(attempt, held_by, *place, now, &mut woken);
            }
            GrantAnswer::Unfinished | GrantAnswer::TooLate { .. } => {}
            GrantAnswer::Granted { .. } => {
                // It took its turn by asking and not by a push: if somebody should have pushed, the next may wait in vain too.
                waiters.holds(attempt.holder, now, Duration::ZERO, &mut woken);
                if waiters.all.get(&attempt.holder).is_some_and(|waiter| waiter.asks == 1) {
                    waiters.all.remove(&attempt.holder);
                }
            }
            _ => {
                waiters.goes(attempt.holder, now, &mut woken);
            }
        }
        drop(waiters);
        woken.into_iter().for_each(Waker::wake);
    }

    /// A waiter goes, or what it held is released. Says whether it waited ever: whoever was granted at its first ask did not.
    pub fn leave(&self, holder: Holder, now: Instant) -> bool {
        let mut woken = Vec::new();
        let waited = self.waiters().goes(holder, now, &mut woken);
        woken.into_iter().for_each(Waker::wake);
        waited
    }

    /// Something is said to a waiter; if it is a lease, that began at `since` at the earliest. `false` when it is given a lease and
    /// is not here: a store to which nobody else can speak must then take that back.
    pub fn hears(
        &self,
        holder: Holder,
        news: News,
        proof: Option<&Proof>,
        since: Instant,
        now: Instant,
    ) -> bool {
        let mut woken = Vec::new();
        let mut waiters = self.waiters();
        let spread = jitter(SPREAD, waiters.dice.roll());
        let (pace, roll) = (waiters.pace(), waiters.dice.roll());
        let Some(waiter) = waiters.all.get_mut(&holder) else { return !matches!(news, News::Granted { .. }) };
        if waiter.holds {
            return true;
        }
        match news {
            // However long that is: the push that tells of its turn may get lost all the same.
            News::First { left } => {
                waiter.hint(now + pace.min(left.saturating_add(ROUNDING + spread)), now, roll);
            }
            News::Granted { fence, lasts } if waiter.is_proven(proof, fence) => {
                // What the ask demanded was not known to the store before it was sent.
                let since = if proof.is_some() { since.max(waiter.asked) } else { since };
                waiter.wake = Some(Wake::Granted { fence, since, lasts });
                let place = waiter.place.clone();
                waiters.holds(holder, now, pace, &mut woken);
                if let Some((key, _)) = place.filter(|_| since + lasts.duration() <= now) {
                    // Whatever kept this from being heard in time kept the others from it too.
                    waiters.all_ask(&key, now, &mut woken);
                }
            }
            News::AskAgain | News::Granted { .. } => waiter.hint(now, now, roll),
            // Whoever waits holds nothing that could be broken.
            News::Broken => {}
        }
        woken.extend(waiters.all.get_mut(&holder).and_then(|waiter| waiter.task.take()));
        drop(waiters);
        woken.into_iter().for_each(Waker::wake);
        true
    }

    /// The store found that a key is held by one who stands in its line, as far as that one knows: it should ask.
    pub fn finds(&self, holder: Holder, key: &Key) {
        let mut waiters = self.waiters();
        let waits = |waiter: &&mut Box<Waiter>| {
            !waiter.holds && waiter.place.as_ref().is_some_and(|(stands_at, _)| stands_at == key)
        };
        let Some(waiter) = waiters.all.get_mut(&holder).filter(waits) else { return };
        waiter.wake.get_or_insert(Wake::AskAgain);
        let woken = waiter.task.take();
        drop(waiters);
        woken.into_iter().for_each(Waker::wake);
    }

    /// All who wait for a key should ask: a lock that was handed to one of them was lost before it was claimed, and so may be
    /// their places.
    pub fn ask_for(&self, key: &Key, now: Instant) {
        let mut woken = Vec::new();
        self.waiters().all_ask(key, now, &mut woken);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Everybody should ask: what was to be told to them since some time ago may have got lost.
    pub fn ask_for_all(&self) {
        let mut woken = Vec::new();
        for waiter in self.waiters().all.values_mut().filter(|waiter| !waiter.holds) {
            waiter.wake.get_or_insert(Wake::AskAgain);
            woken.extend(waiter.task.take());
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// Resolves when the waiter is told something, or should ask for all; never for one that does not wait.
    ///
    /// Cancel safe: what nobody heard is told to the next call.
    pub fn called<'a>(&'a self, holder: Holder, runtime: &'a dyn Runtime) -> BoxFuture<'a, Wake> {
        let mut timer: Option<(Instant, BoxFuture<'static, ()>)> = None;
        Box::pin(poll_fn(move |context| {
            let mut waiters = self.waiters();
            let Some(waiter) = waiters.all.get_mut(&holder) else { return Poll::Pending };
            if let Some(wake) = waiter.wake.take() {
                return Poll::Ready(wake);
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
            if let Some(waiter) = self.waiters().all.get_mut(&holder) {
                waiter.ask_at = None;
            }
            Poll::Ready(Wake::AskAgain)
        }))
    }

    /// Whether anybody of this process stands in a line.
    #[must_use]
    pub fn is_in_line(&self) -> bool {
        !self.waiters().by_key.is_empty()
    }

    /// The keys in whose lines somebody of this process stands, in no particular order.
    #[must_use]
    pub fn keys(&self) -> Vec<Key> {
        self.waiters().by_key.keys().cloned().collect()
    }

    /// How many wait.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether there are none")]
    pub fn len(&self) -> usize {
        self.waiters().all.values().filter(|waiter| !waiter.holds).count()
    }

    /// Nothing that can panic halfway is done under the lock.
    fn waiters(&self) -> MutexGuard<'_, Waiters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store counts milliseconds, and is asked when a lease has surely ended there.
const ROUNDING: Duration = Duration::from_millis(1);

/// Keeps the waiters of a dead holder apart.
const SPREAD: Duration = Duration::from_millis(10);

/// Who does not stand first leaves the first this much time to ask when a lease has ended.
const AFTER_THE_FIRST: Duration = Duration::from_millis(100);

impl Waiter {
    fn is_proven(&self, proof: Option<&Proof>, fence: Fence) -> bool {
        self.proof.as_deref() == proof && self.above.is_none_or(|last| last < fence)
    }

    /// Something was said that proves nothing: it asks at an instant, or when it would have asked anyway. Of hints that do not get it any
    /// further each lets it rest longer after its last ask.
    fn hint(&mut self, at: Instant, now: Instant, roll: u64) {
        let rest = self.hints.checked_sub(1).map_or(Duration::ZERO, |n| Backoff::WHILE_HELD.delay(n, roll));
        self.hints = self.hints.saturating_add(1);
        let at = at.max(self.asked + rest);
        if at <= now {
            self.wake.get_or_insert(Wake::AskAgain);
        } else {
            self.ask_at = Some(self.ask_at.map_or(at, |set| set.min(at)));
        }
    }
}

/// Wakers are handed out, to be woken when the lock is free again.
impl Waiters {
    fn stands(
        &mut self,
        attempt: &Attempt,
        held_by: &HolderInfo,
        place: QueuePosition,
        now: Instant,
        woken: &mut Vec<Waker>,
    ) {
        let holder = attempt.holder;
        // The attempt's own, so that the answer's need not be kept for as long as it waits.
        let key = attempt.claim.keys().find(|key| **key == held_by.key).unwrap_or(&held_by.key);
        let Some(waiter) = self.all.get_mut(&holder) else { return };
        let before = waiter.place.replace((key.clone(), place.ticket));
        if before.as_ref() != waiter.place.as_ref() {
            waiter.hints = 0;
        }
        waiter.above = held_by.fence;
        if waiter.holds {
            // It was told so since it asked, and reads the older answer only now.
            return;
        }
        let (rejoined, asked) =
            (before.as_ref().is_some_and(|(at, _)| at == key) && !place.stood, waiter.asked);
        let told = waiter.told;
        waiter.rests = if place.before == 0 || !told { waiter.rests + 1 } else { 0 };
        let rests = waiter.rests;
        if let Some((at, ticket)) = before.filter(|before| *before != (key.clone(), place.ticket)) {
            let pace = self.pace();
            self.steps_out(&at, ticket, holder, now, pace, woken);
        }
        let line = self.by_key.entry(key.clone()).or_default();
        line.insert((place.ticket, holder));
        let asks_for_all = line.first().is_some_and(|(_, first)| *first == holder);
        let mut rest = asks_for_all.then(|| self.rest(held_by, place, rests, told));
        if attempt.claim.wants().len() > 1 {
            // It keeps other keys meanwhile, whose leases are renewed by asking.
            let third = attempt.ttl.duration() / 3;
            rest = Some(rest.map_or(third, |rest| rest.min(third)));
        }
        if let Some(waiter) = self.all.get_mut(&holder) {
            waiter.ask_at = rest.map(|rest| now + rest);
        }
        if rejoined {
            self.all_ask(key, asked, woken);
        }
    }

    /// How long the one that asks for all rests after an answer.
    fn rest(&mut self, held_by: &HolderInfo, place: QueuePosition, rests: u32, told: bool) -> Duration {
        let first = place.before == 0;
        if !told {
            let often = Backoff::WHILE_HELD.delay(rests, self.dice.roll());
            let spread = jitter(SPREAD, self.dice.roll());
            return held_by.remaining.map_or(often, |left| often.min(left.saturating_add(ROUNDING + spread)));
        }
        // Another program's lock goes without a word to the line.
        if first && !matches!(held_by.owner, Owner::Holder { .. }) {
            return Backoff::WHILE_HELD.delay(rests, self.dice.roll());
        }
        let spread = if first {
            jitter(SPREAD, self.dice.roll())
        } else {
            AFTER_THE_FIRST + jitter(AFTER_THE_FIRST, self.dice.roll())
        };
        let pace = self.pace();
        held_by.remaining.map_or(pace, |left| pace.min(left.saturating_add(ROUNDING + spread)))
    }

    /// How long it rests at most.
    fn pace(&mut self) -> Duration {
        WaitQueue::RE_ASK / 2 + jitter(WaitQueue::RE_ASK / 2, self.dice.roll())
    }

    fn goes(&mut self, holder: Holder, now: Instant, woken: &mut Vec<Waker>) -> bool {
        if !self.all.contains_key(&holder) {
            return false;
        }
        let pace = self.pace();
        self.holds(holder, now, pace, woken);
        self.all.remove(&holder).is_some()
    }

    /// A waiter stands in line no more. The next one of its line, if that asks for all now, does so after `rest`.
    fn holds(&mut self, holder: Holder, now: Instant, rest: Duration, woken: &mut Vec<Waker>) {
        let Some(waiter) = self.all.get_mut(&holder).filter(|waiter| !waiter.holds) else { return };
        waiter.holds = true;
        waiter.ask_at = None;
        if let Some((key, ticket)) = waiter.place.clone() {
            self.steps_out(&key, ticket, holder, now, rest, woken);
        }
    }

    fn steps_out(
        &mut self,
        key: &Key,
        ticket: Ticket,
        holder: Holder,
        now: Instant,
        rest: Duration,
        woken: &mut Vec<Waker>,
    ) {
        let Some(line) = self.by_key.get_mut(key) else { return };
        let asked_for_all = line.first() == Some(&(ticket, holder));
        line.remove(&(ticket, holder));
        let Some((_, next)) = line.first().copied() else {
            self.by_key.remove(key);
            return;
        };
        if let Some(waiter) = self.all.get_mut(&next).filter(|_| asked_for_all) {
            let next_asks = if waiter.told { now + rest } else { now };
            waiter.ask_at = Some(waiter.ask_at.map_or(next_asks, |set| set.min(next_asks)));
            woken.extend(waiter.task.take());
        }
    }

    /// All who wait for a key, and have not asked since, are told to.
    fn all_ask(&mut self, key: &Key, since: Instant, woken: &mut Vec<Waker>) {
        let Some(line) = self.by_key.get(key) else { return };
        for (_, holder) in line {
            let waiter = self.all.get_mut(holder).filter(|waiter| waiter.asked < since);
            if let Some(waiter) = waiter {
                waiter.wake.get_or_insert(Wake::AskAgain);
                woken.extend(waiter.task.take());
            }
        }
    }
}

impl Clone for WaiterRegistry {
    fn clone(&self) -> Self {
        Self(Mutex::new(self.waiters().clone()))
    }
}

/// Two that hash alike decide alike from here on, except for how long their waiters rest.
impl Hash for WaiterRegistry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let waiters = self.waiters();
        let mut all: Vec<_> = waiters.all.iter().collect();
        all.sort_unstable_by_key(|(holder, _)| **holder);
        for (holder, it) in all {
            (holder, &it.place, it.holds, it.asks == 1, it.asked, &it.proof, it.above).hash(state);
            (it.hints > 0, it.told, it.wake, it.ask_at).hash(state);
        }
        let mut by_key: Vec<_> = waiters.by_key.iter().collect();
        by_key.sort_unstable();
        by_key.hash(state);
    }
}

#[cfg(test)]
mod tests;
