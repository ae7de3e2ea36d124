//! Keeping leases. Renewals are in batches, and those that batches leave one by one.

use std::time::Duration;

use leasehold_core::{Attempt, Fault, HoldAnswer};

use crate::client::{Client, Run};
use crate::connection::route::Route;
use crate::reply::held_in;
use crate::script::renew_call;

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
            Ok(mut route) => self.keep_on(attempts, verb, &mut route, limit).await,
            Err(fault) => vec![Err(fault); attempts.len()],
        }
    }

    pub(crate) async fn keep_on(
        &self,
        attempts: &[Attempt],
        verb: Verb,
        route: &mut Route,
        limit: Duration,
    ) -> Vec<Result<HoldAnswer, Fault>> {
        let kept = match verb {
            Verb::Renew => self.renew(attempts, route, limit).await,
            Verb::Rejoin => self.rejoin(attempts, route, limit).await,
        };
        kept.unwrap_or_else(|fault| vec![Err(fault); attempts.len()])
    }

    async fn renew(
        &self,
        attempts: &[Attempt],
        route: &mut Route,
        limit: Duration,
    ) -> Result<Vec<Result<HoldAnswer, Fault>>, Fault> {
        let run = self.run(attempts, route, limit).await?;
        let mut done = self.renew_in_batches(attempts, &run, route, limit).await?;
        // Redirected requests are asked elsewhere, and all others that batches left are served by
        // the script of a single request.
        let rest: Vec<_> = (0..attempts.len()).filter(|&nth| done[nth].is_none()).collect();
        self.renew_one_by_one(attempts, &rest, &run, &mut done, route, limit).await?;
        let answered = attempts.iter().zip(done).map(|(attempt, answer)| {
            let answer = answer.unwrap_or(Ok(HoldAnswer::Done));
            self.ask_again_after(attempt, &answer);
            answer
        });
        let mut answers: Vec<_> = answered.collect();
        self.confirm_held(route, &mut answers).await;
        Ok(answers)
    }

    async fn renew_one_by_one(
        &self,
        attempts: &[Attempt],
        rest: &[usize],
        run: &Run,
        done: &mut [Option<Result<HoldAnswer, Fault>>],
        route: &mut Route,
        limit: Duration,
    ) -> Result<(), Fault> {
        if rest.is_empty() {
            return Ok(());
        }
        let (window, asked) = (self.window(), self.asked(run));
        let calls: Vec<_> = rest.iter().map(|&nth| renew_call(&attempts[nth], window, asked)).collect();
        let before = route.redirects.len();
        let heard = self.call_all(route, &calls, limit).await?;
        for (place, _) in &mut route.redirects[before..] {
            *place = rest[*place];
        }
        for (&nth, heard) in rest.iter().zip(heard) {
            done[nth] = Some(self.read(heard, |value| held_in(value, &attempts[nth])));
        }
        Ok(())
    }
}
