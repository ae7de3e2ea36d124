//! Sends one batch, and interprets the answer for each of its callers.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Attempt, BoxFuture, Fault, Instant, Reading, Sending, ServerClock, Stamp, Ttl};
use redis::{Cmd, RedisError};

use super::queue::Sends;
use super::state::{BatchAnswer, BatchKind, Batches, Request};
use crate::client::{Client, Source};
use crate::connection::link::Live;
use crate::connection::route::BoxConnection;
use crate::connection::send::{ServerReply, one, several};
use crate::deadline::within;
use crate::fault::leads_astray;
use crate::redirect::Redirect;
use crate::script::{self, Call, Granted, Vouching};

/// Sends the batches of one connection.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) client: Arc<Client>,
    /// `None` for the program's own connection.
    pub(super) live: Option<Arc<Live>>,
    pub(super) batches: Arc<Batches>,
}

/// The requests of a batch that one script serves.
struct Group {
    what: BatchKind,
    /// At a member of a quorum, the longest TTL.
    longest: Option<Ttl>,
    /// That of all its requests. A release has none.
    ttl: Option<Ttl>,
    slot: u16,
    requests: Vec<Request>,
    /// For grants, one for each: it is in doubt until it is answered.
    sendings: Vec<Sending>,
}

impl Sends<Request> for Sender {
    fn send(&self, batch: Vec<Request>) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().serve(batch))
    }

    /// No batch serves a key that turned out to be contended while the request waited.
    fn serves(&self, request: &Request) -> bool {
        !self.client.contended.has(request.key, self.client.runtime.now())
    }

    fn decline(&self, request: Request) {
        answer(request, Ok(BatchAnswer::Other));
    }
}

impl Sender {
    async fn serve(self, mut batch: Vec<Request>) {
        let client = &*self.client;
        let sent = client.runtime.now();
        for request in batch.extract_if(.., |request| request.until <= sent) {
            let fault = client.faults.timed_out(format_args!("no answer within {:?}", request.limit));
            answer(request, Err(fault));
        }
        let Some(until) = batch.iter().map(|request| request.until).min() else { return };
        // The first request has waited longest. Faults name the limit that all of them have.
        let (limit, told) = (until.saturating_since(sent), batch[0].limit);
        let (mut connection, clock) = match self.connection(limit).await {
            Some(Ok(connection)) => connection,
            Some(Err(fault)) => {
                return batch.into_iter().for_each(|request| answer(request, Err(fault.clone())));
            }
            None => return,
        };
        // Callers read the server's clock before they ask for a grant. Without a reading, the
        // server refuses grants as too late.
        let (not_after, settles_at) = clock.reading().map_or((Stamp::from_micros(0), sent), |reading| {
            let not_after = reading.latest(sent) + limit;
            (not_after, reading.surely_past(not_after))
        });
        let mut groups = grouped(batch);
        for group in groups.iter_mut().filter(|group| group.has_common_fences()) {
            group.requests.sort_by(|one, other| script::by_segment(&one.attempt, &other.attempt));
        }
        for group in groups.iter_mut().filter(|group| group.what != BatchKind::Release) {
            let holders = group.requests.iter().map(|request| request.attempt.holder);
            let via = self.live.as_ref().map(|live| live.id);
            group.sendings = client.unsettled.sending_all(holders, via, sent, settles_at);
        }
        let commands: Vec<_> =
            groups.iter().map(|group| self.command(&group.call(client, not_after), group)).collect();
        let mut asking = pin!(ask(&mut connection, commands));
        let mut is_written = false;
        let asking = poll_fn(|context| {
            let polled = asking.as_mut().poll(context);
            if !std::mem::replace(&mut is_written, true) {
                // The batch has been sent, or will be sent before everything that is sent from now
                // on.
                let sendings = groups.iter().flat_map(|group| &group.sendings);
                client.unsettled.written(sendings, client.runtime.now());
            }
            polled
        });
        let said = within(&*client.runtime, limit, asking).await;
        let heard = match client.sorted(self.live.as_ref(), sent, said, told) {
            Ok(heard) if heard.len() == groups.len() => heard,
            Ok(_) => {
                return all_fail(
                    groups,
                    &client.faults.passing("the server gave fewer answers than it was asked"),
                );
            }
            Err(fault) => return all_fail(groups, &fault),
        };
        let now = client.runtime.now();
        for (group, heard) in groups.into_iter().zip(heard) {
            if heard.as_ref().is_err_and(leads_astray) {
                client.drop_connection(self.live.as_ref());
            }
            self.deliver(group, heard, &clock, sent, now);
        }
    }

    async fn connection(&self, limit: Duration) -> Option<Result<(BoxConnection, Arc<ServerClock>), Fault>> {
        match (&self.client.source, &self.live) {
            (_, Some(live)) => Some(Ok((Box::new(live.connection.clone()), Arc::clone(&live.clock)))),
            (Source::Lent { lend, clock, .. }, None) => {
                let connection = lend.connection(limit).await;
                Some(connection.map(|connection| (connection, Arc::clone(clock))))
            }
            (Source::Ours(_), None) => None,
        }
    }

    /// The first one on a connection contains the text, so that the server knows the script for the
    /// next ones.
    fn command(&self, call: &Call, group: &Group) -> Cmd {
        let knows = self.knows(group).swap(true, Ordering::Relaxed);
        if knows { call.by_sha() } else { call.by_text() }
    }

    fn knows(&self, group: &Group) -> &AtomicBool {
        &self.batches.knows[usize::from(group.what == BatchKind::Release)]
    }

    fn deliver(&self, group: Group, heard: ServerReply, clock: &ServerClock, sent: Instant, now: Instant) {
        let client = &*self.client;
        let count = group.requests.len();
        let is_answered = heard.is_ok();
        let said = match heard {
            Err(refusal) if script::is_unknown_script(&refusal) => {
                // Somebody made the server forget its scripts. Nothing was executed.
                self.knows(&group).store(false, Ordering::Relaxed);
                client.unsettled.answered(group.sendings);
                Ok(vec![BatchAnswer::Other; count])
            }
            // A script that was refused in the middle has executed what comes before, but none that
            // is redirected.
            Err(refusal) => {
                if Redirect::of(&refusal).is_some() {
                    client.unsettled.answered(group.sendings);
                }
                Ok(vec![BatchAnswer::Refused(refusal); count])
            }
            Ok(value) if group.what == BatchKind::Release => script::read_done(&value, count).map(|done| {
                done.into_iter()
                    .map(|done| if done { BatchAnswer::Released { sent } } else { BatchAnswer::Other })
                    .collect()
            }),
            Ok(value) => {
                script::read_grants(&value, &group.attempts(), group.longest.is_some()).map(|granted| {
                    client.unsettled.answered(group.sendings);
                    let said = |fence| match fence {
                        Some(fence) => BatchAnswer::Granted { fence, heard: now },
                        None => BatchAnswer::Other,
                    };
                    match granted {
                        Granted::Served { now: server, fences } => {
                            clock.note(Reading { sent, heard: now, server });
                            fences.into_iter().map(said).collect()
                        }
                        Granted::TooLate { now: server } => {
                            clock.note(Reading { sent, heard: now, server });
                            vec![BatchAnswer::TooLate { now: server }; count]
                        }
                        Granted::NotServed => vec![BatchAnswer::Other; count],
                    }
                })
            }
        };
        match said {
            Ok(said) => {
                for (request, said) in group.requests.into_iter().zip(said) {
                    // Before the next batch is made, so that requests for the same key that wait
                    // for one need not be sent in vain.
                    if is_answered && matches!(said, BatchAnswer::Other) {
                        client.contended.note(request.key, now);
                    }
                    answer(request, Ok(said));
                }
            }
            Err(strange) => {
                let fault = client.faults.lasting(strange);
                group.requests.into_iter().for_each(|request| answer(request, Err(fault.clone())));
            }
        }
    }
}

impl Group {
    fn call(&self, client: &Client, not_after: Stamp) -> Call {
        let attempts = self.attempts();
        match &self.what {
            BatchKind::Release => script::release_batch(&attempts),
            BatchKind::Grant(run) => {
                let by_slot = client.is_node();
                let vouching = self.longest.map(|longest| Vouching { run: run.get(), longest });
                script::grant_batch(&attempts, not_after, vouching, by_slot)
            }
        }
    }

    /// True if requests for keys with the same beginning have one fence key, and stand together.
    fn has_common_fences(&self) -> bool {
        self.what != BatchKind::Release && self.longest.is_none()
    }

    fn attempts(&self) -> Vec<&Attempt> {
        self.requests.iter().map(|request| &request.attempt).collect()
    }
}

fn grouped(batch: Vec<Request>) -> Vec<Group> {
    // Mostly all requests have one TTL, and are of one kind.
    let mut groups: Vec<Group> = Vec::with_capacity(1);
    for request in batch {
        let proposal = request.attempt.proposal.filter(|_| request.what != BatchKind::Release);
        let longest = proposal.map(|proposal| proposal.max_ttl);
        let ttl = (request.what != BatchKind::Release).then_some(request.attempt.ttl);
        let same = |group: &&mut Group| {
            (group.slot, group.longest, group.ttl) == (request.slot, longest, ttl)
                && group.what == request.what
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.requests.push(request),
            None => groups.push(Group {
                what: request.what.clone(),
                longest,
                ttl,
                slot: request.slot,
                requests: vec![request],
                sendings: Vec::new(),
            }),
        }
    }
    groups
}

async fn ask(connection: &mut BoxConnection, mut commands: Vec<Cmd>) -> Result<Vec<ServerReply>, RedisError> {
    match (commands.pop(), commands.is_empty()) {
        (Some(only), true) => Ok(vec![one(&mut **connection, &only).await?]),
        (last, _) => {
            commands.extend(last);
            several(&mut **connection, commands.into_iter()).await
        }
    }
}

fn all_fail(groups: Vec<Group>, fault: &Fault) {
    for request in groups.into_iter().flat_map(|group| group.requests) {
        answer(request, Err(fault.clone()));
    }
}

/// A caller that does not wait for the answer any more gives the attempt up, which undoes a grant.
fn answer(request: Request, said: Result<BatchAnswer, Fault>) {
    let _ = request.answer.send(said);
}
