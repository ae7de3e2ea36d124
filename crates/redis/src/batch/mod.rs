//! Batches: requests that many callers make at the same time are sent together.
//!
//! The input is single requests: an exclusive grant or a release of one key. The output is scripts
//! of up to [`MOST_IN_BATCH`] requests each, grants and releases together, and each caller gets its
//! own answer. The connection's [`BatchQueue`](leasehold_core::BatchQueue) decides when which
//! requests are sent. A quorum has its own queue, and each of its members gets a whole batch.
//!
//! | file | decides |
//! |---|---|
//! | `state` | what a connection keeps of its batches, and a request in them |
//! | `send` | what is sent, and what the answer means for each caller |
//!
//! If a batch cannot serve a request, the answer is [`BatchAnswer::Other`]: the caller then uses
//! the script of a single request. This module does not wait in a server's queue, follow redirects
//! or ask replicas.

mod send;
pub(crate) mod state;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::{Attempt, Fault, HoldAnswer, Instant, Key, MOST_IN_BATCH, Ttl};
use redis::ServerError;
use tokio::sync::oneshot;

use self::send::Sender;
use self::state::{BatchAnswer, BatchKind, BatchResult, Caller, Request};
use crate::client::{Client, Run};
use crate::connection::route::Route;
use crate::fault::{is_denied, leads_astray};
use crate::redirect::Redirect;
use crate::script::{Vouching, by_segment, read_done, renew_batch};
use crate::slot::slot_of;

impl Client {
    /// Sends the request in a batch. `None` if it cannot be in a batch now.
    ///
    /// Cancel safe: a request that is dropped before its batch is sent is not sent.
    pub(crate) async fn ask_in_batch(
        &self,
        attempt: &Attempt,
        what: BatchKind,
        route: &Route,
        now: Instant,
        limit: Duration,
    ) -> Result<Option<BatchAnswer>, Fault> {
        // A quorum makes the batches of its members. A node that is asked instead of the owner needs
        // `ASKING` before each command.
        if attempt.proposal.is_some() || route.asks || route.batches.denied.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let Some(name) = attempt.claim.exclusive_key() else { return Ok(None) };
        let key = self.contended.digest(name);
        if self.contended.has(key, || now) {
            return Ok(None);
        }
        let (answer, heard) = oneshot::channel();
        let (slot, until, to) = (self.slot(name), now + limit, Caller { key, answer });
        let request = Request { attempt: attempt.clone(), what, slot, limit, until, to };
        match route.batches.queue.ask(request, heard, || self.sender(route), &*self.runtime).await {
            Ok(said) => said.map(Some),
            Err(_) => Err(self.faults.passing("nobody sends requests any more: the async runtime has ended")),
        }
    }

    /// In a cluster, the slot of a key; the same number for all keys elsewhere.
    fn slot(&self, key: &Key) -> u16 {
        if self.is_node() { slot_of(key.as_bytes()) } else { 0 }
    }

    fn sender(&self, route: &Route) -> Sender {
        let client = self.me.upgrade().expect("it is borrowed, so it is alive");
        Sender { client, live: route.live.clone(), batches: Arc::clone(&route.batches) }
    }

    /// Sends grants and releases of different keys in one batch. `tell` gets the number of each
    /// request, which counts from 0 and first the grants, and its answer; nothing for one that
    /// cannot be in a batch now. Keys that are contended here are sent, too: a member may refuse what
    /// the quorum grants, because it is late.
    pub(crate) async fn ask_all_in_batch(
        &self,
        grants: &[&Attempt],
        run: &Run,
        releases: &[&Attempt],
        route: &Route,
        limit: Duration,
        tell: impl FnMut(usize, BatchResult) + Send,
    ) {
        if route.batches.denied.load(Ordering::Relaxed) {
            return;
        }
        let until = self.runtime.now() + limit;
        let mut batch = Vec::with_capacity(grants.len() + releases.len());
        for (nth, &attempt) in grants.iter().chain(releases).enumerate() {
            let Some(key) = attempt.claim.exclusive_key() else { continue };
            let what = if nth < grants.len() { BatchKind::Grant(run.clone()) } else { BatchKind::Release };
            batch.push(Request { attempt, what, slot: self.slot(key), limit, until, to: nth });
        }
        self.sender(route).serve(batch, tell).await;
    }

    /// Returns `Ok` if the script of a single request may succeed although that of a batch was
    /// refused. Otherwise the refusal says where to ask.
    pub(crate) fn is_served_singly(&self, route: &mut Route, refusal: &ServerError) -> Result<(), Fault> {
        self.note_refusal(route, 0, refusal);
        if leads_astray(refusal) || !route.redirects.is_empty() {
            return Err(self.faults.of_refusal(refusal));
        }
        if is_denied(refusal) {
            route.batches.denied.store(true, Ordering::Relaxed);
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
        if route.batches.denied.load(Ordering::Relaxed) {
            return Ok(done);
        }
        let now = self.runtime.now();
        let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (nth, attempt) in attempts.iter().enumerate() {
            let Some(key) = attempt.claim.exclusive_key() else { continue };
            // Its value mostly says that others wait, and then the batch would be in vain.
            if self.contended.has(self.contended.digest(key), || now) {
                continue;
            }
            let longest = attempt.proposal.map(|proposal| proposal.max_ttl);
            groups.entry((self.slot(key), longest, attempt.ttl)).or_default().push(nth);
        }
        for nths in groups.values_mut() {
            nths.sort_by(|&one, &other| by_segment(&attempts[one], &attempts[other]));
        }
        let batches: Vec<_> = groups
            .iter()
            .flat_map(|((_, longest, _), nths)| nths.chunks(MOST_IN_BATCH).map(|nths| (*longest, nths)))
            .collect();
        if batches.is_empty() {
            return Ok(done);
        }
        let call = |&(longest, nths): &(Option<Ttl>, &[usize])| {
            let of: Vec<_> = nths.iter().map(|&nth| &attempts[nth]).collect();
            renew_batch(&of, longest.map(|longest| Vouching { run: run.as_deref(), longest }), self.is_node())
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
                    route.batches.denied.store(true, Ordering::Relaxed);
                }
                Err(_) => {}
            }
        }
        Ok(done)
    }
}
