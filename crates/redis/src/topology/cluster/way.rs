//! The way of one request to whoever owns its slot.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Attempt, Backoff, Fault, Instant};

use super::Cluster;
use super::redirect::{Node, Redirect};
use crate::client::{Client, Route};

/// A slot that is on its way is there in milliseconds where few keys are in it. The rests grow to what is small beside a call's limit.
const RESTS: [u64; 5] = [2, 5, 10, 20, 40];

/// So many redirects in a row are followed without a rest: more is two nodes that each take the other for the owner.
const HOPS: usize = 4;

/// Where a request was sent, and where it goes next.
pub(super) struct Way<'a> {
    cluster: &'a Cluster,
    slot: u16,
    limit: Duration,
    /// Past this, whoever asked is told that the slot is on its way, and asks again by itself.
    until: Instant,
    asked: Option<Node>,
    /// Where to ask in place of the owner, just once.
    aside: Option<Node>,
    hops: usize,
    rests: usize,
}

impl Cluster {
    /// A request about a slot, of which each try may take so long.
    pub(super) fn way(&self, slot: u16, limit: Duration) -> Way<'_> {
        let until = self.runtime.now() + limit;
        Way { cluster: self, slot, limit, until, asked: None, aside: None, hops: 0, rests: 0 }
    }

    /// What a node said about one of its slots; what is to be asked in its place, if that is another node than the owner.
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

    /// Whether it is worth going on after a fault. A request that may have been done is left to whoever asked, who knows what that
    /// means; here only what was not done is asked again.
    pub(super) async fn goes_on(&mut self, route: &mut Route) -> bool {
        let (Some((_, redirect)), Some(asked)) = (route.redirects.pop(), &self.asked) else {
            // The owner may have died, and another taken its place.
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
