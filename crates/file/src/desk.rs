//! What is done with a request: the ledger, and those who wait.

use std::sync::Arc;
use std::time::{Duration, Instant as ThreadClock};

use leasehold_core::{
    Answer, Attempt, BreakAnswer, Fault, Fence, GrantAnswer, HoldAnswer, Holder, Key, KeyState, Manner, Mark,
    Marked, RaiseAnswer, Records, Request, Served, Stamp, Ticket, Ttl, Wait,
};

use crate::ledger::Ledger;
use crate::post::{Post, Turn, taking_back};
use crate::queue::{Queue, Task};

/// Where requests are served, one after the other in the order in which they were sent.
#[derive(Debug)]
pub(crate) struct Desk {
    ledger: Ledger,
    post: Arc<Post>,
    /// Keys that are not handed on yet, and leases to take back.
    left_over: Vec<Request>,
    looked: ThreadClock,
    /// The key up to which was looked last.
    hand: Option<Key>,
    /// Whether a waiter could not be given a channel.
    is_deaf: bool,
    /// Whether the thread wakes by itself to look at the keys that are waited for.
    is_watched: bool,
    /// Which task asked last, and when that was done.
    asked: Option<(Task, ThreadClock)>,
    /// Until then all is done on the store's own.
    spared_until: ThreadClock,
}

/// The longest that a transaction on the thread of whoever asks should take: some fifty times what it takes when nothing is wrong.
const SLOW: Duration = Duration::from_millis(1);

/// For how many times as long as it took, none is done there after one that was slow. So a disk that stalls takes a hundredth of the
/// time of a program's other tasks at most.
const SPARED: u32 = 100;

/// Two tasks that ask within this time keep each other waiting if all is done on the threads that they run on. Twice what a transaction
/// takes, and less than what is lost by having it done elsewhere.
const SIDE_BY_SIDE: Duration = Duration::from_micros(50);

/// How often those who wait look how their keys stand. So a holder that was killed, which nobody can say, is noticed soon enough
/// for a person, as is a push that was lost; a look writes nothing, and takes microseconds.
const LOOK: Duration = Duration::from_millis(100);

/// The same where nobody can be told.
const DEAF_LOOK: Duration = Duration::from_millis(20);

/// At how many keys is looked at a time, so that other requests are not kept waiting.
const KEYS_AT_ONCE: usize = 256;

impl Desk {
    pub(crate) fn new(ledger: Ledger, post: Arc<Post>) -> Self {
        let looked = ThreadClock::now();
        Self {
            ledger,
            post,
            left_over: Vec::new(),
            looked,
            hand: None,
            is_deaf: false,
            is_watched: false,
            asked: None,
            spared_until: looked,
        }
    }

    /// How long the thread may rest if nobody sends it anything; `None` until somebody does.
    pub(crate) fn rest(&mut self) -> Option<Duration> {
        if !self.left_over.is_empty() || self.ledger.has_long_log() {
            return Some(Duration::ZERO);
        }
        if !self.is_watched && self.post.waiting.is_in_line() {
            (self.is_watched, self.looked) = (true, ThreadClock::now());
        }
        let look = if self.is_deaf { DEAF_LOOK } else { LOOK };
        self.is_watched.then(|| look.saturating_sub(self.looked.elapsed()))
    }

    /// Does what nobody asked for: something that was left over, or a look at the keys that are waited for.
    pub(crate) fn tidy(&mut self) {
        if self.ledger.has_long_log() {
            self.ledger.shorten_log();
        } else if !self.left_over.is_empty() {
            self.clear();
        } else if self.post.waiting.is_in_line() {
            self.look();
        } else {
            self.is_watched = false;
        }
    }

    /// Begins a transaction for one request of a task, if nothing has to be waited for and no other task asks at the same time. Says
    /// when that was.
    pub(crate) fn begin_at_once(&mut self, task: Task) -> Option<ThreadClock> {
        let begun = ThreadClock::now();
        let asked_before = self.asked.replace((task, begun));
        let is_alone = asked_before.is_none_or(|(other, at)| other == task || begun - at > SIDE_BY_SIDE);
        if !is_alone || begun < self.spared_until {
            return None;
        }
        let is_begun = self.ledger.begin_at_once();
        if !is_begun {
            self.spare(begun);
        }
        is_begun.then_some(begun)
    }

    /// Says whether the thread has something to do now that it does not know of.
    pub(crate) fn end_at_once(&mut self, begun: ThreadClock) -> bool {
        self.ledger.end_at_once();
        self.spare(begun);
        let is_unwatched = !self.is_watched && self.post.waiting.is_in_line();
        is_unwatched || !self.left_over.is_empty() || self.ledger.has_long_log()
    }

    /// Keeps transactions away from the threads of those who ask for a while, if this one took long.
    fn spare(&mut self, begun: ThreadClock) {
        let now = ThreadClock::now();
        let took = now - begun;
        self.asked = self.asked.map(|(task, _)| (task, now));
        if took > SLOW {
            self.spared_until = now + took * SPARED;
        }
    }

    /// Something went wrong in the middle of a request.
    pub(crate) fn abandon(&mut self) {
        self.ledger.close();
    }

    /// Nobody asks any more.
    pub(crate) fn close(&mut self) {
        self.ledger.close();
        self.post.peers.go(!self.post.turn().is_empty());
    }

    pub(crate) fn open(&mut self) -> Result<(), Fault> {
        self.ledger.open()
    }

    /// Enters the store among the living.
    pub(crate) fn enter(&mut self) -> Result<(), Fault> {
        self.ledger.enter()
    }

    pub(crate) fn grant(
        &mut self,
        attempt: Attempt,
        manner: Manner,
        ticket: Option<(Key, Ticket)>,
        queue: &Queue,
    ) -> Result<GrantAnswer, Fault> {
        let wait = match manner {
            Manner::Wait { line_limit } => {
                self.ledger.enter()?;
                let channel = self.post.channel(queue);
                self.is_deaf |= channel.is_none();
                Some(Wait { channel, ticket, line_limit })
            }
            _ => None,
        };
        let waits = wait.is_some();
        let post = Arc::clone(&self.post);
        let mut turn = post.turn();
        let request = Request::Grant { attempt: attempt.clone(), wait, not_after: None };
        let answer = match self.serve(request, &mut turn)? {
            Answer::Grant(answer) => answer,
            other => return Err(self.refused(&other)),
        };
        if waits {
            post.waiting.answered(&attempt, &answer, post.now());
        }
        // Who waits may keep some of its keys meanwhile.
        if waits || matches!(answer, GrantAnswer::Granted { .. }) {
            turn.insert(attempt.holder);
        }
        Ok(answer)
    }

    pub(crate) fn renew(&mut self, attempts: Vec<Attempt>) -> Result<Vec<Result<HoldAnswer, Fault>>, Fault> {
        let post = Arc::clone(&self.post);
        let mut turn = post.turn();
        let requests: Vec<_> = attempts.into_iter().map(Request::Renew).collect();
        let served = self.ledger.serve_all_at(&requests)?;
        let renewed = served.into_iter().map(|(served, at)| match self.tell(served, at, &mut turn) {
            Answer::Renew(answer) => Ok(answer),
            other => Err(self.refused(&other)),
        });
        Ok(renewed.collect())
    }

    /// Nothing can come of it later, as all is done in the order in which it was sent.
    pub(crate) fn rejoin(&mut self, attempts: Vec<Attempt>) -> Result<Vec<Result<HoldAnswer, Fault>>, Fault> {
        let post = Arc::clone(&self.post);
        let mut turn = post.turn();
        let holders: Vec<_> = attempts.iter().map(|attempt| attempt.holder).collect();
        let request = |attempt| Request::Rejoin { attempt, not_after: None };
        let requests: Vec<_> = attempts.into_iter().map(request).collect();
        let served = self.ledger.serve_all_at(&requests)?;
        let rejoined = served.into_iter().zip(holders).map(|((served, at), holder)| {
            match self.tell(served, at, &mut turn) {
                Answer::Rejoin(answer) => {
                    if answer == HoldAnswer::Done {
                        turn.insert(holder);
                    }
                    Ok(answer)
                }
                other => Err(self.refused(&other)),
            }
        });
        Ok(rejoined.collect())
    }

    pub(crate) fn raise(&mut self, attempt: Attempt) -> Result<RaiseAnswer, Fault> {
        let post = Arc::clone(&self.post);
        match self.serve(Request::Raise(attempt), &mut post.turn())? {
            Answer::Raise(answer) => Ok(answer),
            other => Err(self.refused(&other)),
        }
    }

    pub(crate) fn release(&mut self, attempt: Attempt) -> Result<HoldAnswer, Fault> {
        let post = Arc::clone(&self.post);
        let mut turn = post.turn();
        let holder = attempt.holder;
        match self.serve(Request::Release(attempt), &mut turn)? {
            Answer::Release(answer) => {
                turn.remove(&holder);
                Ok(answer)
            }
            other => Err(self.refused(&other)),
        }
    }

    pub(crate) fn inspect(&mut self, key: Key) -> Result<KeyState, Fault> {
        match self.ledger.serve(Request::Inspect(key))?.answer {
            Answer::Inspect(state) => Ok(state),
            other => Err(self.refused(&other)),
        }
    }

    pub(crate) fn mark(&mut self, attempt: Attempt, mark: Mark, keep: Duration) -> Result<HoldAnswer, Fault> {
        match self.ledger.serve(Request::Mark { attempt, mark, keep })?.answer {
            Answer::Mark(answer) => Ok(answer),
            other => Err(self.refused(&other)),
        }
    }

    pub(crate) fn break_lease(&mut self, key: Key, fence: Fence) -> Result<BreakAnswer, Fault> {
        let post = Arc::clone(&self.post);
        match self.serve(Request::Break { key, fence }, &mut post.turn())? {
            Answer::Break(answer) => Ok(answer),
            other => Err(self.refused(&other)),
        }
    }

    pub(crate) fn marked(&mut self, key: Key) -> Result<Marked, Fault> {
        match self.ledger.serve(Request::Marked(key))?.answer {
            Answer::Marked(marked) => Ok(marked),
            other => Err(self.refused(&other)),
        }
    }

    /// Hears what other processes say to those who hold something here.
    pub(crate) fn listen(&mut self, queue: &Queue) {
        // Where nothing can be heard, the next renewal tells.
        if self.ledger.enter().is_ok() {
            let _ = self.post.channel(queue);
        }
    }

    pub(crate) fn list(&mut self, prefix: &[u8]) -> Result<Vec<KeyState>, Fault> {
        self.ledger.list(prefix)
    }

    pub(crate) fn bare_trip(&mut self) -> Result<(), Fault> {
        self.ledger.bare_trip()
    }

    pub(crate) fn bare_take(&mut self, key: &Key, holder: Holder, ttl: Ttl) -> Result<(), Fault> {
        self.ledger.bare_take(key, holder, ttl)
    }

    pub(crate) fn bare_let_go(&mut self, key: &Key, holder: Holder) -> Result<(), Fault> {
        self.ledger.bare_let_go(key, holder)
    }

    pub(crate) fn dump(&mut self) -> Result<Records, Fault> {
        self.ledger.dump()
    }

    /// Somebody was given a lease and is not here any more.
    pub(crate) fn take_back(&mut self, holder: Holder, key: Key) {
        self.left_over.push(taking_back(holder, key));
    }

    fn serve(&mut self, request: Request, turn: &mut Turn<'_>) -> Result<Answer, Fault> {
        let (served, at) = self.ledger.serve_at(request)?;
        Ok(self.tell(served, at, turn))
    }

    /// Tells whom a request concerned, after it was written: whoever hears of it finds it so.
    fn tell(&mut self, served: Served, at: Stamp, turn: &mut Turn<'_>) -> Answer {
        let unwanted = self.post.tell(turn, served.pushes, at);
        self.left_over.extend(unwanted.into_iter().map(|(holder, key)| taking_back(holder, key)));
        if !served.unfinished.is_empty() {
            self.left_over.push(Request::Advance(served.unfinished));
        }
        served.answer
    }

    /// Does one of the requests that were left over. If it cannot be done now, a look or somebody's asking finds it.
    fn clear(&mut self) {
        let Some(request) = self.left_over.pop() else { return };
        let post = Arc::clone(&self.post);
        let _ = self.serve(request, &mut post.turn());
    }

    /// Looks whether somebody of this process holds what it waits for and was not told, and whether there is room at a key that was
    /// handed to nobody: its holder was killed, or whoever let it go was before it could say so.
    fn look(&mut self) {
        self.looked = ThreadClock::now();
        let mut keys = self.post.waiting.keys();
        if keys.len() > KEYS_AT_ONCE {
            keys.sort();
            let from = self.hand.take().map_or(0, |hand| keys.partition_point(|key| *key <= hand));
            // The last key is followed by the first.
            keys = keys.split_off(if from < keys.len() { from } else { 0 });
            keys.truncate(KEYS_AT_ONCE);
            self.hand = keys.last().cloned();
        }
        // A file that cannot be read is a fault of the requests.
        let Ok(seen) = self.ledger.look(&keys) else { return };
        let mut idle = Vec::new();
        for seen in seen {
            for holder in seen.holders {
                self.post.waiting.finds(holder, &seen.key);
            }
            if seen.is_idle {
                idle.push(seen.key);
            }
        }
        if !idle.is_empty() {
            self.left_over.push(Request::Advance(idle));
        }
    }

    /// Why an answer is none to what was asked.
    fn refused(&self, answer: &Answer) -> Fault {
        match answer {
            Answer::Quarantined { left } => Fault::quarantined(self.ledger.name(), *left),
            _ => Fault::lasting(
                self.ledger.name(),
                "the answer is to another request: this is a fault in leasehold-core",
            ),
        }
    }
}
