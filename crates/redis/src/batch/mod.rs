//! Requests that many callers make at the same time, sent together.
//!
//! In come single requests: a grant or a release of one key, wanted alone. Out go scripts of up to [`MOST`](crate::script::MOST)
//! requests each, and each caller gets its own answer. A request leaves at once, from its caller's own task, if nothing is in flight
//! on the connection. Otherwise it leaves with all others that wait, when an answer arrives; there is no timer. At most two batches
//! are in flight.
//!
//! | file | decides |
//! |---|---|
//! | `queue` | which requests leave when: knows no server |
//! | `send` | what is sent, and what each caller may believe of the answer |
//!
//! What a batch cannot answer is [`Said::Other`]: the caller asks the script of a single request. Nothing here waits in a server's
//! queue, follows redirects or asks replicas.

mod queue;
mod send;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Attempt, Fault, Fence, HoldAnswer, Instant, Stamp, Ttl};
use redis::ServerError;
use tokio::sync::oneshot;

use self::queue::{Queue, Queued};
use self::send::Sender;
use crate::client::{Client, Route, Source};
use crate::fault::{is_denied, leads_astray};
use crate::link::Live;
use crate::member::Run;
use crate::script::{MOST, Vouching, batched_key, read_done, renew_batch};
use crate::slot::slot_of;
use crate::topology::cluster::Redirect;

/// What a server said of one request in a batch.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// The key is granted; its answer was read at this instant.
    Granted { fence: Fence, heard: Instant },
    /// The batch came after its deadline, by the server's clock.
    TooLate { now: Stamp },
    /// The lease is gone. The batch was sent at this instant.
    Released { sent: Instant },
    /// The script of a single request must answer.
    Other,
    /// The server refused the script, perhaps in the middle: nothing is known of the request.
    Refused(ServerError),
}

/// The queue of one connection.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    queue: Queue<Request>,
    /// Whether the server was sent the text of the grants on this connection, and that of the releases.
    knows: [AtomicBool; 2],
    /// The server does not let this user run them.
    denied: AtomicBool,
}

/// What one caller asks.
#[derive(Debug)]
pub(crate) struct Request {
    attempt: Attempt,
    what: What,
    /// Equal for requests of the same key.
    key: u64,
    /// In a cluster, the slot of the key.
    slot: u16,
    limit: Duration,
    until: Instant,
    answer: oneshot::Sender<Result<Said, Fault>>,
}

/// What a batch is of. Those that differ need different scripts, or different keys and arguments for all of the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Grant(Run),
    Release,
}

impl Queued for Request {
    fn key(&self) -> u64 {
        self.key
    }

    fn limit(&self) -> Duration {
        self.limit
    }

    fn is_wanted(&self) -> bool {
        !self.answer.is_closed()
    }
}

impl Client {
    /// Asks in a batch. `None` if the attempt is none for a batch, here and now.
    ///
    /// Cancel safe: a request that is dropped before its batch has left is not sent.
    pub(crate) async fn ask_in_batch(
        &self,
        attempt: &Attempt,
        what: What,
        route: &Route,
        limit: Duration,
    ) -> Result<Option<Said>, Fault> {
        let now = self.runtime.now();
        let Some(key) = batched_key(attempt) else { return Ok(None) };
        let digest = self.contended.digest(key);
        let batches = self.batches(route.live.as_ref());
        // A node that is asked in place of another takes a word before each command.
        if route.asks || self.contended.has(digest, now) || batches.denied.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some(client) = self.me.upgrade() else { return Ok(None) };
        let (answer, heard) = oneshot::channel();
        let slot = if self.cluster.is_some() { slot_of(key.as_bytes()) } else { 0 };
        let (attempt, until) = (attempt.clone(), now + limit);
        let request = Request { attempt, what, key: digest, slot, limit, until, answer };
        let sender = Sender { client, live: route.live.clone() };
        match batches.queue.ask(request, heard, sender, &*self.runtime).await {
            Some(Ok(Said::Other)) => {
                self.contended.note(digest, self.runtime.now());
                Ok(Some(Said::Other))
            }
            Some(said) => said.map(Some),
            None => Err(self.faults.passing("nobody sends requests any more: the async runtime has ended")),
        }
    }

    fn batches<'a>(&'a self, live: Option<&'a Arc<Live>>) -> &'a Arc<Batches> {
        match (&self.source, live) {
            (_, Some(live)) => &live.batches,
            (Source::Lent { batches, .. }, None) => batches,
            (Source::Ours(_), None) => unreachable!("a connection of ours is known"),
        }
    }

    /// Whether the script of a single request is worth asking where the one of a batch was refused. Where it is not, the refusal says
    /// where to ask.
    pub(crate) fn is_served_singly(&self, route: &mut Route, refusal: &ServerError) -> Result<(), Fault> {
        self.note_refusal(route, 0, refusal);
        if leads_astray(refusal) || !route.redirects.is_empty() {
            return Err(self.faults.of_refusal(refusal));
        }
        if is_denied(refusal) {
            self.batches(route.live.as_ref()).denied.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Lets leases that nobody waits for last their ttls from now, all in one round trip. What it leaves is asked one by one.
    pub(crate) async fn renew_in_batches(
        &self,
        attempts: &[Attempt],
        run: &Run,
        route: &mut Route,
        limit: Duration,
    ) -> Result<Vec<Option<Result<HoldAnswer, Fault>>>, Fault> {
        let mut done: Vec<_> = attempts.iter().map(|_| None).collect();
        if self.batches(route.live.as_ref()).denied.load(Ordering::Relaxed) {
            return Ok(done);
        }
        let by_slot = self.cluster.is_some();
        let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (nth, attempt) in attempts.iter().enumerate() {
            let Some(key) = batched_key(attempt) else { continue };
            let slot = if by_slot { slot_of(key.as_bytes()) } else { 0 };
            let longest = attempt.proposal.map(|proposal| proposal.max_ttl);
            groups.entry((slot, longest)).or_default().push(nth);
        }
        let batches: Vec<_> = groups
            .iter()
            .flat_map(|((_, longest), nths)| nths.chunks(MOST).map(|nths| (*longest, nths)))
            .collect();
        if batches.is_empty() {
            return Ok(done);
        }
        let call = |&(longest, nths): &(Option<Ttl>, &[usize])| {
            let of: Vec<_> = nths.iter().map(|&nth| &attempts[nth]).collect();
            renew_batch(&of, longest.map(|longest| Vouching { run: run.get(), longest, by_slot }))
        };
        let calls: Vec<_> = batches.iter().map(call).collect();
        let before = route.redirects.len();
        let heard = self.call_all(route, &calls, limit).await?;
        let redirects = route.redirects.split_off(before);
        for (place, redirect) in redirects {
            route.redirects.extend(batches[place].1.iter().map(|&nth| (nth, redirect.clone())));
        }
        for ((_, nths), heard) in batches.iter().zip(heard) {
            match heard {
                Ok(value) => {
                    let renewed =
                        read_done(&value, nths.len()).map_err(|strange| self.faults.lasting(strange))?;
                    let renewed = nths.iter().zip(renewed).filter(|(_, renewed)| *renewed);
                    renewed.for_each(|(&nth, _)| done[nth] = Some(Ok(HoldAnswer::Done)));
                }
                Err(refusal) if leads_astray(&refusal) || Redirect::of(&refusal).is_some() => {
                    let fault = self.faults.of_refusal(&refusal);
                    nths.iter().for_each(|&nth| done[nth] = Some(Err(fault.clone())));
                }
                Err(refusal) if is_denied(&refusal) => {
                    self.batches(route.live.as_ref()).denied.store(true, Ordering::Relaxed);
                }
                Err(_) => {}
            }
        }
        Ok(done)
    }
}
