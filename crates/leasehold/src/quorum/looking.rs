//! Inspecting keys in a quorum: the answer of a majority of the members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Ballot, Fault, HoldAnswer, HolderInfo, Key, KeyState, QuorumAttempt, ScanPage, ScanPosition, Store,
};

use super::calls::Asking;
use super::state::QuorumState;

/// The time limit for inspecting many keys at a member, which takes longer the more there are. A
/// store ends each of its own requests sooner if it is not answered, so a member that hangs does
/// not take this long.
pub(super) const MANY_KEYS_LIMIT: Duration = Duration::from_secs(30);

/// The holders of the key at a majority, and the queue of the first member that has one.
pub(super) async fn inspect(quorum: &Arc<QuorumState>, key: &Key) -> Result<KeyState, Fault> {
    let look = |store: Arc<dyn Store>| {
        let key = key.clone();
        async move { store.inspector()?.inspect(&key).await }
    };
    Ok(seen(quorum, key.clone(), &all_say(quorum, quorum.look_limit(), look).await?))
}

/// The same for all keys with this prefix that a majority holds, or that somebody waits for at a
/// member.
pub(super) async fn list(quorum: &Arc<QuorumState>, prefix: &[u8]) -> Result<Vec<KeyState>, Fault> {
    let look = |store: Arc<dyn Store>| {
        let prefix = prefix.to_vec();
        async move { store.inspector()?.list(&prefix).await }
    };
    let mut by_key: BTreeMap<Key, Vec<KeyState>> = BTreeMap::new();
    for state in all_say(quorum, MANY_KEYS_LIMIT, look).await?.into_iter().flatten() {
        by_key.entry(state.key.clone()).or_default().push(state);
    }
    let states = by_key.into_iter().map(|(key, states)| seen(quorum, key, &states));
    let is_shown =
        |state: &KeyState| !state.holders.is_empty() || !state.waiters.is_empty() || state.damage.is_some();
    Ok(states.filter(is_shown).collect())
}

/// The same for these keys, in their order: one request to each member.
pub(super) async fn inspect_all(quorum: &Arc<QuorumState>, keys: &[Key]) -> Result<Vec<KeyState>, Fault> {
    let look = |store: Arc<dyn Store>| {
        let keys = keys.to_vec();
        async move { store.inspector()?.inspect_all(&keys).await }
    };
    let answers = all_say(quorum, MANY_KEYS_LIMIT, look).await?;
    let of = |nth: usize| answers.iter().filter_map(|states| states.get(nth).cloned()).collect::<Vec<_>>();
    Ok(keys.iter().enumerate().map(|(nth, key)| seen(quorum, key.clone(), &of(nth))).collect())
}

/// Scans one member after the other: a key that a majority holds is known to each member of that
/// majority. A member that does not answer is skipped, as long as enough others answer.
pub(super) async fn scan(
    quorum: &Arc<QuorumState>,
    prefix: &[u8],
    from: ScanPosition,
) -> Result<ScanPage, Fault> {
    let (nth, there) = within_member(from);
    let Some(member) = quorum.members.get(nth) else { return Ok(ScanPage::whole(Vec::new())) };
    let scanned = async { member.store.inspector()?.scan(prefix, there).await };
    let page = match scanned.await {
        Ok(page) => page,
        Err(_) => {
            let open = |store: Arc<dyn Store>| async move { store.open().await };
            all_say(quorum, quorum.look_limit(), open).await?;
            ScanPage::whole(Vec::new())
        }
    };
    let section_there = page.next.map_or(0, |next| next.section);
    let mut page = page.in_section(nth, quorum.members.len());
    page.next = page.next.map(|next| of_member(next, section_there));
    Ok(page)
}

/// The low bits of a section's number, which say the member. The others say the section of the
/// member, which may be a cluster.
const MEMBER_BITS: u32 = 16;

/// The member of a position, and the position there.
const fn within_member(position: ScanPosition) -> (usize, ScanPosition) {
    let section = position.section >> MEMBER_BITS;
    (position.section & ((1 << MEMBER_BITS) - 1), ScanPosition { section, at: position.at })
}

/// The position of a member, in this section of the member.
const fn of_member(position: ScanPosition, section_there: usize) -> ScanPosition {
    ScanPosition { section: position.section | section_there << MEMBER_BITS, at: position.at }
}

/// The members' answers within `limit`; a majority must answer.
pub(super) async fn all_say<T: Send + 'static, F: Asking<T>>(
    quorum: &Arc<QuorumState>,
    limit: Duration,
    look: impl Fn(Arc<dyn Store>) -> F,
) -> Result<Vec<T>, Fault> {
    Ok(each_says(quorum, limit, look).await?.into_iter().flatten().collect())
}

/// The same in the order of the members, with a gap for each member that did not answer.
pub(super) async fn each_says<T: Send + 'static, F: Asking<T>>(
    quorum: &Arc<QuorumState>,
    limit: Duration,
    look: impl Fn(Arc<dyn Store>) -> F,
) -> Result<Vec<Option<T>>, Fault> {
    let (answers, ballot) = asked(quorum, limit, look).await;
    quorum.verdict(&ballot, "answered")?;
    Ok(answers)
}

/// The same, with the count, from however few members.
pub(super) async fn asked<T: Send + 'static, F: Asking<T>>(
    quorum: &Arc<QuorumState>,
    limit: Duration,
    look: impl Fn(Arc<dyn Store>) -> F,
) -> (Vec<Option<T>>, Ballot) {
    let mut answers: Vec<Option<T>> = quorum.members.iter().map(|_| None).collect();
    let mut ballot = Ballot::new(quorum.members.len());
    quorum
        .ask_all(limit, look, |member, answer| {
            ballot.handle(
                member,
                answer.map(|answer| {
                    answers[member] = Some(answer);
                    HoldAnswer::Done
                }),
            );
            // Inspecting is rare and may take its time, so wait for every member that answers.
            false
        })
        .await;
    (answers, ballot)
}

fn seen(quorum: &QuorumState, key: Key, states: &[KeyState]) -> KeyState {
    let queue = states.iter().map(|state| &state.waiters).find(|queue| !queue.is_empty());
    let holders = held_by_a_majority(states, quorum.majority());
    let mut state = KeyState::new(key, holders, queue.cloned().unwrap_or_default());
    state.damage = states.iter().find_map(|state| state.damage.clone());
    // With the latest of the members' clocks, no fence appears to be in the future: fences are
    // within a margin of each member's clock.
    let clock = states.iter().filter_map(|state| state.clock).max();
    match clock {
        Some(clock) => state.at(clock),
        None => state,
    }
}

/// The holders at a majority, by fence; several if they share the key.
pub(super) fn held_by_a_majority(states: &[KeyState], majority: usize) -> Vec<HolderInfo> {
    let all: Vec<&HolderInfo> = states.iter().flat_map(|state| &state.holders).collect();
    let mut seen: Vec<HolderInfo> = Vec::new();
    for one in &all {
        let mut same: Vec<&HolderInfo> =
            all.iter().filter(|other| QuorumAttempt::is_same_holding(one, other)).copied().collect();
        if same.len() < majority || seen.iter().any(|held| QuorumAttempt::is_same_holding(one, held)) {
            continue;
        }
        // A lease is held for as long as a majority of the members keeps it; a lease without an end
        // lasts longest.
        same.sort_by_key(|holding| {
            std::cmp::Reverse(holding.remaining.map_or((1, None), |left| (0, Some(left))))
        });
        let mut held = (*one).clone();
        held.remaining = same[majority - 1].remaining;
        // The fence that a majority shows is the agreed one: a slow member may have answered a
        // greater fence since.
        let shown = |fence| same.iter().filter(|holding| holding.fence == fence).count();
        let agreed = same.iter().map(|holding| holding.fence).find(|fence| shown(*fence) >= majority);
        held.fence = agreed.unwrap_or_else(|| same.iter().filter_map(|holding| holding.fence).max());
        seen.push(held);
    }
    seen.sort_by_key(|held| held.fence);
    seen
}

#[cfg(test)]
mod tests;
