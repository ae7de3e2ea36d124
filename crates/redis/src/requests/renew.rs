//! Keeping leases. Renewals are in batches, and those that batches leave one by one.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use leasehold_core::{Attempt, Fault, HoldAnswer, MOST_IN_BATCH, Ttl};

use crate::batch::Run;
use crate::client::Client;
use crate::connection::route::Route;
use crate::fault::{is_denied, leads_astray};
use crate::redirect::Redirect;
use crate::reply::held_in;
use crate::script::{Vouching, by_segment, read_done, renew_batch, renew_call};

/// How a lease is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Renew,
    /// At a member of a quorum, also by taking it again.
    Rejoin,
}

impl Client {
    /// One answer for each attempt, in one round trip.
    pub(crate) async fn keep(&self, attempts: &[Attempt], verb: Verb) -> Vec<Result<HoldAnswer, Fault>> {
        let Some(limit) = attempts.iter().map(|attempt| self.limit(attempt.ttl)).min() else {
            return Vec::new();
        };
        match self.route(limit).await {
            Ok(mut route) => self.keep_on(attempts, verb, &mut route).await,
            Err(fault) => vec![Err(fault); attempts.len()],
        }
    }

    pub(crate) async fn keep_on(
        &self,
        attempts: &[Attempt],
        verb: Verb,
        route: &mut Route,
    ) -> Vec<Result<HoldAnswer, Fault>> {
        let kept = match verb {
            Verb::Renew => self.renew(attempts, route).await,
            Verb::Rejoin => self.rejoin(attempts, route).await,
        };
        let mut answers = kept.unwrap_or_else(|fault| vec![Err(fault); attempts.len()]);
        // An attempt that lost what it was handed was not reached in time, so other waiters may have
        // been skipped too.
        let now = self.runtime.now();
        for (attempt, answer) in attempts.iter().zip(&answers) {
            if matches!(answer, Ok(HoldAnswer::NotHeld { .. })) {
                attempt.claim.keys().for_each(|key| self.shared.waiting.ask_for(key, now));
            }
        }
        self.confirm_held(route, &mut answers).await;
        answers
    }

    async fn renew(
        &self,
        attempts: &[Attempt],
        route: &mut Route,
    ) -> Result<Vec<Result<HoldAnswer, Fault>>, Fault> {
        let run = self.run(attempts, route).await?;
        let mut done = self.renew_in_batches(attempts, &run, route).await?;
        // Redirected requests are asked elsewhere, and all others that batches left are served by
        // the script of a single request.
        let rest: Vec<_> = (0..attempts.len()).filter(|&nth| done[nth].is_none()).collect();
        if !rest.is_empty() {
            let (window, asked) = (self.window(), self.asked(&run));
            let calls: Vec<_> = rest.iter().map(|&nth| renew_call(&attempts[nth], window, asked)).collect();
            let before = route.redirects.len();
            let heard = self.call_all(route, &calls).await?;
            for (place, _) in &mut route.redirects[before..] {
                *place = rest[*place];
            }
            for (&nth, heard) in rest.iter().zip(heard) {
                done[nth] = Some(self.read(heard, |value| held_in(value, &attempts[nth])));
            }
        }
        let left_out = || Err(self.faults.passing("it left a renewal unanswered"));
        Ok(done.into_iter().map(|answer| answer.unwrap_or_else(left_out)).collect())
    }

    /// Extends leases without waiters to their TTLs from now, in one round trip; others one by one.
    async fn renew_in_batches(
        &self,
        attempts: &[Attempt],
        run: &Run,
        route: &mut Route,
    ) -> Result<Vec<Option<Result<HoldAnswer, Fault>>>, Fault> {
        let mut done: Vec<_> = attempts.iter().map(|_| None).collect();
        if route.endpoint.batches.denied.load(Ordering::Relaxed) {
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
        let heard = self.call_all(route, &calls).await?;
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
                    route.endpoint.batches.denied.store(true, Ordering::Relaxed);
                }
                Err(_) => {}
            }
        }
        Ok(done)
    }
}
