//! Inspecting keys in a quorum: the answer of a majority of the members.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use leasehold_core::{
    Ballot, BoxFuture, Fault, Fence, HoldAnswer, Holder, HolderInfo, InspectStore, Key, KeyState, Mode,
    Notice, Notices, Owner, ScanPage, ScanPosition, Store, StoreFuture, Vote, shown_by_a_majority,
};

use super::QuorumStore;
use super::calls::Asking;
use super::state::QuorumState;

/// The time limit for inspecting many keys at a member, which takes longer the more there are. A
/// store ends each of its own requests sooner if it is not answered, so a member that hangs does
/// not take this long.
pub(super) const MANY_KEYS_LIMIT: Duration = Duration::from_secs(30);

impl InspectStore for QuorumStore {
    /// The holders of the key at a majority, as far as the members that answer can tell, and the
    /// queue of the first member that has one.
    fn inspect<'a>(&'a self, key: &'a Key) -> StoreFuture<'a, KeyState> {
        Box::pin(async move {
            let look = |store: Arc<dyn Store>, key| async move { store.inspector()?.inspect(&key).await };
            let states = all_say(&self.quorum, self.quorum.look_limit(), key, look).await?;
            Ok(seen(&self.quorum, key.clone(), &states, states.len()))
        })
    }

    fn notices(&self) -> Option<Box<dyn Notices>> {
        Some(Box::new(MemberNotices::of(&self.quorum)))
    }

    /// The same for all keys with this prefix that a majority holds, or that somebody waits for at
    /// a member.
    fn list<'a>(&'a self, prefix: &'a [u8]) -> StoreFuture<'a, Vec<KeyState>> {
        Box::pin(async move {
            let look = |store: Arc<dyn Store>, prefix: Vec<u8>| async move {
                store.inspector()?.list(&prefix).await
            };
            let mut by_key: BTreeMap<Key, Vec<KeyState>> = BTreeMap::new();
            let listed = all_say(&self.quorum, MANY_KEYS_LIMIT, prefix, look).await?;
            let answered = listed.len();
            for state in listed.into_iter().flatten() {
                by_key.entry(state.key.clone()).or_default().push(state);
            }
            let states = by_key.into_iter().map(|(key, states)| seen(&self.quorum, key, &states, answered));
            let is_shown = |state: &KeyState| {
                !state.holders.is_empty() || !state.waiters.is_empty() || state.damage.is_some()
            };
            Ok(states.filter(is_shown).collect())
        })
    }

    /// Scans one member after the other: a key that a majority holds is known to each member of
    /// that majority. A member that does not answer is skipped, as long as enough others answer.
    fn scan<'a>(&'a self, prefix: &'a [u8], from: ScanPosition) -> StoreFuture<'a, ScanPage> {
        Box::pin(async move {
            let quorum = &self.quorum;
            let (nth, there) = within_member(from);
            let Some(member) = quorum.members.get(nth) else { return Ok(ScanPage::whole(Vec::new())) };
            let scanned = async { member.store.inspector()?.scan(prefix, there).await };
            let mut page = scanned.await.unwrap_or_else(ScanPage::missed);
            if page.fault.take().is_some() {
                let open = |store: Arc<dyn Store>, ()| async move { store.open().await };
                all_say(quorum, quorum.look_limit(), &(), open).await?;
            }
            let section_there = page.next.map_or(0, |next| next.section);
            let mut page = page.in_section(nth, quorum.members.len());
            page.next = page.next.map(|next| of_member(next, section_there));
            Ok(page)
        })
    }

    /// Inspects these keys with one request to each member.
    fn inspect_all<'a>(&'a self, keys: &'a [Key]) -> StoreFuture<'a, Vec<KeyState>> {
        Box::pin(async move {
            let look = |store: Arc<dyn Store>, keys: Vec<Key>| async move {
                store.inspector()?.inspect_all(&keys).await
            };
            let answers = all_say(&self.quorum, MANY_KEYS_LIMIT, keys, look).await?;
            let of = |nth: usize| -> Vec<KeyState> {
                answers.iter().filter_map(|states| states.get(nth).cloned()).collect()
            };
            let seen = |(nth, key): (usize, &Key)| seen(&self.quorum, key.clone(), &of(nth), answers.len());
            let states = keys.iter().enumerate().map(seen);
            Ok(states.collect())
        })
    }

    fn inspected_at_once(&self) -> usize {
        let inspectors = self.quorum.members.iter().filter_map(|member| member.store.parts().inspect);
        inspectors.map(InspectStore::inspected_at_once).min().unwrap_or(1)
    }
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

/// What the members answer about something within `limit`; a majority must answer. Nobody waits for
/// a member that is silent, if the others are a majority.
pub(super) async fn all_say<About: ToOwned + ?Sized, T: Send + 'static, F: Asking<T>>(
    quorum: &Arc<QuorumState>,
    limit: Duration,
    about: &About,
    look: impl Fn(Arc<dyn Store>, About::Owned) -> F,
) -> Result<Vec<T>, Fault> {
    let all_answer = |answers: &[Option<T>]| {
        let mut answers = answers.iter().zip(&quorum.members);
        answers.all(|(answer, member)| answer.is_some() || member.is_silent())
    };
    let enough = |answers: &[_], ballot: &Ballot| ballot.vote() == Vote::Done && all_answer(answers);
    answers_of(quorum, asked_until(quorum, limit, about, look, enough).await)
}

/// The answers of a majority at least.
pub(super) fn answers_of<T>(
    quorum: &QuorumState,
    (answers, ballot): (Vec<Option<T>>, Ballot),
) -> Result<Vec<T>, Fault> {
    quorum.verdict(&ballot, "answered")?;
    Ok(answers.into_iter().flatten().collect())
}

/// The same from all members that answer in time, however few, with the count, in the order of the
/// members and with a gap for each that did not answer.
pub(super) async fn asked<About: ToOwned + ?Sized, T: Send + 'static, F: Asking<T>>(
    quorum: &Arc<QuorumState>,
    limit: Duration,
    about: &About,
    look: impl Fn(Arc<dyn Store>, About::Owned) -> F,
) -> (Vec<Option<T>>, Ballot) {
    asked_until(quorum, limit, about, look, |_, _| false).await
}

async fn asked_until<About: ToOwned + ?Sized, T: Send + 'static, F: Asking<T>>(
    quorum: &Arc<QuorumState>,
    limit: Duration,
    about: &About,
    look: impl Fn(Arc<dyn Store>, About::Owned) -> F,
    enough: impl Fn(&[Option<T>], &Ballot) -> bool,
) -> (Vec<Option<T>>, Ballot) {
    let mut answers: Vec<Option<T>> = quorum.members.iter().map(|_| None).collect();
    let mut ballot = Ballot::new(quorum.members.len());
    let look = |store| look(store, about.to_owned());
    quorum
        .ask_all(limit, look, |member, answer| {
            ballot.handle(
                member,
                answer.map(|answer| {
                    answers[member] = Some(answer);
                    HoldAnswer::Done
                }),
            );
            enough(&answers, &ballot)
        })
        .await;
    (answers, ballot)
}

/// What these states of a key come to, which are those of the members that `answered`, except
/// perhaps of some that have nothing at the key.
fn seen(quorum: &QuorumState, key: Key, states: &[KeyState], answered: usize) -> KeyState {
    let queue = states.iter().map(|state| &state.waiters).find(|queue| !queue.is_empty());
    let holders = held_by_a_majority(states, quorum.majority(), quorum.members.len() - answered);
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
///
/// Each of the members that are `silent` may have any of the leases that the others show. So a lease
/// counts as held if it would be held with them: nobody is told that a lock is free although its
/// holder relies on it. Of several leases that exclude each other, the one at most members counts.
pub(super) fn held_by_a_majority(states: &[KeyState], majority: usize, silent: usize) -> Vec<HolderInfo> {
    let all: Vec<&HolderInfo> = states.iter().flat_map(|state| &state.holders).collect();
    let mut seen: Vec<(usize, HolderInfo)> = Vec::new();
    for one in &all {
        let mut same: Vec<&HolderInfo> =
            all.iter().filter(|other| one.owner.is_same(&other.owner)).copied().collect();
        // What is not a lock is never taken for one elsewhere.
        let unknown = if one.owner == Owner::NotALock { 0 } else { silent };
        if same.len() + unknown < majority || seen.iter().any(|(_, held)| one.owner.is_same(&held.owner)) {
            continue;
        }
        // A lease is held for as long as a majority of the members keeps it; a lease without an end
        // lasts longest.
        same.sort_by_key(|holding| {
            std::cmp::Reverse(holding.remaining.map_or((1, None), |left| (0, Some(left))))
        });
        let mut held = (*one).clone();
        held.remaining = same[majority.min(same.len()) - 1].remaining;
        // A member that was away when a writer became a reader shows the writer for a while.
        held.mode =
            same.iter().map(|one| one.mode).find(|mode| *mode != Mode::Exclusive).unwrap_or(held.mode);
        held.fence =
            agreed_fence(&all, one, majority).or_else(|| same.iter().filter_map(|one| one.fence).max());
        seen.push((same.len(), held));
    }
    let most = seen.iter().max_by_key(|(count, held)| (*count, held.fence)).cloned();
    let Some((_, most)) = most else { return Vec::new() };
    let shares = |held: &HolderInfo| held.mode == most.mode && held.mode != Mode::Exclusive;
    seen.retain(|(count, held)| *count >= majority || *held == most || shares(held));
    let mut seen: Vec<_> = seen.into_iter().map(|(_, held)| held).collect();
    seen.sort_by_key(|held| held.fence);
    seen
}

/// The fence that a majority shows for the holder of `one`. Other members may have answered another
/// fence, and still show it: a slow one a greater, one that was not needed for the majority a smaller.
pub(super) fn agreed_fence(all: &[&HolderInfo], one: &HolderInfo, majority: usize) -> Option<Fence> {
    let same = all.iter().filter(|other| one.owner.is_same(&other.owner));
    shown_by_a_majority(same.filter_map(|other| other.fence), majority)
}

/// The members' notices that concern all of them, and reports of members that are down.
#[derive(Debug)]
pub(super) struct MemberNotices {
    quorum: Arc<QuorumState>,
    health: Box<dyn Notices>,
    members: Vec<(usize, Box<dyn Notices>)>,
}

impl MemberNotices {
    pub(super) fn of(quorum: &Arc<QuorumState>) -> Self {
        let health = quorum.health.read();
        let members = quorum.members.iter().enumerate();
        let members = members.filter_map(|(n, member)| Some((n, member.store.notices()?))).collect();
        Self { quorum: quorum.clone(), health, members }
    }
}

impl Notices for MemberNotices {
    fn next(&mut self) -> BoxFuture<'_, Notice> {
        let Self { quorum, health, members } = self;
        Box::pin(std::future::poll_fn(move |context| {
            if let Poll::Ready(notice) = health.next().as_mut().poll(context) {
                return Poll::Ready(notice);
            }
            for (member, notices) in &mut *members {
                while let Poll::Ready(notice) = notices.next().as_mut().poll(context) {
                    match notice {
                        Notice::Broken { holder } => {
                            if let Some(holder) = quorum.broken_at(*member, holder) {
                                return Poll::Ready(Notice::Broken { holder });
                            }
                        }
                        notice => return Poll::Ready(notice),
                    }
                }
            }
            Poll::Pending
        }))
    }
}

impl QuorumState {
    /// Handles a message that a member broke the lease with this id. Returns the attempt whose
    /// lease is lost if the message is true, because no majority can keep it any more. The holder
    /// then asks the members, and relies on their answer.
    fn broken_at(&self, member: usize, id: Holder) -> Option<Holder> {
        let shared = self.attempts.find(id)?;
        shared.machine().handle_broken(member, id).then_some(shared.holder)
    }
}

#[cfg(test)]
mod tests;
