//! Routes one request to the owner of its slot.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Backoff, Fault, Instant};

use super::Cluster;
use super::redirect::{Node, Redirect};
use crate::client::{Client, Route};

/// A slot with few keys has moved within milliseconds. The pauses grow to a length that is small
/// compared with a call's limit.
const RESTS: [u64; 5] = [2, 5, 10, 20, 40];

/// This many redirects in a row are followed without a pause: more than that means two nodes that
/// each consider the other the owner.
const HOPS: usize = 4;

/// Where a request was sent, and where it goes next.
pub(super) struct Way<'a> {
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

impl Cluster {
    /// A request about a slot, each try of which has this limit.
    pub(super) fn way(&self, slot: u16, limit: Duration) -> Way<'_> {
        let until = self.runtime.now() + limit;
        Way { cluster: self, slot, limit, until, asked: None, aside: None, hops: 0, rests: 0 }
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
            Redirect::Elsewhere => self.learn_later(),
            Redirect::Later => {}
        }
        None
    }
}

impl Way<'_> {
    pub(super) async fn next(&mut self) -> Result<(Arc<Client>, Route), Fault> {
        let aside = self.aside.take();
        let asks = aside.is_some();
        let node = match aside {
            Some(node) => node,
            None => self.cluster.owner(self.slot).await?,
        };
        let client = self.cluster.client(&node);
        let route = client.route(self.limit).await;
        self.asked = Some(node);
        let mut route = route.inspect_err(|_| self.cluster.learn_later())?;
        route.asks = asks;
        Ok((client, route))
    }

    pub(super) fn note_abstention<T>(&self, attempt: &Attempt, answer: &Result<T, Fault>) {
        if let Some(asked) = &self.asked {
            self.cluster.note_abstention(asked, attempt, answer);
        }
    }

    /// Returns true if the request should be tried again after a fault. A request that may have
    /// been executed is left to the caller, who knows what that means; this repeats only requests
    /// that were not executed.
    pub(super) async fn goes_on(&mut self, route: &mut Route) -> bool {
        let (Some((_, redirect)), Some(asked)) = (route.redirects.pop(), &self.asked) else {
            // The owner may have died, and another node may have replaced it.
            self.cluster.learn_later();
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
        let random = u64::try_from(self.cluster.runtime.random() >> 64).unwrap_or(0);
        let rest = Backoff::new(rest, rest).map_or(rest, |backoff| backoff.delay(0, random));
        if now + rest >= self.until {
            return false;
        }
        self.cluster.runtime.sleep_until(now + rest).await;
        true
    }
}
