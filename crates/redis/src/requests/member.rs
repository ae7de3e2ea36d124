//! Serving a quorum: the run of the server, and the requests to a member.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use leasehold_core::{Attempt, BatchServed, Fault, HoldAnswer, RaiseAnswer, Ttl, locked};
use redis::cmd;

use crate::batch::{BatchAnswer, Run};
use crate::client::{Client, Source};
use crate::connection::route::Route;
use crate::reply::{held_in, raise_in, run_of};
use crate::script::{Asked, raise_call, rejoin_call, vouch_call};

impl Client {
    /// This store, as a request needs to know it.
    pub(crate) fn asked<'a>(&self, run: &'a Run) -> Asked<'a> {
        let is_member = self.shared.is_member.load(Ordering::Relaxed);
        Asked { run: run.as_deref(), is_member, by_slot: self.is_node() }
    }

    /// The same for a request that no run has to vouch for.
    pub(crate) fn asked_alone(&self) -> Asked<'static> {
        Asked { run: None, ..self.asked(&None) }
    }

    /// Finds out the run of the route's server, once for each connection, and only for a quorum.
    ///
    /// It must be known before the request is sent, and on the same connection. A restart of the
    /// server in between closes that connection, so no request names an old run to a new server.
    pub(crate) async fn run(&self, attempts: &[Attempt], route: &mut Route) -> Result<Run, Fault> {
        if attempts.iter().all(|attempt| attempt.proposal.is_none()) {
            return Ok(None);
        }
        self.run_at(route).await
    }

    async fn run_at(&self, route: &mut Route) -> Result<Run, Fault> {
        match route.live().and_then(|live| live.run.get()) {
            Some(run) => Ok(self.vouched_by(run)),
            None => Box::pin(self.ask_run(route)).await,
        }
    }

    /// Asked even if no run vouches for leases (`quarantine=no`): a server with two URLs must not
    /// be counted twice.
    async fn ask_run(&self, route: &mut Route) -> Result<Run, Fault> {
        let Some(live) = route.live().cloned() else {
            return Err(self.faults.lasting(
                "a connection that was lent may lead to another server by the next call, and so to no member of a quorum: \
                 name the server by its URL",
            ));
        };
        let heard = self.say_once(route, cmd("INFO").arg("server"), route.limit).await?;
        let value = heard.map_err(|refusal| self.faults.of_refusal(&refusal))?;
        let run = run_of(&value).ok_or_else(|| {
            self.faults.lasting(
                "the server does not tell its run_id (INFO server), so nobody would notice that it was restarted \
                 without its leases, or that another URL leads to it, too: name the server itself and no proxy, or \
                 leave it out of the quorum",
            )
        })?;
        *locked(&self.identity) = Some(Arc::clone(&run));
        Ok(self.vouched_by(live.run.get_or_init(|| run)))
    }

    fn vouched_by(&self, run: &Arc<str>) -> Run {
        self.quarantine.then(|| Arc::clone(run))
    }

    /// Grants and releases different keys in one round trip.
    pub(crate) async fn serve_batch(
        &self,
        grants: &[&Attempt],
        releases: &[&Attempt],
    ) -> Result<BatchServed, Fault> {
        let all = || grants.iter().chain(releases).copied();
        let limit = all().map(|attempt| self.limit(attempt.ttl)).min().unwrap_or(self.call_limit);
        let mut route = self.route(limit).await?;
        let mut run = None;
        if let Some(first) = grants.first() {
            run = self.run(std::slice::from_ref(*first), &mut route).await?;
            self.reading(&mut route).await?;
        }
        for attempt in releases {
            self.leave(attempt);
        }
        let mut served =
            BatchServed { granted: vec![None; grants.len()], released: vec![false; releases.len()] };
        let (mut last_heard, mut refused, mut failed) = (None, Vec::new(), None);
        let (id, grant_count) = (route.id(), grants.len());
        let tell = |nth: usize, said| match said {
            Ok(BatchAnswer::Granted { fence, heard }) => {
                (served.granted[nth], last_heard) = (Some(fence), Some(heard));
            }
            Ok(BatchAnswer::Released { sent }) => {
                let attempt = releases[nth - grant_count];
                served.released[nth - grant_count] = true;
                if let Some(settles_at) = self.shared.unsettled.released(attempt.holder, id, sent) {
                    self.give_up_later(attempt.clone(), settles_at);
                }
            }
            Ok(BatchAnswer::Refused(refusal)) => refused.push(refusal),
            Ok(BatchAnswer::TooLate { .. } | BatchAnswer::Other) => {}
            Err(fault) => failed = Some(fault),
        };
        self.ask_all_in_batch(grants, &run, releases, &route, tell).await;
        if let Some(fault) = failed {
            return Err(fault);
        }
        for refusal in refused {
            self.is_served_singly(&mut route, &refusal)?;
        }
        if let Some((heard, confirmation)) = last_heard.zip(self.confirmation)
            && let Err(fault) = self.confirm(confirmation, &mut route, heard).await
        {
            if releases.is_empty() {
                return Err(fault);
            }
            // The releases are done. Each grant is made and confirmed again, alone.
            served.granted.fill(None);
        }
        Ok(served)
    }

    pub(super) async fn rejoin(
        &self,
        attempts: &[Attempt],
        route: &mut Route,
    ) -> Result<Vec<Result<HoldAnswer, Fault>>, Fault> {
        let run = self.run(attempts, route).await?;
        let (reading, sent) = self.reading(route).await?;
        let not_after = reading.latest(sent) + route.limit;
        let settles_at = reading.surely_past(not_after);
        let (window, asked) = (self.window(), self.asked(&run));
        let call = |attempt| rejoin_call(attempt, Some(not_after), window, asked);
        let calls: Vec<_> = attempts.iter().map(call).collect();
        // Like a grant, each may create a holder as long as it is not answered.
        let sending =
            |attempt: &Attempt| self.shared.unsettled.sending(attempt.holder, route.id(), sent, settles_at);
        let sendings: Vec<_> = attempts.iter().map(sending).collect();
        let heard = self.call_all(route, &calls).await?;
        self.shared.unsettled.answered(sendings);
        let answers = attempts.iter().zip(heard);
        Ok(answers.map(|(attempt, heard)| self.read(heard, |value| held_in(value, attempt))).collect())
    }

    pub(crate) async fn raise(&self, attempt: &Attempt, route: &mut Route) -> Result<RaiseAnswer, Fault> {
        let run = self.run(std::slice::from_ref(attempt), route).await?;
        let call = raise_call(attempt, self.window(), self.asked(&run));
        let answer = self.ask(route, &call, |value| raise_in(value, attempt)).await?;
        if let (RaiseAnswer::Raised { .. }, Some(confirmation)) = (&answer, self.confirmation) {
            self.confirm(confirmation, route, self.runtime.now()).await?;
        }
        Ok(answer)
    }

    /// Makes the server abstain for these slots from now on, if it has to. So it is ready by the
    /// time when they are first requested.
    pub(crate) async fn vouch(&self, slots: &[u16], longest: Ttl) -> Result<(), Fault> {
        /// That many keep a node busy for a fraction of a millisecond.
        const AT_ONCE: usize = 100;
        let mut route = self.any_route().await?;
        let run = self.run_at(&mut route).await?;
        let Some(run) = run else { return Ok(()) };
        for slots in slots.chunks(AT_ONCE) {
            let calls: Vec<_> = slots.iter().map(|slot| vouch_call(*slot, &run, longest)).collect();
            // A slot that has moved meanwhile is vouched for elsewhere, when it is requested.
            self.call_all(&mut route, &calls).await?;
        }
        Ok(())
    }

    /// What distinguishes the server from all others, whatever its name, if it is known.
    pub(crate) fn identity(&self) -> Option<Arc<str>> {
        match &self.source {
            Source::Ours(_) => locked(&self.identity).clone(),
            Source::Lent { .. } => None,
        }
    }
}
