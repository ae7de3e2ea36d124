//! Routes one request to the owner of its slot.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Backoff, Fault, Instant, Key, call_limit};

use super::Cluster;
use crate::client::Client;
use crate::connection::route::Route;
use crate::redirect::{Node, Redirect};
use crate::slot::slot_of;

/// A slot with few keys has moved within milliseconds. The pauses grow to a length that is small
/// compared with a call's limit.
const RESTS: [u64; 5] = [2, 5, 10, 20, 40];

/// This many redirects in a row are followed without a pause: more than that means two nodes that
/// each consider the other the owner.
pub(super) const HOPS: usize = 4;

/// The nodes of a request: the last one asked, and the next one.
struct Way<'a> {
    cluster: &'a Cluster,
    slot: u16,
    limit: Duration,
    /// After this, the caller is told that the slot is moving, and asks again.
    until: Instant,
    asked: Option<Node>,
    /// The node to ask instead of the owner, just once.
    aside: Option<Node>,
    hops: usize,
    rests: usize,
}

/// A request to a client, which returns the route with the redirects on it.
pub(super) trait Asks<T>: Future<Output = (Result<T, Fault>, Route)> + Send {}
impl<T, F: Future<Output = (Result<T, Fault>, Route)> + Send> Asks<T> for F {}

impl Cluster {
    pub(super) async fn at_owner<T, Asked: Asks<T>>(
        &self,
        key: &Key,
        ask: impl FnMut(Arc<Client>, Route) -> Asked,
    ) -> Result<T, Fault> {
        self.follow(slot_of(key.as_bytes()), self.bounds.call_limit, None, ask).await
    }

    /// Asks the owner of the slot of an attempt's keys.
    pub(super) async fn for_attempt<T, Asked: Asks<T>>(
        &self,
        attempt: &Attempt,
        ask: impl FnMut(Arc<Client>, Route) -> Asked,
    ) -> Result<T, Fault> {
        let limit = call_limit(self.bounds.call_limit, attempt.ttl);
        self.follow(self.slot(&attempt.claim)?, limit, Some(attempt), ask).await
    }

    /// Asks the owner of a slot, and follows redirects: each try is a new request, and has this
    /// limit. A node that abstains from the requests of this attempt's quorum is noted.
    ///
    /// A request that may have been executed is left to the caller, who knows what that means; this
    /// repeats only requests that were not executed.
    pub(super) async fn follow<T, Asked: Asks<T>>(
        &self,
        slot: u16,
        limit: Duration,
        attempt: Option<&Attempt>,
        mut ask: impl FnMut(Arc<Client>, Route) -> Asked,
    ) -> Result<T, Fault> {
        let until = self.runtime.now() + limit;
        let mut way = Way { cluster: self, slot, limit, until, asked: None, aside: None, hops: 0, rests: 0 };
        loop {
            let (client, route) = way.next().await.map_err(Fault::unsent)?;
            let (answer, mut route) = ask(client, route).await;
            if let (Some(attempt), Some(asked)) = (attempt, &way.asked) {
                self.note_abstention(asked, attempt, &answer);
            }
            if answer.is_ok() || !way.goes_on(&mut route).await {
                return answer;
            }
        }
    }

    /// Handles a node's answer about one of its slots. Returns the node to ask instead, if that is
    /// not the owner.
    pub(super) fn redirected(&self, slot: u16, asked: &Node, redirect: Redirect) -> Option<Node> {
        let place = |node: Node| match &*node.host {
            "" => Node { host: asked.host.clone(), ..node },
            _ => node,
        };
        match redirect {
            Redirect::Moved(owner) => self.moved(slot, &place(owner)),
            Redirect::Ask(node) => return Some(place(node)),
            Redirect::Elsewhere => {
                self.doubt(Some(asked));
                self.learn_later();
            }
            Redirect::Later => {}
        }
        None
    }
}

impl Way<'_> {
    async fn next(&mut self) -> Result<(Arc<Client>, Route), Fault> {
        let aside = self.aside.take();
        let asks = aside.is_some();
        let mut node = match aside {
            Some(node) => node,
            None => self.cluster.owner(self.slot).await?,
        };
        loop {
            let client = self.cluster.client(&node);
            let route = tokio::select! {
                biased;
                route = client.route(self.limit) => route,
                // The owner hangs, and another node has taken its place.
                other = self.cluster.replaced(self.slot, &node), if !asks => {
                    node = other;
                    continue;
                }
            };
            match route {
                Ok(mut route) => {
                    self.asked = Some(node);
                    route.asks = asks;
                    return Ok((client, route));
                }
                Err(fault) => node = self.instead_of(&node, asks).await.ok_or(fault)?,
            }
        }
    }

    /// The node that has taken the place of one that could not be reached.
    async fn instead_of(&mut self, node: &Node, asks: bool) -> Option<Node> {
        self.hops += 1;
        if asks || self.hops > HOPS {
            return None;
        }
        let cluster = self.cluster;
        cluster.runtime.within(self.limit, cluster.other_owner(self.slot, node)).await.flatten()
    }

    /// Returns true if the request should be tried again after a fault.
    async fn goes_on(&mut self, route: &mut Route) -> bool {
        let (Some((_, redirect)), Some(asked)) = (route.redirects.pop(), &self.asked) else {
            return false;
        };
        let follows = matches!(redirect, Redirect::Moved(_) | Redirect::Ask(_)) && self.hops < HOPS;
        self.aside = self.cluster.redirected(self.slot, asked, redirect);
        self.hops += 1;
        follows || self.rest().await
    }

    async fn rest(&mut self) -> bool {
        let now = self.cluster.runtime.now();
        let rest = Duration::from_millis(RESTS[self.rests.min(RESTS.len() - 1)]);
        self.rests += 1;
        let random = self.cluster.runtime.random_bits();
        let rest = Backoff::new(rest, rest).map_or(rest, |backoff| backoff.delay(0, random));
        if now + rest >= self.until {
            return false;
        }
        self.cluster.runtime.sleep_until(now + rest).await;
        true
    }
}
