//! Breaking a lease at the members, and handling reports of breaks.
//!
//! Each member knows the attempt under a separate id, and with the fence that it answered last,
//! which differs from the agreed fence at a member that was slow when the fence was agreed. So the
//! attempt is looked up first, and then broken at each member with the fence found there. All of them
//! record the agreed fence, the only one that the holder and its adopters know.
//!
//! Renewals take a lease again at a member that does not have it (`keeping`), but this must not
//! restore a broken lease. So where the member had the lease at its last answer, the lease is only
//! renewed. If the member has not answered since, answers that it has lost the lease, or a message
//! reports a break, the member's record of breaks is read first. The message alone proves nothing,
//! because anybody who may publish may have sent it.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use leasehold_core::{
    AdminStore, Ballot, BoxFuture, BreakAnswer, BreakRecord, Diagnosis, Fault, Fence, HoldAnswer, HolderInfo,
    Key, KeyState, LeaseBreak, Stamp, Store, StoreFuture, StoreRole, Vote, shown_by_a_majority,
};
use tokio::sync::mpsc::unbounded_channel;

use super::QuorumStore;
use super::diagnosing;
use super::looking::{MANY_KEYS_LIMIT, agreed_fence, all_say, asked, held_by_a_majority};
use super::state::QuorumState;

impl AdminStore for QuorumStore {
    fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<_> =
            self.quorum.members.iter().flat_map(|member| member.store.warnings()).collect();
        warnings.extend(self.quorum.one_for_nothing().map(|what| format!("{what}: use an odd number")));
        warnings
    }

    /// Ends the lease with this fence, at all members that answer. The break is done once a
    /// majority of them has broken it: then no majority can renew it. A member that does not have
    /// the lease does not count, because the holder's next renewal may take the lease there, unless
    /// its record says that this lease was broken there before.
    ///
    /// After an earlier try that broke the lease at some members, too few may show it while another
    /// one is down, although a majority can still renew it. So the votes decide, and not the
    /// look-up. But if a majority shows another fence for the same holder, a fence that fewer members
    /// show breaks nothing: it may have been the fence of an earlier lease.
    fn break_lease<'a>(&'a self, key: &'a Key, lease: &'a LeaseBreak) -> StoreFuture<'a, BreakAnswer> {
        Box::pin(async move {
            let (quorum, fence) = (&self.quorum, lease.fence);
            let look = |store: Arc<dyn Store>, key| async move { store.inspector()?.inspect(&key).await };
            let (seen, answered) = asked(quorum, quorum.look_limit(), key, look).await;
            quorum.verdict(&answered, "answered")?;
            let states: Vec<_> = seen.iter().flatten().cloned().collect();
            let silent = quorum.members.len() - states.len();
            let mut holders = held_by_a_majority(&states, quorum.majority(), silent);
            let is_named = |held: &HolderInfo| held.fence == Some(fence);
            let held = match holders.iter().position(is_named) {
                Some(named) => Some(holders.swap_remove(named)),
                None => {
                    let all: Vec<_> = states.iter().flat_map(|state| &state.holders).collect();
                    let is_open = |held| agreed_fence(&all, held, quorum.majority()).is_none();
                    all.iter().find(|held| is_named(held) && is_open(held)).map(|held| (*held).clone())
                }
            };
            let (tell, mut heard) = unbounded_channel();
            let mut ballot = Ballot::new(quorum.members.len());
            for (n, state) in seen.into_iter().enumerate() {
                let its = held.as_ref().and_then(|held| fence_at(&state?, held));
                let store = quorum.members[n].store.clone();
                let does = match &held {
                    Some(held) => end(store, its, held.clone(), lease.clone()),
                    None => was_broken(store, key.clone(), fence),
                };
                quorum.call(quorum.look_limit(), n, |_| false, does, quorum.answers_to(n, &tell));
            }
            drop(tell);
            while ballot.vote() == Vote::Open {
                let Some((member, answer)) = heard.recv().await else { break };
                ballot.handle(member, answer);
            }
            match (quorum.verdict(&ballot, "broke the lease")?, held) {
                (HoldAnswer::Done, Some(holding)) => Ok(BreakAnswer::Broken { holding }),
                _ => Ok(BreakAnswer::NotHeld { held_by: holders.pop() }),
            }
        })
    }

    /// The latest break that a majority of the members remembers; without one, that any of them does.
    fn last_break<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, Option<BreakRecord>> {
        Box::pin(async move {
            let look = |store: Arc<dyn Store>, key| async move { store.admin()?.last_break(&key).await };
            let records = all_say(&self.quorum, self.quorum.look_limit(), key, look).await?;
            Ok(latest(&self.quorum, records.into_iter().flatten().collect()))
        })
    }

    /// The same for all keys with this prefix.
    fn list_breaks<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<BreakRecord>> {
        Box::pin(async move {
            let look = |store: Arc<dyn Store>, prefix: Vec<u8>| async move {
                store.admin()?.list_breaks(&prefix).await
            };
            let mut by_key: BTreeMap<Key, Vec<BreakRecord>> = BTreeMap::new();
            let listed = all_say(&self.quorum, MANY_KEYS_LIMIT, prefix, look).await?;
            for broken in listed.into_iter().flatten() {
                by_key.entry(broken.key.clone()).or_default().push(broken);
            }
            Ok(by_key.into_values().filter_map(|records| latest(&self.quorum, records)).collect())
        })
    }

    /// Each member, and then the problems that only show when all members are compared.
    fn diagnose(&self, _: StoreRole) -> BoxFuture<'_, Diagnosis> {
        Box::pin(diagnosing::diagnose(&self.quorum))
    }
}

/// The fence of a holding at the member that shows this state.
fn fence_at(state: &KeyState, held: &HolderInfo) -> Option<Fence> {
    state.holders.iter().find(|one| one.owner.is_same(&held.owner))?.fence
}

/// Ends a holding at one member by its fence there, which is looked up if it is not known: the agreed
/// fence may name another holding there. It may rise meanwhile, to the agreed fence.
fn end(
    store: Arc<dyn Store>,
    mut its: Option<Fence>,
    held: HolderInfo,
    lease: LeaseBreak,
) -> StoreFuture<'static, HoldAnswer> {
    /// The fence is raised once per round; more tries mean that somebody keeps asking again.
    const TRIES: u32 = 3;
    Box::pin(async move {
        let key = held.key.clone();
        for _ in 0..TRIES {
            if let Some(fence) = its {
                let there = LeaseBreak { fence, ..lease.clone() };
                if let BreakAnswer::Broken { .. } = store.admin()?.break_lease(&key, &there).await? {
                    return Ok(HoldAnswer::Done);
                }
            }
            // The answer names one holder, and others may share the key.
            let state = store.inspector()?.inspect(&key).await?;
            if !state.holders.iter().any(|one| one.owner.is_same(&held.owner)) {
                return was_broken(store.clone(), key, lease.recorded).await;
            }
            its = fence_at(&state, &held);
        }
        Err(Fault::passing(store.name(), "its fence changes while the lease is broken: try again"))
    })
}

/// Asks a member that does not have the lease whether it was broken there before, such as by a call
/// whose answer was lost.
fn was_broken(store: Arc<dyn Store>, key: Key, fence: Fence) -> StoreFuture<'static, HoldAnswer> {
    Box::pin(async move {
        let last = store.admin()?.last_break(&key).await?;
        let is_this = last.is_some_and(|last| last.fence == fence);
        Ok(if is_this { HoldAnswer::Done } else { HoldAnswer::NotHeld { key, held_by: None } })
    })
}

/// The latest of these records of the members.
///
/// A break that was completed is recorded by a majority, and has replaced the records of earlier ones
/// there. A later one that only some members made counts for less.
fn latest(quorum: &QuorumState, mut records: Vec<BreakRecord>) -> Option<BreakRecord> {
    let agreed = shown_by_a_majority(records.iter().map(|record| record.fence), quorum.majority());
    records.retain(|record| agreed.is_none_or(|agreed| record.fence == agreed));
    records.into_iter().max_by_key(rank)
}

/// The last break of a key has the highest fence. Members record a break one after the other, and
/// slow ones after the caller was answered, so the earliest record has the time of the break.
fn rank(broken: &BreakRecord) -> (Fence, Reverse<Stamp>) {
    (broken.fence, Reverse(broken.at))
}
