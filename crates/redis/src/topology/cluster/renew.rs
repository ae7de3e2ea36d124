//! Renews leases at many nodes at once, and takes them again at members of a quorum.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use leasehold_core::{Attempt, Fault, HoldAnswer, call_limit};

use super::Cluster;
use super::way::HOPS;
use crate::redirect::{Node, Redirect};
use crate::requests::renew::Verb;

type Renewed = Result<HoldAnswer, Fault>;

/// Rounded up: people read it in errors.
fn in_millis(left: Duration) -> Duration {
    Duration::from_millis(u64::try_from(left.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}

/// A lease that is still to be renewed.
struct Open {
    nth: usize,
    slot: u16,
    /// The node to ask instead of the owner.
    aside: Option<Node>,
}

/// The result of asking one node.
struct Part {
    asked: Node,
    open: Vec<Open>,
    renewed: Vec<Renewed>,
    redirects: Vec<(usize, Redirect)>,
}

impl Cluster {
    /// One answer for each attempt, in one round trip to each node. A silent node delays the other
    /// nodes' answers by at most one call.
    pub(super) async fn keep(&self, attempts: &[Attempt], verb: Verb) -> Vec<Renewed> {
        let Some(limit) =
            attempts.iter().map(|attempt| call_limit(self.bounds.call_limit, attempt.ttl)).min()
        else {
            return Vec::new();
        };
        let unasked = Err(self.faults.passing("the cluster is moving the key"));
        let mut answers: Vec<Renewed> = vec![unasked; attempts.len()];
        let mut open = Vec::new();
        for (nth, attempt) in attempts.iter().enumerate() {
            match self.slot(&attempt.claim) {
                Ok(slot) => open.push(Open { nth, slot, aside: None }),
                Err(fault) => answers[nth] = Err(fault),
            }
        }
        let until = self.runtime.now() + limit;
        // After the last redirect the keeper asks again soon, and the leases that were answered are
        // renewed meanwhile.
        for _ in 0..=HOPS {
            let left = in_millis(until.saturating_since(self.runtime.now()));
            let places = join_all(open.iter().map(|one| self.place(one, left))).await;
            let mut parts: BTreeMap<_, Vec<Open>> = BTreeMap::new();
            for (one, place) in std::mem::take(&mut open).into_iter().zip(places) {
                match place {
                    Ok(place) => parts.entry(place).or_default().push(one),
                    Err(fault) => answers[one.nth] = Err(fault),
                }
            }
            let asking = parts.into_iter().map(|(place, open)| self.ask(attempts, verb, place, open, left));
            for part in join_all(asking).await {
                open.extend(self.sort(attempts, part, &mut answers));
            }
            if open.is_empty() || self.runtime.now() >= until {
                break;
            }
        }
        answers
    }

    /// The node to ask, and whether it needs `ASKING`.
    async fn place(&self, open: &Open, left: Duration) -> Result<(Node, bool), Fault> {
        if let Some(aside) = &open.aside {
            return Ok((aside.clone(), true));
        }
        let silent = || Err(self.faults.timed_out(format_args!("no answer within {left:?}")));
        let owner = self.runtime.within(left, self.owner(open.slot)).await.unwrap_or_else(silent)?;
        Ok((owner, false))
    }

    async fn ask(
        &self,
        attempts: &[Attempt],
        verb: Verb,
        (asked, asks): (Node, bool),
        open: Vec<Open>,
        left: Duration,
    ) -> Part {
        let client = self.client(&asked);
        let attempts: Vec<_> = open.iter().map(|open| attempts[open.nth].clone()).collect();
        let asking = async {
            let mut route = client.route(left).await?;
            route.asks = asks;
            let kept = client.keep_on(&attempts, verb, &mut route).await;
            Ok((kept, route.redirects))
        };
        let began = self.runtime.now();
        let silent = || {
            // The limit of the call itself began later, and so has not passed yet.
            client.drop_if_silent_since(began);
            Err(self.faults.timed_out(format_args!("{asked}: no answer within {left:?}")))
        };
        let (renewed, redirects) = self
            .runtime
            .within(left, asking)
            .await
            .unwrap_or_else(silent)
            .unwrap_or_else(|fault| (vec![Err(fault); attempts.len()], Vec::new()));
        Part { asked, open, renewed, redirects }
    }

    /// Keeps the answers, and returns the leases to ask for elsewhere.
    fn sort(&self, attempts: &[Attempt], part: Part, answers: &mut [Renewed]) -> Vec<Open> {
        let Part { asked, open, renewed, redirects } = part;
        let failed = renewed.iter().filter(|answer| answer.is_err()).count();
        if failed > redirects.len() {
            self.learn_later();
        }
        let mut redirects: BTreeMap<_, _> = redirects.into_iter().collect();
        let mut again = Vec::new();
        for (place, (mut one, answer)) in open.into_iter().zip(renewed).enumerate() {
            self.note_abstention(&asked, &attempts[one.nth], &answer);
            answers[one.nth] = answer;
            if let Some(redirect) = redirects.remove(&place) {
                let follows = !matches!(redirect, Redirect::Later | Redirect::Elsewhere);
                one.aside = self.redirected(one.slot, &asked, redirect);
                if follows {
                    again.push(one);
                }
            }
        }
        again
    }
}
