//! Sends one batch, and interprets the answer for each of its requests.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{
    Attempt, BoxFuture, Fault, Instant, Reading, SendBatch, Sending, ServerClock, Stamp, Ttl,
};
use redis::{Cmd, RedisError};

use super::state::{BatchAnswer, BatchResult, Batches, Caller, Request};
use crate::client::{Client, Source};
use crate::connection::link::Live;
use crate::connection::route::BoxConnection;
use crate::connection::send::{ServerReply, one, several};
use crate::deadline::within;
use crate::fault::leads_astray;
use crate::redirect::Redirect;
use crate::script::{self, Granted, Vouching};

/// Sends the batches of one connection.
#[derive(Clone)]
pub(super) struct Sender {
    pub(super) client: Arc<Client>,
    /// `None` for the program's own connection.
    pub(super) live: Option<Arc<Live>>,
    pub(super) batches: Arc<Batches>,
}

/// The requests of a batch that one script serves.
struct Group<To> {
    slot: u16,
    grants: Vec<Request<To>>,
    releases: Vec<Request<To>>,
    /// One for each grant: it is in doubt until it is answered.
    sendings: Vec<Sending>,
}

impl SendBatch<Request<Caller>> for Sender {
    fn send(&self, batch: Vec<Request<Caller>>) -> BoxFuture<'static, ()> {
        Box::pin(self.clone().serve(batch, answer))
    }

    /// No batch serves a key that turned out to be contended while the request waited.
    fn serves(&self) -> impl Fn(&Request<Caller>) -> bool {
        |request| !self.client.contended.has(request.key, || self.client.runtime.now())
    }

    fn decline(&self, request: Request<Caller>) {
        answer(request.to, Ok(BatchAnswer::Other));
    }
}

impl Sender {
    /// `tell` gets each answer, and who waits for it. Nothing is sent before the first poll.
    pub(super) async fn serve<To: Send>(
        self,
        mut batch: Vec<Request<To>>,
        mut tell: impl FnMut(To, BatchResult) + Send,
    ) {
        let client = &*self.client;
        let sent = client.runtime.now();
        for request in batch.extract_if(.., |request| request.until <= sent) {
            let fault = client.faults.timed_out(format_args!("no answer within {:?}", request.limit));
            tell(request.to, Err(fault));
        }
        let Some(until) = batch.iter().map(|request| request.until).min() else { return };
        // The first request has waited longest. Faults name the limit that all of them have.
        let (limit, told) = (until.saturating_since(sent), batch[0].limit);
        let (mut connection, clock) = match self.connection(limit).await {
            Some(Ok(connection)) => connection,
            Some(Err(fault)) => {
                return batch.into_iter().for_each(|request| tell(request.to, Err(fault.clone())));
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
        let via = self.live.as_ref().map(|live| live.id);
        for group in &mut groups {
            let holders = group.grants.iter().map(|request| request.attempt.holder);
            group.sendings = client.unsettled.sending_all(holders, via, sent, settles_at);
        }
        let commands: Vec<_> = groups.iter().map(|group| self.command(group, not_after)).collect();
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
                let fault = client.faults.passing("the server gave fewer answers than it was asked");
                return all_fail(groups, &fault, tell);
            }
            Err(fault) => return all_fail(groups, &fault, tell),
        };
        let now = client.runtime.now();
        for (group, heard) in groups.into_iter().zip(heard) {
            if heard.as_ref().is_err_and(leads_astray) {
                client.drop_connection(self.live.as_ref());
            }
            self.deliver(group, heard, &clock, (sent, now), &mut tell);
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
    fn command<To>(&self, group: &Group<To>, not_after: Stamp) -> Cmd {
        let client = &*self.client;
        let run = group.grants.first().and_then(|first| first.run());
        let vouching = group.longest().zip(run).map(|(longest, run)| Vouching { run: run.get(), longest });
        let (grants, releases) = (attempts(&group.grants), attempts(&group.releases));
        let call = script::batch_call(&grants, &releases, not_after, vouching, client.is_node());
        let knows = self.knows(group).swap(true, Ordering::Relaxed);
        if knows { call.by_sha() } else { call.by_text() }
    }

    fn knows<To>(&self, group: &Group<To>) -> &AtomicBool {
        &self.batches.knows[usize::from(group.longest().is_some())]
    }

    fn deliver<To>(
        &self,
        group: Group<To>,
        heard: ServerReply,
        clock: &ServerClock,
        (sent, now): (Instant, Instant),
        tell: &mut impl FnMut(To, BatchResult),
    ) {
        let client = &*self.client;
        let read = |value| {
            let at_member = group.longest().is_some();
            script::read_batch(value, &attempts(&group.grants), group.releases.len(), at_member)
        };
        let served = match heard {
            Err(refusal) if script::is_unknown_script(&refusal) => {
                // Somebody made the server forget its scripts. Nothing was executed.
                self.knows(&group).store(false, Ordering::Relaxed);
                client.unsettled.answered(group.sendings);
                return all_get(group.grants, group.releases, &Ok(BatchAnswer::Other), tell);
            }
            // A script that was refused in the middle has executed what comes before, but none that
            // is redirected.
            Err(refusal) => {
                if Redirect::of(&refusal).is_some() {
                    client.unsettled.answered(group.sendings);
                }
                return all_get(group.grants, group.releases, &Ok(BatchAnswer::Refused(refusal)), tell);
            }
            Ok(value) => match read(&value) {
                Ok(served) => served,
                Err(strange) => {
                    let fault = client.faults.lasting(strange);
                    return all_get(group.grants, group.releases, &Err(fault), tell);
                }
            },
        };
        client.unsettled.answered(group.sendings);
        // A key of a request that is left is contended from now on: before the next batch is made,
        // so that requests for the same key that wait for one need not be sent in vain.
        let other = |request: &Request<To>| {
            client.contended.note(request.key, now);
            BatchAnswer::Other
        };
        match served.granted {
            Granted::Served { now: server, fences } => {
                clock.note(Reading { sent, heard: now, server });
                for (request, fence) in group.grants.into_iter().zip(fences) {
                    let granted = |fence| BatchAnswer::Granted { fence, heard: now };
                    let said = fence.map_or_else(|| other(&request), granted);
                    tell(request.to, Ok(said));
                }
            }
            Granted::TooLate { now: server } => {
                clock.note(Reading { sent, heard: now, server });
                all_get(group.grants, Vec::new(), &Ok(BatchAnswer::TooLate { now: server }), tell);
            }
            Granted::Nothing => {}
        }
        for (request, done) in group.releases.into_iter().zip(served.released) {
            let said = if done { BatchAnswer::Released { sent } } else { other(&request) };
            tell(request.to, Ok(said));
        }
    }
}

impl<To> Group<To> {
    const fn new(slot: u16) -> Self {
        Self { slot, grants: Vec::new(), releases: Vec::new(), sendings: Vec::new() }
    }

    /// At a member of a quorum, the longest TTL.
    fn longest(&self) -> Option<Ttl> {
        self.grants.first().and_then(Request::longest)
    }
}

fn attempts<To>(requests: &[Request<To>]) -> Vec<&Attempt> {
    requests.iter().map(|request| &request.attempt).collect()
}

fn grouped<To>(batch: Vec<Request<To>>) -> Vec<Group<To>> {
    // Mostly one script serves all.
    let mut groups: Vec<Group<To>> = Vec::with_capacity(1);
    for request in batch {
        let is_grant = request.run().is_some();
        let fits = |group: &Group<To>| {
            let first = group.grants.first().filter(|_| is_grant);
            group.slot == request.slot && first.is_none_or(|first| first.shares_script_with(&request))
        };
        let group = match groups.iter().position(fits) {
            Some(nth) => &mut groups[nth],
            None => {
                groups.push(Group::new(request.slot));
                groups.last_mut().expect("it was just added")
            }
        };
        if is_grant { group.grants.push(request) } else { group.releases.push(request) }
    }
    // Requests for keys with the same beginning have one fence key, and stand together.
    for group in &mut groups {
        group.grants.sort_by(|one, other| script::by_segment(&one.attempt, &other.attempt));
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

fn all_fail<To>(groups: Vec<Group<To>>, fault: &Fault, mut tell: impl FnMut(To, BatchResult)) {
    for group in groups {
        all_get(group.grants, group.releases, &Err(fault.clone()), &mut tell);
    }
}

fn all_get<To>(
    grants: Vec<Request<To>>,
    releases: Vec<Request<To>>,
    said: &BatchResult,
    tell: &mut impl FnMut(To, BatchResult),
) {
    grants.into_iter().chain(releases).for_each(|request| tell(request.to, said.clone()));
}

/// A caller that does not wait for the answer any more gives the attempt up, which undoes a grant.
fn answer(caller: Caller, said: BatchResult) {
    let _ = caller.send(said);
}
