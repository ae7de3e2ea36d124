//! Puts requests into batches, sends a batch, and interprets the answer for each of its requests.

use std::borrow::Borrow;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use leasehold_core::{Attempt, BoxFuture, Fault, Instant, Key, Reading, SendBatch, Sending, Stamp};
use redis::aio::ConnectionLike;
use redis::{Cmd, RedisError, ServerError};
use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;

use super::{BatchAnswer, BatchKind, BatchResult, Caller, Request, Run};
use crate::client::{Client, Source};
use crate::connection::link::{Endpoint, Live};
use crate::connection::route::Route;
use crate::connection::send::{ServerReply, one, several};
use crate::fault::{is_denied, leads_astray};
use crate::redirect::Redirect;
use crate::script::{self, Granted, Vouching};
use crate::slot::slot_of;

impl Client {
    /// Sends the request in a batch. The attempt has no proposal: a quorum makes the batches of its
    /// members.
    ///
    /// Cancel safe: a request that is dropped before its batch is sent is not sent.
    pub(crate) async fn ask_in_batch(
        &self,
        attempt: &Attempt,
        what: BatchKind,
        route: &Route,
        now: Instant,
    ) -> BatchResult {
        // A node that is asked instead of the owner needs `ASKING` before each command.
        if route.asks || route.endpoint.batches.denied.load(Ordering::Relaxed) {
            return Ok(BatchAnswer::Other);
        }
        let Some(name) = attempt.claim.exclusive_key() else { return Ok(BatchAnswer::Other) };
        let key = self.contended.digest(name);
        if self.contended.has(key, || now) {
            return Ok(BatchAnswer::Other);
        }
        let (answer, heard) = oneshot::channel();
        let (slot, limit, to) = (self.slot(name), route.limit, Caller { key, answer });
        let request = Request { attempt: attempt.clone(), what, slot, limit, until: now + limit, to };
        match route.endpoint.batches.queue.ask(request, heard, || self.sender(route), &*self.runtime).await {
            Ok(said) => said,
            Err(_) => Err(self.faults.passing("nobody sends requests any more: the async runtime has ended")),
        }
    }

    /// In a cluster, the slot of a key; the same number for all keys elsewhere.
    pub(crate) fn slot(&self, key: &Key) -> u16 {
        if self.is_node() { slot_of(key.as_bytes()) } else { 0 }
    }

    fn sender(&self, route: &Route) -> Sender {
        let client = self.me.upgrade().expect("it is borrowed, so it is alive");
        Sender { client, live: route.live().cloned(), endpoint: Arc::clone(&route.endpoint) }
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
        tell: impl FnMut(usize, BatchResult) + Send,
    ) {
        if route.endpoint.batches.denied.load(Ordering::Relaxed) {
            return;
        }
        let (limit, until) = (route.limit, self.runtime.now() + route.limit);
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
            route.endpoint.batches.denied.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Sends the batches of one connection.
#[derive(Clone)]
struct Sender {
    client: Arc<Client>,
    /// `None` for the program's own connection.
    live: Option<Arc<Live>>,
    endpoint: Arc<Endpoint>,
}

/// The requests of a batch that one script serves.
struct Group<To, A> {
    /// First the grants: keys with the same beginning have one fence key, and stand together.
    requests: Vec<Request<To, A>>,
    /// The number of grants.
    grants: usize,
    heard: Option<ServerReply>,
}

impl SendBatch<Request<Caller>> for Sender {
    fn send(&self, batch: Vec<Request<Caller>>) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().serve(batch, answer))
    }

    /// No batch serves a key that turned out to be contended while the request waited.
    fn serves(&self) -> impl Fn(&Request<Caller>) -> bool {
        |request| !self.client.contended.has(request.to.key, || self.client.runtime.now())
    }

    fn decline(&self, request: Request<Caller>) {
        answer(request.to, Ok(BatchAnswer::Other));
    }
}

impl Sender {
    /// `tell` gets each answer, and who waits for it. Nothing is sent before the first poll.
    async fn serve<To: Send, A: Borrow<Attempt> + Send>(
        self,
        mut batch: Vec<Request<To, A>>,
        mut tell: impl FnMut(To, BatchResult) + Send,
    ) {
        let (client, clock) = (&*self.client, &self.endpoint.clock);
        let sent = client.runtime.now();
        for request in batch.extract_if(.., |request| request.until <= sent) {
            let fault = client.faults.timed_out(format_args!("no answer within {:?}", request.limit));
            tell(request.to, Err(fault));
        }
        // All of them have the same limit, which counts from now, as that of a single grant does.
        let Some(limit) = batch.first().map(|request| request.limit) else { return };
        let (mut ours, mut lent);
        let connection: &mut (dyn ConnectionLike + Send + Sync) = match (&client.source, &self.live) {
            (_, Some(live)) => {
                ours = live.connection.clone();
                &mut ours
            }
            (Source::Lent { lend, .. }, None) => match lend.connection(limit).await {
                Ok(connection) => {
                    lent = connection;
                    &mut *lent
                }
                Err(fault) => return all_get(batch, &Err(fault), &mut tell),
            },
            (Source::Ours(_), None) => return,
        };
        // Callers read the server's clock before they ask for a grant. Without a reading, the
        // server refuses grants as too late.
        let (not_after, settles_at) = clock.reading().map_or((Stamp::from_micros(0), sent), |reading| {
            let not_after = reading.latest(sent) + limit;
            (not_after, reading.surely_past(not_after))
        });
        let mut groups = grouped(batch);
        let via = self.live.as_ref().map(|live| live.id);
        let holders =
            groups.iter().flat_map(|group| group.grants().iter().map(|grant| grant.attempt.borrow().holder));
        // One for each grant: it is in doubt until it is answered.
        let sendings = client.shared.unsettled.sending_all(holders, via, sent, settles_at);
        let said = {
            // Also if this task should yield, the first poll hands the batch to the connection.
            let mut asking = pin!(unconstrained(self.ask(connection, &mut groups, not_after)));
            let mut is_written = false;
            let asking = poll_fn(|context| {
                let polled = asking.as_mut().poll(context);
                if !std::mem::replace(&mut is_written, true) && !sendings.is_empty() {
                    // The batch has been sent, or will be sent before everything that is sent from
                    // now on.
                    client.shared.unsettled.written(&sendings, client.runtime.now());
                }
                polled
            });
            client.runtime.before(sent + limit, asking).await
        };
        if let Err(fault) = client.sorted(self.live.as_ref(), sent, said, limit) {
            return groups
                .into_iter()
                .for_each(|group| all_get(group.requests, &Err(fault.clone()), &mut tell));
        }
        let (now, mut sendings) = (client.runtime.now(), sendings.as_slice());
        for group in groups {
            let (its, others) = sendings.split_at(group.grants);
            sendings = others;
            self.deliver(group, its, (sent, now), &mut tell);
        }
    }

    /// Sends the scripts of all groups together, and notes what the server says to each.
    async fn ask<To, A: Borrow<Attempt>>(
        &self,
        connection: &mut (dyn ConnectionLike + Send + Sync),
        groups: &mut [Group<To, A>],
        not_after: Stamp,
    ) -> Result<(), RedisError> {
        // Mostly one script serves all.
        if let [only] = groups {
            let command = self.command(only, not_after);
            only.heard = Some(one(connection, &command).await?);
            return Ok(());
        }
        let commands: Vec<_> = groups.iter().map(|group| self.command(group, not_after)).collect();
        let heard = several(connection, commands.into_iter()).await?;
        groups.iter_mut().zip(heard).for_each(|(group, heard)| group.heard = Some(heard));
        Ok(())
    }

    /// The first one on a connection contains the text, so that the server knows the script for the
    /// next ones.
    fn command<To, A: Borrow<Attempt>>(&self, group: &Group<To, A>, not_after: Stamp) -> Cmd {
        let client = &*self.client;
        let (grants, releases) = group.requests.split_at(group.grants);
        let call = script::batch_call(grants, releases, not_after, group.vouching(), client.is_node());
        let knows = self.knows(group).swap(true, Ordering::Relaxed);
        if knows { call.into_command() } else { call.by_text() }
    }

    fn knows<To, A: Borrow<Attempt>>(&self, group: &Group<To, A>) -> &AtomicBool {
        &self.endpoint.batches.knows[usize::from(group.vouching().is_some())]
    }

    fn deliver<To, A: Borrow<Attempt>>(
        &self,
        group: Group<To, A>,
        sendings: &[Sending],
        (sent, now): (Instant, Instant),
        tell: &mut impl FnMut(To, BatchResult),
    ) {
        let client = &*self.client;
        let answered = || client.shared.unsettled.answered(sendings.iter().copied());
        let is_at_member = group.vouching().is_some();
        let read = |value| {
            let releases = group.requests.len() - group.grants;
            script::read_batch(value, group.grants(), releases, is_at_member)
        };
        let served = match &group.heard {
            None => {
                let fault = client.faults.passing("the server gave fewer answers than it was asked");
                return all_get(group.requests, &Err(fault), tell);
            }
            Some(Err(refusal)) => {
                // A server that did not run the script does not know its text.
                self.knows(&group).store(false, Ordering::Relaxed);
                if script::is_unknown_script(refusal) {
                    answered();
                    return all_get(group.requests, &Ok(BatchAnswer::Other), tell);
                }
                if leads_astray(refusal) {
                    client.drop_connection(self.live.as_ref());
                }
                // A script that was refused in the middle has executed what comes before, but none
                // that is redirected.
                if Redirect::of(refusal).is_some() {
                    answered();
                }
                let refused = Ok(BatchAnswer::Refused(refusal.clone()));
                return all_get(group.requests, &refused, tell);
            }
            Some(Ok(value)) => match read(value) {
                Ok(served) => served,
                Err(strange) => {
                    let fault = client.faults.lasting(strange);
                    return all_get(group.requests, &Err(fault), tell);
                }
            },
        };
        answered();
        let (fences, server) = match served.granted {
            Granted::Served { now, fences } => (fences, Some(now)),
            Granted::TooLate { now } => (Vec::new(), Some(now)),
            Granted::Nothing => (Vec::new(), None),
        };
        server.into_iter().for_each(|server| self.endpoint.clock.note(Reading { sent, heard: now, server }));
        for (nth, request) in group.requests.into_iter().enumerate() {
            let done = match nth.checked_sub(group.grants) {
                Some(nth) => served.released[nth].then_some(BatchAnswer::Released { sent }),
                None => match (fences.get(nth), server) {
                    (Some(fence), _) => fence.map(|fence| BatchAnswer::Granted { fence, heard: now }),
                    (None, Some(now)) => Some(BatchAnswer::TooLate { now }),
                    (None, None) => None,
                },
            };
            let said = done.unwrap_or_else(|| {
                // Its key is contended from now on: before the next batch is made, so that requests
                // for the same key that wait for one need not be sent in vain.
                let key = request.attempt.borrow().claim.first_key();
                client.contended.note(client.contended.digest(key), now);
                BatchAnswer::Other
            });
            tell(request.to, Ok(said));
        }
    }
}

impl<To, A: Borrow<Attempt>> Group<To, A> {
    fn grants(&self) -> &[Request<To, A>] {
        &self.requests[..self.grants]
    }

    /// At a member of a quorum, what vouches for its leases.
    fn vouching(&self) -> Option<Vouching<'_>> {
        let first = self.grants().first()?;
        let (run, proposal) = first.run().zip(first.attempt.borrow().proposal)?;
        Some(Vouching { run: run.as_deref(), longest: proposal.max_ttl })
    }
}

fn grouped<To, A: Borrow<Attempt>>(mut batch: Vec<Request<To, A>>) -> Vec<Group<To, A>> {
    // Mostly one script serves all.
    let mut groups = Vec::with_capacity(1);
    while let Some(slot) = batch.first().map(|first| first.slot) {
        let grant = batch.iter().find(|request| request.slot == slot && request.is_grant());
        let script = grant.map(Request::script);
        let is_other = |request: &mut Request<To, A>| {
            request.slot != slot || request.is_grant() && Some(request.script()) != script
        };
        let others = batch.extract_if(.., is_other).collect();
        batch.sort_by(|one, other| match (one.is_grant(), other.is_grant()) {
            (true, true) => script::by_segment(one.borrow(), other.borrow()),
            (one, other) => other.cmp(&one),
        });
        let grants = batch.partition_point(Request::is_grant);
        groups.push(Group { requests: batch, grants, heard: None });
        batch = others;
    }
    groups
}

fn all_get<To, A>(requests: Vec<Request<To, A>>, said: &BatchResult, tell: &mut impl FnMut(To, BatchResult)) {
    requests.into_iter().for_each(|request| tell(request.to, said.clone()));
}

/// A caller that does not wait for the answer any more gives the attempt up, which undoes a grant.
fn answer(caller: Caller, said: BatchResult) {
    let _ = caller.answer.send(said);
}
