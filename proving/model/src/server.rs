//! A store: `apply` over its records, and the connections on which it can send pushes. A rule is
//! left out by changing its records before or after a request is applied.

use std::hash::{Hash, Hasher};

use leasehold_core::{
    Answer, ApplyContext, Attempt, Channel, Content, Family, Fence, HoldAnswer, Holder, Key, Lock, Mode,
    PushEvent, Records, Request, Served, Share, Shares, Stamp, Subscribers, Ttl, Unclaimed, WaitQueue, apply,
};

use crate::Flaw;
use crate::name::Now;

/// The value of a lock that hides that a key is free.
const HIDDEN: &[u8] = b"hidden";

/// An open connection, as far as the store knows: its process, its number, and its channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Listener {
    pub(crate) process: usize,
    pub(crate) connection: u64,
    pub(crate) channel: Channel,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    pub(crate) records: Records,
    pub(crate) listeners: Listeners,
    /// Shares that a store keeps only if it lacks a rule.
    kept: Shares,
    miscounted: bool,
}

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Listeners(pub(crate) Vec<Listener>);

impl Subscribers for Listeners {
    fn listens(&self, channel: &Channel) -> bool {
        self.0.iter().any(|listener| listener.channel == *channel)
    }
}

impl Hash for Server {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Records { locks, shares, fences, queues, .. } = &self.records;
        (locks, shares, fences, queues, &self.listeners, &self.kept, self.miscounted).hash(state);
    }
}

impl Server {
    /// Applies a request, with or without that rule.
    pub(crate) fn serve(
        &mut self,
        mut request: Request,
        now: Now,
        floor: Fence,
        window: Ttl,
        flaw: Option<Flaw>,
    ) -> Served {
        let before = flaw.map(|flaw| (flaw, self.records.clone()));
        if let Some(flaw) = flaw {
            self.flawed_before(flaw, &mut request, now.stamp());
        }
        let floor =
            if flaw == Some(Flaw::FenceWithoutFloor) { Fence::new(1).unwrap_or(floor) } else { floor };
        let context = ApplyContext::new(now.stamp(), floor)
            .with_window(window.duration())
            .with_subscribers(&self.listeners);
        let asked = before.is_some().then(|| request.clone());
        let mut served = apply(&mut self.records, request, &context);
        assert!(served.unfinished.is_empty(), "nothing is left to clean up in so small a world");
        if let Some(((flaw, before), request)) = before.zip(asked) {
            self.flawed_after(flaw, &before, &request, &mut served, floor, now.stamp(), window);
        }
        served
    }

    /// Removes ended entries. This changes no answer, because they count as absent.
    pub(crate) fn forget_ended(&mut self, now: Now) {
        self.records.forget_ended(now.stamp());
    }

    /// Removes everything except the connections.
    pub(crate) fn forget_everything(&mut self) {
        self.records = Records::default();
        self.kept = Shares::default();
    }

    /// Deletes the key if its value says that nobody waits for this holder. Returns true if it did.
    pub(crate) fn delete_if_equal(&mut self, key: &Key, of: Holder, now: Now) -> bool {
        let is_equal = |lock: &Lock| matches!(lock.content, Content::Lease { holder, awaited: false, .. } if holder == of);
        let is_there = self.records.lock(key, now.stamp()).is_some_and(is_equal);
        if is_there {
            self.records.locks.remove(key);
        }
        is_there
    }

    fn flawed_before(&mut self, flaw: Flaw, request: &mut Request, now: Stamp) {
        let records = &mut self.records;
        let Some((attempt, key)) = concerned(request) else {
            if let (Flaw::BreaksWhatIsThere, Request::Break { key, lease }) = (flaw, request) {
                lease.fence = records.fence(key, now).unwrap_or(lease.fence);
            }
            return;
        };
        let ours = |records: &Records| records.holder_ids(&key, now).contains(&attempt.holder);
        match (flaw, &mut *request) {
            (Flaw::ReleaseWithoutCompare, Request::Release(attempt)) => {
                attempt.holder = records.holder_ids(&key, now).first().copied().unwrap_or(attempt.holder);
            }
            (Flaw::RenewalShortens, Request::Renew(_)) | (Flaw::GrantShortens, Request::Grant { .. })
                if ours(records) =>
            {
                let lock = records.locks.get_mut(&key);
                lock.into_iter().for_each(|lock| lock.ends = Some(Stamp::from_micros(now.as_micros() + 1)));
            }
            // While something else is at the key, no waiter is granted it.
            (Flaw::OnlyTheOwnerHandsOn, Request::Grant { .. } | Request::Renew(_) | Request::Release(_))
                if !ours(records)
                    && records.lock(&key, now).is_none()
                    && records.queue(&key, now).is_some() =>
            {
                records.locks.insert(key, Lock::new(Content::Foreign(HIDDEN.into()), None));
            }
            (Flaw::PassesTheQueue, Request::Grant { .. }) => drop(records.queues.remove(&key)),
            (Flaw::WriterIgnoresReaders, Request::Grant { .. })
                if attempt.claim.wants()[0].mode == Mode::Exclusive =>
            {
                let is_shared = |lock: &&mut Lock| matches!(lock.content, Content::Marker(_));
                if records.locks.get_mut(&key).filter(is_shared).is_some() {
                    records.locks.remove(&key);
                }
            }
            (Flaw::PermitsUncounted, Request::Grant { .. }) => change_weights(records, &key, 0),
            (Flaw::SharesOutliveTheMarker, Request::Grant { .. }) => {
                if let Some(shares) = records.shares.get(&key).filter(|_| records.lock(&key, now).is_none()) {
                    self.kept = shares.clone();
                }
            }
            _ => {}
        }
    }

    #[expect(clippy::too_many_arguments, reason = "all of what was served, and how")]
    fn flawed_after(
        &mut self,
        flaw: Flaw,
        before: &Records,
        request: &Request,
        served: &mut Served,
        floor: Fence,
        now: Stamp,
        window: Ttl,
    ) {
        let Some((attempt, key)) = concerned(request) else { return };
        let holder = attempt.holder;
        let records = &mut self.records;
        let queue_before = before.queue(&key, now);
        let unclaimed = |line: Option<&WaitQueue>| line.and_then(WaitQueue::unclaimed).cloned();
        let handed = served.pushes.iter().any(|push| matches!(push.event, PushEvent::Granted { .. }));
        match flaw {
            Flaw::RenewalTakes => {
                let free = matches!(served.answer, Answer::Renew(HoldAnswer::NotHeld { .. }))
                    && records.lock(&key, now).is_none();
                if free {
                    let content = Content::Lease { holder, fence: None, label: None, awaited: false };
                    records.locks.insert(key, Lock::new(content, Some(now + attempt.ttl.duration())));
                    served.answer = Answer::Renew(HoldAnswer::Done);
                }
            }
            Flaw::RenewalDropsTheMark if matches!(request, Request::Renew(_)) => drop_the_mark(records, &key),
            Flaw::HandOverDropsTheMark if handed => drop_the_mark(records, &key),
            Flaw::MarksAStranger if matches!(request, Request::Grant { .. }) => {
                if let Some(Lock { content: Content::Foreign(value), .. }) = records.locks.get_mut(&key) {
                    *value = b"marked"[..].into();
                }
            }
            Flaw::ReleaseStaysQueued if matches!(request, Request::Release(_)) => {
                let stood = queue_before.into_iter().flat_map(WaitQueue::waiters);
                if let Some((ticket, waiter)) = stood.filter(|(_, it)| it.holder == holder).last() {
                    let line = records.queues.entry(key).or_default();
                    line.join(waiter.clone(), Some(ticket), now);
                    line.keep_until(now + WaitQueue::KEPT_FOR);
                }
            }
            Flaw::TrustsTheCountOfThePush if handed && !self.miscounted => {
                self.miscounted = true;
                records.locks.remove(&key);
                let context = ApplyContext::new(now, floor)
                    .with_window(window.duration())
                    .with_subscribers(&self.listeners);
                served.pushes.extend(apply(records, Request::Advance(vec![key]), &context).pushes);
            }
            Flaw::OnlyTheOwnerHandsOn => {
                records.locks.retain(|_, lock| lock.content != Content::Foreign(HIDDEN.into()));
            }
            Flaw::NoUnclaimedRecord => rebuild(records, &key, |_| None, None),
            Flaw::ClaimLeavesTheRecord => {
                let kept = unclaimed(queue_before).filter(|it| it.holder == holder);
                rebuild(records, &key, |now| now.or(kept), None);
            }
            Flaw::SiblingsAreStruckAllTheSame => {
                let asks_at = match request {
                    Request::Grant { wait: Some(wait), .. } => wait.channel.clone(),
                    _ => None,
                };
                let kept = unclaimed(queue_before).filter(|it| it.holder != holder && it.channel == asks_at);
                rebuild(records, &key, |now| now.or(kept), None);
            }
            Flaw::StrikeStays => rebuild(records, &key, |now| now, queue_before),
            Flaw::PassesTheQueue => {
                if let (Some(line), Request::Grant { .. }) = (queue_before, request) {
                    let joined = records.queues.remove(&key);
                    let mut line = line.clone();
                    line.leave(holder);
                    for (_, waiter) in joined.iter().flat_map(WaitQueue::waiters) {
                        line.join(waiter.clone(), None, now);
                    }
                    records.queues.insert(key, line);
                }
            }
            Flaw::PermitsUncounted => change_weights(records, &key, 1),
            Flaw::SharesOutliveTheMarker => revive(&mut self.kept, records, &key, now),
            _ => {}
        }
    }
}

/// All holders and waiters.
pub(crate) fn known(records: &Records, now: Now) -> impl Iterator<Item = Holder> {
    let held = records.locks.keys().flat_map(move |key| records.holder_ids(key, now.stamp()));
    let waiters = records.queues.values().flat_map(WaitQueue::waiters);
    held.chain(waiters.map(|(_, waiter)| waiter.holder))
}

/// The attempt of a request, and its first key.
fn concerned(request: &Request) -> Option<(Attempt, Key)> {
    let attempt = request.attempt()?;
    Some((attempt.clone(), attempt.claim.first_key().clone()))
}

/// Forgets that somebody waits for the lease.
fn drop_the_mark(records: &mut Records, key: &Key) {
    if let Some(Lock { content: Content::Lease { awaited, .. }, .. }) = records.locks.get_mut(key) {
        *awaited = false;
    }
}

fn change_weights(records: &mut Records, key: &Key, weight: u32) {
    let Some(shares) = records.shares.get_mut(key) else { return };
    let holders: Vec<_> = shares.all().map(|(holder, _)| holder).collect();
    holders.into_iter().for_each(|holder| shares.change(holder, |share| share.weight = weight));
}

/// Restores the shares of readers whose marker was deleted, once another reader's marker is there.
fn revive(kept: &mut Shares, records: &mut Records, key: &Key, now: Stamp) {
    let is_marked =
        records.lock(key, now).is_some_and(|lock| lock.content == Content::Marker(Family::Shared));
    let Some(shares) = records.shares.get_mut(key).filter(|_| is_marked) else { return };
    let lost: Vec<(Holder, Share)> = kept.all().map(|(holder, share)| (holder, share.clone())).collect();
    for (holder, share) in lost.into_iter().filter(|(_, share)| now < share.ends) {
        if shares.of(holder).is_none() {
            shares.put(holder, share);
        }
    }
}

/// Rebuilds a key's queue with another unclaimed record, and another queue's unresponsive channels.
fn rebuild(
    records: &mut Records,
    key: &Key,
    unclaimed: impl FnOnce(Option<Unclaimed>) -> Option<Unclaimed>,
    unresponsive: Option<&WaitQueue>,
) {
    let old = records.queues.remove(key).unwrap_or_default();
    let mut line = WaitQueue::default();
    for (ticket, waiter) in old.waiters() {
        line.join(waiter.clone(), Some(ticket), Stamp::from_micros(0));
    }
    old.unresponsive()
        .chain(unresponsive.into_iter().flat_map(WaitQueue::unresponsive))
        .for_each(|channel| line.set_unresponsive(channel.clone()));
    if let Some(ends) = old.ends() {
        line.keep_until(ends);
    }
    if let Some(it) = unclaimed(old.unclaimed().cloned()) {
        line.hand_to(it.holder, it.channel);
    }
    if line != WaitQueue::default() {
        records.queues.insert(key.clone(), line);
    }
}
