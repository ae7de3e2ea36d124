//! The same question to all sentinels at once.

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use leasehold_core::{Fault, majority_of};

use super::{SentinelReply, Sentinels};
use crate::address::server::ServerAddr;

type Reply = Result<SentinelReply, Fault>;

/// The sentinels that are being asked, and the replies so far.
pub(super) struct Poll<'a> {
    asked: FuturesUnordered<BoxFuture<'a, (usize, Reply)>>,
    replies: Vec<Option<Reply>>,
}

impl Sentinels {
    pub(super) fn poll(&self) -> Poll<'_> {
        let asked = |nth| -> BoxFuture<'_, _> { Box::pin(async move { (nth, self.reply_of(nth).await) }) };
        let asked = (0..self.addrs.len()).map(asked).collect();
        Poll { asked, replies: self.addrs.iter().map(|_| None).collect() }
    }
}

impl Poll<'_> {
    /// The reply of one sentinel.
    pub(super) async fn reply(&mut self, nth: usize) -> Reply {
        loop {
            if let Some(reply) = &self.replies[nth] {
                return reply.clone();
            }
            self.next().await;
        }
    }

    /// The master that a majority of the sentinels names, as soon as it is known.
    pub(super) async fn majority(&mut self) -> Option<ServerAddr> {
        while self.named_by_most().is_none() && self.next().await {}
        self.named_by_most().cloned()
    }

    /// The master that a majority names, or else the first that one names, in the order of the URL
    /// from this sentinel on.
    pub(super) async fn master(mut self, from: usize) -> Option<ServerAddr> {
        if let Some(master) = self.majority().await {
            return Some(master);
        }
        self.replies.rotate_left(from);
        self.named().next().cloned()
    }

    /// How many different masters are named.
    pub(super) fn count_named(&self) -> u32 {
        let is_new = |(nth, master): &(usize, _)| !self.named().take(*nth).any(|other| other == *master);
        u32::try_from(self.named().enumerate().filter(is_new).count()).unwrap_or(u32::MAX)
    }

    /// A sentinel that has named this master.
    pub(super) fn who_names(&self, master: &ServerAddr) -> Option<usize> {
        let names =
            |reply: &Option<_>| matches!(reply, Some(Ok(SentinelReply::Master(addr))) if addr == master);
        self.replies.iter().position(names)
    }

    fn named_by_most(&self) -> Option<&ServerAddr> {
        let count = |master| self.named().filter(|&other| other == master).count();
        self.named().find(|&master| count(master) >= majority_of(self.replies.len()))
    }

    fn named(&self) -> impl Iterator<Item = &ServerAddr> {
        self.replies.iter().filter_map(|reply| match reply {
            Some(Ok(SentinelReply::Master(addr))) => Some(addr),
            _ => None,
        })
    }

    /// Waits for one more reply. False if there are all.
    async fn next(&mut self) -> bool {
        let Some((nth, reply)) = self.asked.next().await else { return false };
        self.replies[nth] = Some(reply);
        true
    }
}
