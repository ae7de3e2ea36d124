//! The worker: serves requests on the ledger, and notifies waiters.

use std::sync::Arc;
use std::time::{Duration, Instant as ThreadClock};

use leasehold_core::{Answer, Attempt, Claim, Fault, Holder, Key, Request, Served, Stamp, Ttl};

use crate::connection::Patience;
use crate::inline_gate::InlineGate;
use crate::ledger::Ledger;
use crate::notifier::{Errands, Notifier, ServingGuard};

/// Serves requests one after the other, in the order in which they were sent.
#[derive(Debug)]
pub(crate) struct StoreWorker {
    ledger: Ledger,
    notifier: Arc<Notifier>,
    /// Keys that are not handed over yet, and leases to release.
    left_over: Vec<Request>,
    looked: ThreadClock,
    /// The key up to which the last check came.
    hand: Option<Key>,
    /// True if a waiter could not be given a channel.
    no_channel: bool,
    /// True if the thread wakes on its own to check the keys with waiters.
    is_watched: bool,
    pub(crate) inline_gate: InlineGate,
}

/// The interval at which waiting processes check their keys, for a killed holder, which nobody
/// reports, and a lost push. A check writes nothing, and takes microseconds.
const LOOK: Duration = Duration::from_millis(100);

/// The same if nobody can be notified.
const LOOK_WITHOUT_CHANNEL: Duration = Duration::from_millis(20);

/// The number of keys in one check, so that other requests do not wait for long.
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
            no_channel: false,
            is_watched: false,
            inline_gate: InlineGate::new(looked),
        }
    }

    /// How long the thread may sleep if nobody sends it anything; `None` for no limit.
    pub(crate) fn rest(&mut self) -> Option<Duration> {
        if !self.left_over.is_empty() || self.ledger.has_long_log() || self.ledger.is_unsettled() {
            return Some(Duration::ZERO);
        }
        if !self.is_watched && self.notifier.waiting.has_waiters() {
            (self.is_watched, self.looked) = (true, ThreadClock::now());
        }
        let look = if self.no_channel { LOOK_WITHOUT_CHANNEL } else { LOOK };
        self.is_watched.then(|| look.saturating_sub(self.looked.elapsed()))
    }

    /// Does background work: a left-over request, or a check of the keys with waiters.
    pub(crate) fn tidy(&mut self) {
        if self.ledger.is_unsettled() {
            // An error is one of the next request, too.
            let _ = self.ledger.open_if_there();
        } else if self.ledger.has_long_log() {
            self.ledger.shorten_log();
        } else if !self.left_over.is_empty() {
            self.clear();
        } else if self.notifier.waiting.has_waiters() {
            self.look();
        } else {
            self.is_watched = false;
        }
    }

    /// Returns true if the thread has work that it does not know of.
    pub(crate) fn has_work(&self) -> bool {
        let is_unwatched = !self.is_watched && self.notifier.waiting.has_waiters();
        is_unwatched || !self.left_over.is_empty() || self.ledger.has_long_log()
    }

    /// Closes the store, because nobody sends requests any more.
    pub(crate) fn close(&mut self) {
        self.ledger.close();
        self.notifier.sessions.leave(!self.notifier.serving().is_empty());
    }

    /// Serves requests in one transaction, all or none, and notifies those whom they concern.
    /// `None` if it would have to wait and must not.
    pub(crate) fn serve(
        &mut self,
        requests: &mut [Request],
        errands: &impl Errands,
        patience: Patience,
    ) -> Result<Option<Vec<Answer>>, Fault> {
        // To start a session takes a transaction, and perhaps opens the file.
        if patience == Patience::AtOnce && self.ledger.sessions().own().is_none() {
            return Ok(None);
        }
        for request in requests.iter_mut() {
            if let Request::Grant { wait: Some(wait), .. } = request {
                self.ledger.enter()?;
                wait.channel = self.notifier.channel(errands);
                self.no_channel |= wait.channel.is_none();
            }
        }
        let notifier = Arc::clone(&self.notifier);
        let mut serving = notifier.serving();
        let Some(served) = self.ledger.serve_within(requests, patience)? else { return Ok(None) };
        let answers = served.into_iter().zip(requests.iter()).map(|((served, at), request)| {
            let answer = self.tell(served, at, &mut serving);
            notifier.note(&mut serving, request, &answer);
            answer
        });
        Ok(Some(answers.collect()))
    }

    /// Starts to listen for other processes' messages to the holders here.
    pub(crate) fn listen(&mut self, errands: &impl Errands) {
        // If no messages can be received, the next renewal finds out.
        if self.ledger.enter().is_ok() {
            let _ = self.notifier.channel(errands);
        }
    }

    pub(crate) const fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Registers a lease to release, because it was granted to an attempt that is no longer here.
    pub(crate) fn take_back(&mut self, holder: Holder, key: Key) {
        let attempt = Attempt::new(Claim::exclusive(key), holder, None, Ttl::DEFAULT);
        self.left_over.push(Request::Release(attempt));
    }

    /// Notifies those whom a request concerns, after it was written.
    fn tell(&mut self, served: Served, at: Stamp, serving: &mut ServingGuard<'_>) -> Answer {
        let unwanted = self.notifier.tell(serving, served.pushes, at);
        unwanted.into_iter().for_each(|(holder, key)| self.take_back(holder, key));
        if !served.unfinished.is_empty() {
            self.left_over.push(Request::Advance(served.unfinished));
        }
        served.answer
    }

    /// Serves one of the left-over requests. If that fails now, a later check or request finds it.
    fn clear(&mut self) {
        let Some(request) = self.left_over.pop() else { return };
        let notifier = Arc::clone(&self.notifier);
        let mut serving = notifier.serving();
        if let Ok(Some(served)) = self.ledger.serve_within(&[request], Patience::Waits) {
            for (served, at) in served {
                self.tell(served, at, &mut serving);
            }
        }
    }

    /// Checks whether a waiter of this process holds its key without having been notified, and
    /// whether a key is free that was handed to nobody: its holder or its releaser was killed.
    fn look(&mut self) {
        self.looked = ThreadClock::now();
        let mut keys = self.notifier.waiting.keys();
        if keys.len() > KEYS_AT_ONCE {
            keys.sort();
            let from = self.hand.take().map_or(0, |hand| keys.partition_point(|key| *key <= hand));
            // The first key follows the last one.
            keys = keys.split_off(if from < keys.len() { from } else { 0 });
            keys.truncate(KEYS_AT_ONCE);
            self.hand = keys.last().cloned();
        }
        // A file that cannot be read is a fault of the requests.
        let Ok(seen) = self.ledger.look(&keys) else { return };
        if self.notifier.has_moved() {
            self.notifier.waiting.ask_for_all();
        }
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
