//! One store, its grants, renewals and releases, and the clients that believe in them.
//!
//! Time passes in ticks, at any moment and for as long as it likes, so every client may be slow or stopped, and every lease may
//! end between any two things. All times are counted down, so a history may last for ever. Left out, each for a reason:
//!
//! - *Rates of clocks.* Store and clients count the same ticks. What they may differ is a sum, proven in `core::lease`.
//! - *The size of fences.* A clock that is not behind shows more than any fence that was given, as grants take longer than a
//!   microsecond: it is one more than the highest. Only the order matters.
//! - *Retries without end.* Connections break, and clients ask and renew, a few times each; after that the network is kind.
//!   That hides no loop: the client does the same after each break, and forgets nothing but what arrived.
//! - *Several keys, labels, foreign values.* A claim is served as a whole; `core::apply` tests what is refused.

mod client;
mod flaw;

use std::fmt;

use crate::explore::World;
use client::{Client, Phase};

pub use flaw::Flaw;

/// The ttl of an attempt, and of its automatic renewals.
const TTL: u8 = 2;
/// What a holder may renew with itself.
const LONG_TTL: u8 = 3;
/// How long a grant may be on its way.
const NOT_AFTER: u8 = 1;
/// Fences farther below the highest than this are all alike.
const FAR: u8 = 4;

/// The name of an attempt.
type Id = u8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Store {
    owner: Option<Id>,
    /// How long it owns the key still.
    left: u8,
    /// How far its last fence is below the highest that was ever given; `None` when it knows of none.
    below: Option<u8>,
}

/// What is on its way between a client and the store.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Message {
    client: u8,
    /// How many connections this client has made since.
    age: u8,
    id: Id,
    what: What,
    /// Whether the client still waits for the answer.
    awaited: bool,
    /// Whether it is being served for a second time.
    again: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Grant {
        not_after: u8,
        /// How far below the highest fence the client would have it begin; of interest for [`Flaw::FloorFromTheClient`].
        floor_below: u8,
    },
    Renew {
        ttl: u8,
    },
    Release,
    /// What the store answers: done, or not.
    Answer {
        done: bool,
    },
}

impl What {
    const fn is_answer(self) -> bool {
        matches!(self, Self::Answer { .. })
    }
}

/// The world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Grants {
    flaw: Option<Flaw>,
    store: Store,
    saved: Option<Store>,
    clients: Vec<Client>,
    /// In order for each client and connection.
    wires: Vec<Message>,
    /// Whether a fence was ever given.
    any_fence: bool,
    /// How many requests the network may still deliver twice.
    twins: u8,
    losses: u8,
    state_lost: bool,
    fault: Option<&'static str>,
}

/// What can happen. Clients are told apart by number, messages by their place among all.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(missing_docs, reason = "each reads as a sentence in a trace")]
pub enum Step {
    TimePasses,
    AsksForTheGrant { client: usize },
    AsksToRenew { client: usize, ttl: u8 },
    GivesUpOrReleases { client: usize },
    SendsTheRelease { client: usize },
    BreaksConnection { client: usize, still_arriving: usize },
    StoreServes { message: usize, what: Message },
    StoreServesOnceAndAgain { message: usize, what: Message },
    AnswerIsRead { message: usize, what: Message },
    StateIsSaved,
    StateIsEmptied,
    StateIsOld,
}

impl Grants {
    /// Two clients; the first makes `attempts` attempts and may see `breaks` broken connections, the second makes one attempt
    /// on a connection that holds. The store loses its state `losses` times.
    #[must_use]
    pub fn new(flaw: Option<Flaw>, attempts: u8, breaks: u8, losses: u8) -> Self {
        Self {
            flaw,
            store: Store::default(),
            saved: None,
            clients: vec![Client::new(0, attempts, breaks), Client::new(1, 1, 0)],
            wires: Vec::new(),
            any_fence: false,
            twins: 1,
            losses,
            state_lost: false,
            fault: None,
        }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn send(&mut self, client: usize, what: What) {
        let id = self.clients[client].id;
        let client = u8::try_from(client).expect("few clients");
        self.wires.push(Message { client, age: 0, id, what, awaited: true, again: false });
        self.wires.sort_by_key(|message| (message.client, message.age));
    }

    /// Whether nothing that goes the same way on the same connection is before it.
    fn is_next(&self, nth: usize) -> bool {
        let it = &self.wires[nth];
        let same = |other: &&Message| {
            (other.client, other.age, other.what.is_answer()) == (it.client, it.age, it.what.is_answer())
        };
        !self.wires[..nth].iter().any(|other| same(&other))
    }

    fn serve(&mut self, nth: usize, keep: bool) {
        let message = self.wires[nth];
        let answer = What::Answer { done: self.apply(message) };
        if keep {
            self.twins -= 1;
            self.wires[nth].again = true;
            return;
        }
        self.wires.remove(nth);
        if message.awaited {
            self.wires.push(Message { what: answer, again: false, ..message });
            self.wires.sort_by_key(|message| (message.client, message.age));
        }
    }

    /// What the store does.
    fn apply(&mut self, message: Message) -> bool {
        let own = self.store.owner == Some(message.id);
        match message.what {
            What::Grant { not_after, .. } if not_after == 0 && !self.has(Flaw::NoNotAfter) => false,
            What::Grant { floor_below, .. } => {
                if self.store.owner.is_some() && !own {
                    return false;
                }
                let left = if own && !self.has(Flaw::GrantShortens) { self.store.left.max(TTL) } else { TTL };
                self.store = Store { owner: Some(message.id), left, below: self.store.below };
                self.give_fence(floor_below);
                true
            }
            What::Renew { ttl } if own => {
                let shortens = self.has(Flaw::RenewalShortens);
                self.store.left = if shortens { ttl } else { ttl.max(self.store.left) };
                true
            }
            What::Renew { ttl } if self.has(Flaw::RenewalTakes) && self.store.owner.is_none() => {
                self.store = Store { owner: Some(message.id), left: ttl, ..self.store };
                true
            }
            What::Release if own || self.has(Flaw::ReleaseWithoutCompare) => {
                self.store = Store { below: self.store.below, ..Store::default() };
                true
            }
            What::Renew { .. } | What::Release | What::Answer { .. } => false,
        }
    }

    /// The next fence is above the last one that the store knows of, and not below the floor. Counted from the highest so far.
    fn give_fence(&mut self, floor_below: u8) {
        let floor = match self.flaw {
            // Without a floor counting begins at one, as the very first did.
            Some(Flaw::FenceWithoutFloor | Flaw::ClockBehind) => i8::MIN,
            Some(Flaw::FloorFromTheClient) => 1 - signed(floor_below),
            _ => 1,
        };
        let above_last = self.store.below.map_or(i8::MIN, |below| 1 - signed(below));
        let fence = floor.max(above_last);
        if fence < 1 && self.any_fence {
            self.fault = Some("a fence does not rise");
        }
        self.any_fence = true;
        self.store.below = Some(0);
        let rise = u8::try_from(fence).unwrap_or(0);
        let saved = self.saved.iter_mut().filter_map(|store| store.below.as_mut());
        saved.for_each(|below| *below = FAR.min(*below + rise));
        if self.has(Flaw::FloorFromTheClient) {
            for message in &mut self.wires {
                if let What::Grant { floor_below, .. } = &mut message.what {
                    *floor_below = FAR.min(*floor_below + rise);
                }
            }
        }
    }

    fn pass_time(&mut self) {
        for store in [Some(&mut self.store), self.saved.as_mut()].into_iter().flatten() {
            store.left = store.left.saturating_sub(1);
            if store.left == 0 {
                store.owner = None;
            }
        }
        for message in &mut self.wires {
            if let What::Grant { not_after, .. } = &mut message.what {
                *not_after = not_after.saturating_sub(1);
            }
        }
        // What nobody waits for and the store would refuse changes nothing.
        let settles = !self.has(Flaw::NoNotAfter);
        self.wires
            .retain(|it| it.awaited || !settles || !matches!(it.what, What::Grant { not_after: 0, .. }));
        self.clients.iter_mut().for_each(Client::pass_time);
    }

    fn lose_state(&mut self, to: Store) {
        self.store = to;
        self.losses -= 1;
        self.state_lost = true;
    }
}

impl World for Grants {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::TimePasses];
        for (client, it) in self.clients.iter().enumerate() {
            it.steps(client, &mut steps);
            if it.can_break() {
                let sent = self.wires.iter().filter(|it| usize::from(it.client) == client && it.age == 0);
                let requests = sent.filter(|it| !it.what.is_answer()).count();
                let ways = 0..=requests;
                steps.extend(ways.map(|still_arriving| Step::BreaksConnection { client, still_arriving }));
            }
        }
        for (message, it) in self.wires.iter().enumerate() {
            let what = *it;
            if !self.is_next(message) {
                continue;
            }
            if it.what.is_answer() {
                steps.push(Step::AnswerIsRead { message, what });
            } else {
                if !it.again && self.twins > 0 {
                    steps.push(Step::StoreServesOnceAndAgain { message, what });
                }
                steps.push(Step::StoreServes { message, what });
            }
        }
        if self.losses > 0 {
            steps.push(Step::StateIsEmptied);
            steps.push(if self.saved.is_some() { Step::StateIsOld } else { Step::StateIsSaved });
        }
        steps
    }

    fn take(&self, step: &Step) -> Self {
        let mut next = self.clone();
        match *step {
            Step::TimePasses => next.pass_time(),
            Step::AsksForTheGrant { client } => {
                next.clients[client].asks();
                next.send(client, What::Grant { not_after: NOT_AFTER, floor_below: 0 });
            }
            Step::AsksToRenew { client, ttl } => {
                next.clients[client].renews(ttl);
                next.send(client, What::Renew { ttl });
            }
            Step::GivesUpOrReleases { client } => {
                next.clients[client].gives_up();
                next.nobody_awaits(client);
            }
            Step::SendsTheRelease { client } => {
                next.clients[client].releases();
                next.send(client, What::Release);
            }
            Step::BreaksConnection { client, still_arriving } => {
                next.clients[client].connects_anew();
                next.nobody_awaits(client);
                next.leave_connection(client, still_arriving);
            }
            Step::StoreServes { message, .. } => next.serve(message, false),
            Step::StoreServesOnceAndAgain { message, .. } => next.serve(message, true),
            Step::AnswerIsRead { message, .. } => {
                let it = next.wires.remove(message);
                if let What::Answer { done } = it.what {
                    next.clients[usize::from(it.client)].hears(done, self.flaw);
                }
            }
            Step::StateIsSaved => next.saved = Some(self.store),
            Step::StateIsEmptied => next.lose_state(Store::default()),
            Step::StateIsOld => next.lose_state(self.saved.unwrap_or_default()),
        }
        next
    }

    fn broken(&self) -> Option<String> {
        if let Some(fault) = self.fault {
            return Some(fault.to_owned());
        }
        if self.state_lost {
            return None;
        }
        if self.clients.iter().filter(|client| client.believed > 0).count() > 1 {
            return Some("two believe that they hold".to_owned());
        }
        let over = self.wires.is_empty() && self.clients.iter().all(|client| client.phase == Phase::Gone);
        (over && self.store.owner.is_some()).then(|| "a lock is left behind".to_owned())
    }
}

impl Grants {
    /// Answers that nobody awaits are as good as lost.
    fn nobody_awaits(&mut self, client: usize) {
        let own = |it: &Message| usize::from(it.client) == client;
        self.wires.retain(|it| !own(it) || !it.what.is_answer());
        self.wires.iter_mut().filter(|it| own(it)).for_each(|it| it.awaited = false);
    }

    /// Of what the client sent on a connection, some still arrives, and the rest is lost. Which is which nobody can know,
    /// so it may as well be decided now.
    fn leave_connection(&mut self, client: usize, still_arriving: usize) {
        let mut arriving = 0;
        self.wires.retain_mut(|it| {
            if usize::from(it.client) != client {
                return true;
            }
            it.age += 1;
            arriving += usize::from(it.age == 1);
            it.age > 1 || arriving <= still_arriving
        });
        self.wires.sort_by_key(|message| (message.client, message.age));
    }
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client, id, what, .. } = self;
        write!(f, "{what:?} of attempt {} of client {client}", id % 4)?;
        if self.awaited { Ok(()) } else { f.write_str(", which nobody awaits") }
    }
}

fn signed(distance: u8) -> i8 {
    i8::try_from(distance).expect("distances are small")
}
