//! Batches: requests that many callers make at the same time are sent together.
//!
//! The input is single requests: an exclusive grant or a release of one key. The output is scripts
//! of up to [`MOST`](crate::script::MOST) requests each, and each caller gets its own answer. A
//! request is sent at once, from its caller's task, if nothing is in flight on the connection.
//! Otherwise it is sent with all other waiting requests when an answer arrives; there is no timer.
//! At most two batches are in flight.
//!
//! | file | decides |
//! |---|---|
//! | `queue` | when which requests are sent; it knows no server |
//! | `send` | what is sent, and what the answer means for each caller |
//!
//! If a batch cannot serve a request, the answer is [`Said::Other`]: the caller then uses the
//! script of a single request. This module does not wait in a server's queue, follow redirects or
//! ask replicas.

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

/// The server's answer to one request in a batch.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    /// The key is granted; the answer was read at this instant.
    Granted { fence: Fence, heard: Instant },
    /// The batch came after its deadline, by the server's clock.
    TooLate { now: Stamp },
    /// The lease has ended. The batch was sent at this instant.
    Released { sent: Instant },
    /// The script of a single request must serve it.
    Other,
    /// The server refused the script, perhaps in the middle: the result of the request is unknown.
    Refused(ServerError),
}

/// The batches of one connection.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    queue: Queue<Request>,
    /// Whether the text of the grants, and that of the releases, was sent to the server on this
    /// connection.
    knows: [AtomicBool; 2],
    /// The server does not allow this user to run them.
    denied: AtomicBool,
}

/// The request of one caller.
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

/// The kind of a batch. Different kinds need different scripts, or different keys and arguments for
/// the whole batch.
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
    /// Sends the request in a batch. `None` if it cannot be in a batch now.
    ///
    /// Cancel safe: a request that is dropped before its batch is sent is not sent.
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
        // A node that is asked instead of the owner needs `ASKING` before each command.
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

    /// Returns `Ok` if the script of a single request may succeed although that of a batch was
    /// refused. Otherwise the refusal says where to ask.
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

    /// Extends leases without waiters to their TTLs from now, all in one round trip. The others are
    /// renewed one by one.
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
