//! What is done with a request: the ledger, and those who wait.

use std::sync::Arc;
use std::time::{Duration, Instant as ThreadClock};

use leasehold_core::{Answer, Fault, Holder, Key, Request, Served, Stamp};

use crate::connection::Patience;
use crate::ledger::Ledger;
use crate::notifier::{Inbox, Notifier, Turn, taking_back};
use crate::turns::Turns;

/// Where requests are served, one after the other in the order in which they were sent.
#[derive(Debug)]
pub(crate) struct StoreWorker {
    ledger: Ledger,
    notifier: Arc<Notifier>,
    /// Keys that are not handed on yet, and leases to take back.
    left_over: Vec<Request>,
    looked: ThreadClock,
    /// The key up to which was looked last.
    hand: Option<Key>,
    /// Whether a waiter could not be given a channel.
    is_deaf: bool,
    /// Whether the thread wakes by itself to look at the keys that are waited for.
    is_watched: bool,
    /// Whose turn it is to serve requests.
    pub(crate) turns: Turns,
}

/// How often those who wait look how their keys stand. So a holder that was killed, which nobody can say, is noticed soon enough
/// for a person, as is a push that was lost; a look writes nothing, and takes microseconds.
const LOOK: Duration = Duration::from_millis(100);

/// The same where nobody can be told.
const DEAF_LOOK: Duration = Duration::from_millis(20);

/// At how many keys is looked at a time, so that other requests are not kept waiting.
const KEYS_AT_ONCE: usize = 256;

impl StoreWorker {
    pub(crate) fn new(ledger: Ledger, notifier: Arc<Notifier>) -> Self {
        let looked = ThreadClock::now();
        Self {
            ledger,
            notifier,
            left_over: Vec::new(),
            looked,
            hand: None,
            is_deaf: false,
            is_watched: false,
            turns: Turns::new(looked),
        }
    }

    /// How long the thread may rest if nobody sends it anything; `None` until somebody does.
    pub(crate) fn rest(&mut self) -> Option<Duration> {
        if !self.left_over.is_empty() || self.ledger.has_long_log() {
            return Some(Duration::ZERO);
        }
        if !self.is_watched && self.notifier.waiting.is_in_line() {
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
        } else if self.notifier.waiting.is_in_line() {
            self.look();
        } else {
            self.is_watched = false;
        }
    }

    /// Whether the thread has something to do that it does not know of.
    pub(crate) fn has_work(&self) -> bool {
        let is_unwatched = !self.is_watched && self.notifier.waiting.is_in_line();
        is_unwatched || !self.left_over.is_empty() || self.ledger.has_long_log()
    }

    /// Something went wrong in the middle of a request.
    pub(crate) fn abandon(&mut self) {
        self.ledger.close();
    }

    /// Nobody asks any more.
    pub(crate) fn close(&mut self) {
        self.ledger.close();
        self.notifier.sessions.leave(!self.notifier.turn().is_empty());
    }

    /// Enters the store among the living.
    pub(crate) fn enter(&mut self) -> Result<(), Fault> {
        self.ledger.enter()
    }

    /// Serves requests in one transaction, all of them or none, and tells whom they concern. `None` where it would have to wait and must
    /// not.
    pub(crate) fn serve(
        &mut self,
        requests: &mut [Request],
        inbox: &impl Inbox,
        patience: Patience,
    ) -> Result<Option<Vec<Answer>>, Fault> {
        for request in requests.iter_mut() {
            if let Request::Grant { wait: Some(wait), .. } = request {
                self.ledger.enter()?;
                wait.channel = self.notifier.channel(inbox);
                self.is_deaf |= wait.channel.is_none();
            }
        }
        let notifier = Arc::clone(&self.notifier);
        let mut turn = notifier.turn();
        let Some(served) = self.ledger.serve_within(requests, patience)? else { return Ok(None) };
        let answers = requests.iter().zip(served).map(|(request, (served, at))| {
            let answer = self.tell(served, at, &mut turn);
            notifier.note(&mut turn, request, &answer);
            answer
        });
        Ok(Some(answers.collect()))
    }

    /// Hears what other processes say to those who hold something here.
    pub(crate) fn listen(&mut self, inbox: &impl Inbox) {
        // Where nothing can be heard, the next renewal tells.
        if self.ledger.enter().is_ok() {
            let _ = self.notifier.channel(inbox);
        }
    }

    /// Sees whether what is open is still the file, and its log.
    pub(crate) fn look_at_file(&mut self) {
        // A file that cannot be read is a fault of the requests.
        let _ = self.ledger.look(&[]);
    }

    pub(crate) const fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Somebody was given a lease and is not here any more.
    pub(crate) fn take_back(&mut self, holder: Holder, key: Key) {
        self.left_over.push(taking_back(holder, key));
    }

    /// Tells whom a request concerned, after it was written: whoever hears of it finds it so.
    fn tell(&mut self, served: Served, at: Stamp, turn: &mut Turn<'_>) -> Answer {
        let unwanted = self.notifier.tell(turn, served.pushes, at);
        self.left_over.extend(unwanted.into_iter().map(|(holder, key)| taking_back(holder, key)));
        if !served.unfinished.is_empty() {
            self.left_over.push(Request::Advance(served.unfinished));
        }
        served.answer
    }

    /// Does one of the requests that were left over. If it cannot be done now, a look or somebody's asking finds it.
    fn clear(&mut self) {
        let Some(request) = self.left_over.pop() else { return };
        let notifier = Arc::clone(&self.notifier);
        let mut turn = notifier.turn();
        if let Ok(Some(served)) = self.ledger.serve_within(&[request], Patience::Waits) {
            for (served, at) in served {
                self.tell(served, at, &mut turn);
            }
        }
    }

    /// Looks whether somebody of this process holds what it waits for and was not told, and whether there is room at a key that was
    /// handed to nobody: its holder was killed, or whoever let it go was before it could say so.
    fn look(&mut self) {
        self.looked = ThreadClock::now();
        let mut keys = self.notifier.waiting.keys();
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
                self.notifier.waiting.finds(holder, &seen.key);
            }
            if seen.is_idle {
                idle.push(seen.key);
            }
        }
        if !idle.is_empty() {
            self.left_over.push(Request::Advance(idle));
        }
    }
}
