//! The one semantics: what every store does with a request.
//!
//! The memory store is this function over a map; the file store loads the records of a claim, applies it, and writes them back
//! in one transaction; the scripts of the Redis store are held to it by a differential test.

use crate::{
    Answer, Attempt, Content, Fence, GrantAnswer, HoldAnswer, Key, KeyState, LastFence, Lock, Records,
    Request, Stamp, Wake,
};

/// What a store knows besides its records when it serves a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Scene {
    /// The clock that leases are counted on.
    pub now: Stamp,
    /// The least fence that may be handed out: microseconds since 1970 on the store's wall clock.
    pub floor: Fence,
}

impl Scene {
    /// A scene.
    #[must_use]
    pub const fn new(now: Stamp, floor: Fence) -> Self {
        Self { now, floor }
    }
}

/// Serves one request: changes the records, and says the answer and whom it concerns.
pub fn apply(records: &mut Records, request: Request, scene: &Scene) -> (Answer, Vec<Wake>) {
    match request {
        Request::Grant { attempt, not_after } => {
            (Answer::Grant(grant(records, &attempt, not_after, scene)), Vec::new())
        }
        Request::Renew(attempt) => (Answer::Renew(renew(records, &attempt, scene)), Vec::new()),
        Request::Release(attempt) => {
            let (answer, wakes) = release(records, &attempt, scene);
            (Answer::Release(answer), wakes)
        }
        Request::Inspect(key) => {
            let tenancies = records.tenancy(&key, scene.now).into_iter().collect();
            (Answer::Inspect(KeyState::new(key, tenancies)), Vec::new())
        }
    }
}

/// All keys free, or held by this very attempt: then they are its own for a ttl from now. Asking again is no different from
/// asking, so an answer that was lost on the way costs nothing.
///
/// Like a renewal, asking again never shortens a lease: a request that was delayed on its way could else cut off what a
/// renewal, already answered, made longer.
fn grant(records: &mut Records, attempt: &Attempt, not_after: Option<Stamp>, scene: &Scene) -> GrantAnswer {
    let now = scene.now;
    if not_after.is_some_and(|limit| now > limit) {
        return GrantAnswer::TooLate { now };
    }
    for key in attempt.claim.keys() {
        if records.is_held_by(key, attempt.holder, now) {
            continue;
        }
        if let Some(Lock { content: Content::NotALock, .. }) = records.lock(key, now) {
            return GrantAnswer::NotALock { key: key.clone() };
        }
        if let Some(held_by) = records.tenancy(key, now) {
            return GrantAnswer::Busy { held_by };
        }
    }
    // One fence for the claim: above the last one of each of its keys.
    let mut highest: Option<(Fence, &Key)> = None;
    for key in attempt.claim.keys() {
        if let Some(fence) = records.fence(key, now)
            && highest.is_none_or(|(high, _)| fence > high)
        {
            highest = Some((fence, key));
        }
    }
    let Some(fence) = Fence::next(highest.map(|(fence, _)| fence), scene.floor) else {
        let key = highest.map_or(attempt.claim.first_key(), |(_, key)| key);
        return GrantAnswer::FencesSpent { key: key.clone() };
    };
    for key in attempt.claim.keys() {
        let mut ends = now + attempt.ttl.duration();
        let mut remembered = now + LastFence::kept_for(attempt.ttl);
        // Whatever stands there now is this attempt's own.
        if let Some(own) = records.lock(key, now) {
            ends = own.ends.map_or(ends, |own| own.max(ends));
            let last = records.fences.get(key).filter(|last| now < last.ends);
            remembered = last.map_or(remembered, |last| last.ends.max(remembered));
        }
        let content = Content::Lease { holder: attempt.holder, label: attempt.label.clone() };
        records.locks.insert(key.clone(), Lock::new(content, Some(ends)));
        records.fences.insert(key.clone(), LastFence::new(fence, remembered));
    }
    GrantAnswer::Granted { fence }
}

/// Only the attempt that holds all keys renews them; a lost key is never taken again by a renewal.
///
/// Nor does a renewal shorten a lease: one that was delayed on its way could else cut off a lease that a later one, already
/// answered, made longer.
fn renew(records: &mut Records, attempt: &Attempt, scene: &Scene) -> HoldAnswer {
    let now = scene.now;
    if let Some(gone) = first_not_held(records, attempt, now) {
        return gone;
    }
    for key in attempt.claim.keys() {
        if let Some(lock) = records.locks.get_mut(key) {
            lock.ends = lock.ends.max(Some(now + attempt.ttl.duration()));
        }
        if let Some(last) = records.fences.get_mut(key).filter(|last| now < last.ends) {
            last.ends = last.ends.max(now + LastFence::kept_for(attempt.ttl));
        }
    }
    HoldAnswer::Done
}

/// Takes back what the attempt holds and nothing else; the fence stays.
fn release(records: &mut Records, attempt: &Attempt, scene: &Scene) -> (HoldAnswer, Vec<Wake>) {
    let now = scene.now;
    let gone = first_not_held(records, attempt, now);
    let mut wakes = Vec::new();
    for key in attempt.claim.keys() {
        if records.is_held_by(key, attempt.holder, now) {
            records.locks.remove(key);
            wakes.push(Wake::AskAgain { key: key.clone() });
        }
    }
    (gone.unwrap_or(HoldAnswer::Done), wakes)
}

fn first_not_held(records: &Records, attempt: &Attempt, now: Stamp) -> Option<HoldAnswer> {
    let key = attempt.claim.keys().find(|key| !records.is_held_by(key, attempt.holder, now))?;
    Some(HoldAnswer::NotHeld { key: key.clone(), held_by: records.tenancy(key, now) })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};
    use std::time::Duration;

    use super::*;
    use crate::{Claim, Holder, Label, Tenancy, Tenant, Ttl};

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    fn attempt(who: u128, keys: &[&str], ttl_s: u64) -> Attempt {
        let claim = Claim::exclusive_all(keys.iter().map(|name| key(name))).unwrap();
        let ttl = Ttl::new(Duration::from_secs(ttl_s)).unwrap();
        Attempt::new(claim, Holder::from_bits(who), Label::new("web-3").ok(), ttl)
    }

    fn at(second: u64) -> Scene {
        let now = Stamp::from_micros(second * 1_000_000);
        Scene::new(now, Fence::new(now.as_micros()).unwrap())
    }

    fn ask(records: &mut Records, attempt: &Attempt, second: u64) -> GrantAnswer {
        grant(records, attempt, None, &at(second))
    }

    fn granted(number: u64) -> GrantAnswer {
        GrantAnswer::Granted { fence: Fence::new(number).unwrap() }
    }

    #[test]
    fn a_free_key_is_granted_and_a_taken_one_says_by_whom_and_for_how_long() {
        let mut records = Records::default();
        assert_eq!(ask(&mut records, &attempt(1, &["a"], 10), 100), granted(100_000_000));
        let tenant = Tenant::Holder { holder: Holder::from_bits(1), label: Label::new("web-3").ok() };
        let left = Some(Duration::from_secs(7));
        let held_by = Tenancy::exclusive(key("a"), tenant, Fence::new(100_000_000), left);
        assert_eq!(ask(&mut records, &attempt(2, &["a"], 10), 103), GrantAnswer::Busy { held_by });
        assert_eq!(ask(&mut records, &attempt(2, &["a"], 10), 110), granted(110_000_000));
    }

    #[test]
    fn asking_again_with_the_same_attempt_is_granted_again_and_lasts_anew() {
        let mut records = Records::default();
        ask(&mut records, &attempt(1, &["a"], 10), 100);
        assert_eq!(ask(&mut records, &attempt(1, &["a"], 10), 105), granted(105_000_000));
        assert!(matches!(ask(&mut records, &attempt(2, &["a"], 10), 114), GrantAnswer::Busy { .. }));
    }

    #[test]
    fn several_keys_are_granted_together_under_one_fence_or_not_at_all() {
        let mut records = Records::default();
        records.fences.insert(key("b"), LastFence::new(Fence::new(900_000_000).unwrap(), at(999).now));
        assert_eq!(ask(&mut records, &attempt(1, &["a", "b"], 10), 100), granted(900_000_001));
        let before = records.clone();
        let GrantAnswer::Busy { held_by } = ask(&mut records, &attempt(2, &["A", "b", "c"], 10), 101) else {
            panic!("b is taken")
        };
        assert_eq!((held_by.key, &records), (key("b"), &before));
    }

    #[test]
    fn a_request_that_comes_too_late_changes_nothing() {
        let mut records = Records::default();
        let late = grant(&mut records, &attempt(1, &["a"], 10), Some(at(99).now), &at(100));
        assert_eq!(late, GrantAnswer::TooLate { now: at(100).now });
        assert_eq!(records, Records::default());
        let in_time = grant(&mut records, &attempt(1, &["a"], 10), Some(at(100).now), &at(100));
        assert_eq!(in_time, granted(100_000_000));
    }

    #[test]
    fn what_is_no_lock_is_named_and_left_alone() {
        let mut records = Records::default();
        records.locks.insert(key("a"), Lock::new(Content::NotALock, None));
        let before = records.clone();
        let answer = ask(&mut records, &attempt(1, &["a"], 10), 100);
        assert_eq!(answer, GrantAnswer::NotALock { key: key("a") });
        renew(&mut records, &attempt(1, &["a"], 10), &at(100));
        release(&mut records, &attempt(1, &["a"], 10), &at(100));
        assert_eq!(records, before);
    }

    #[test]
    fn used_up_fences_are_an_error_and_not_a_repetition() {
        let mut records = Records::default();
        records.fences.insert(key("a"), LastFence::new(Fence::MAX, at(999).now));
        let answer = ask(&mut records, &attempt(1, &["a"], 10), 100);
        assert_eq!(answer, GrantAnswer::FencesSpent { key: key("a") });
        assert!(records.locks.is_empty());
    }

    #[test]
    fn a_delayed_renewal_does_not_cut_off_a_longer_one() {
        let mut records = Records::default();
        ask(&mut records, &attempt(1, &["a"], 10), 100);
        assert_eq!(renew(&mut records, &attempt(1, &["a"], 60), &at(101)), HoldAnswer::Done);
        assert_eq!(renew(&mut records, &attempt(1, &["a"], 10), &at(102)), HoldAnswer::Done);
        assert!(records.lock(&key("a"), at(160).now).is_some());
        assert!(records.lock(&key("a"), at(161).now).is_none());
    }

    /// The first ask was held up on a connection that broke; the second was granted and its lease renewed for longer.
    #[test]
    fn a_delayed_ask_does_not_cut_off_a_renewal() {
        let mut records = Records::default();
        ask(&mut records, &attempt(1, &["a"], 10), 100);
        assert_eq!(renew(&mut records, &attempt(1, &["a"], 1000), &at(101)), HoldAnswer::Done);
        ask(&mut records, &attempt(1, &["a"], 10), 102);
        assert!(records.lock(&key("a"), at(1100).now).is_some());
        assert!(records.lock(&key("a"), at(1101).now).is_none());
        assert!(records.fence(&key("a"), at(2100).now).is_some(), "the fence outlives the lease");
    }

    #[test]
    fn a_release_takes_back_what_is_ours_and_says_what_is_not() {
        let mut records = Records::default();
        ask(&mut records, &attempt(1, &["a", "b"], 10), 100);
        records.locks.insert(key("a"), Lock::new(Content::Foreign(b"x"[..].into()), None));
        let (answer, wakes) = release(&mut records, &attempt(1, &["a", "b"], 10), &at(101));
        let foreign = Tenancy::exclusive(key("a"), Tenant::Foreign { value: b"x"[..].into() }, None, None);
        assert_eq!(answer, HoldAnswer::NotHeld { key: key("a"), held_by: Some(foreign) });
        assert_eq!(wakes, [Wake::AskAgain { key: key("b") }]);
        assert_eq!(records.locks.keys().collect::<Vec<_>>(), [&key("a")]);
    }

    /// One step of the little world below.
    #[derive(Clone, Copy, Debug)]
    enum Move {
        Grant(u128),
        Renew(u128),
        Release(u128),
        /// Another program takes the key if it is free.
        Foreign,
        /// An operator deletes the key, or a server loses it.
        Delete,
        /// The store loses everything.
        Flush,
        /// Time passes.
        Pass(u64),
    }

    /// Every history of seven steps, by two attempts and a hostile world, on one key.
    ///
    /// After each step: fences rose with every grant; nobody's lease was ended, lengthened or replaced by somebody else's request;
    /// everything of ours has an end.
    #[test]
    fn no_short_history_breaks_exclusion_or_the_order_of_fences() {
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        struct World {
            records: String,
            now: u64,
            last: Option<Fence>,
        }
        let moves =
            [1, 2].into_iter().flat_map(|who| [Move::Grant(who), Move::Renew(who), Move::Release(who)]);
        let moves: Vec<_> = moves
            .chain([
                Move::Foreign,
                Move::Delete,
                Move::Flush,
                Move::Pass(1),
                Move::Pass(11),
                Move::Pass(1000),
            ])
            .collect();
        let name = key("a");
        let mut frontier = vec![(Records::default(), 100, None::<Fence>)];
        let mut seen = HashSet::new();
        for _ in 0..7 {
            let mut next = Vec::new();
            for (records, now, last) in &frontier {
                for step in &moves {
                    let (mut records, mut now, mut last) = (records.clone(), *now, *last);
                    let scene = at(now);
                    let owner = records.lock(&name, scene.now).cloned();
                    match *step {
                        Move::Grant(who) => match ask(&mut records, &attempt(who, &["a"], 10), now) {
                            GrantAnswer::Granted { fence } => {
                                let own = owner.is_none_or(|lock| {
                                    matches!(lock.content, Content::Lease { holder, .. } if holder == Holder::from_bits(who))
                                });
                                assert!(own, "granted over another's lease");
                                assert!(last.is_none_or(|last| fence > last), "{fence} after {last:?}");
                                last = Some(fence);
                            }
                            _ => assert_eq!(records.lock(&name, scene.now), owner.as_ref()),
                        },
                        Move::Renew(who) => {
                            let done =
                                renew(&mut records, &attempt(who, &["a"], 10), &scene) == HoldAnswer::Done;
                            let after = records.lock(&name, scene.now).map(|lock| lock.content.clone());
                            assert_eq!(after, owner.as_ref().map(|lock| lock.content.clone()));
                            assert!(!done || owner.is_some());
                        }
                        Move::Release(who) => {
                            let (answer, _) = release(&mut records, &attempt(who, &["a"], 10), &scene);
                            if answer != HoldAnswer::Done {
                                assert_eq!(records.lock(&name, scene.now), owner.as_ref());
                            }
                        }
                        Move::Foreign if owner.is_none() => {
                            let ends = Some(at(now + 5).now);
                            records
                                .locks
                                .insert(name.clone(), Lock::new(Content::Foreign(b"x"[..].into()), ends));
                        }
                        Move::Foreign => {}
                        Move::Delete => drop(records.locks.remove(&name)),
                        Move::Flush => records = Records::default(),
                        Move::Pass(seconds) => now += seconds,
                    }
                    assert!(records.locks.values().all(|lock| lock.ends.is_some()));
                    // A grant takes some time, so that the clock's floor has moved when the next one comes.
                    if matches!(step, Move::Grant(_)) {
                        now += 1;
                    }
                    let world = World { records: format!("{records:?}"), now, last };
                    if seen.insert(world) {
                        next.push((records, now, last));
                    }
                }
            }
            frontier = next;
        }
        let holders: BTreeSet<_> =
            frontier.iter().flat_map(|(records, ..)| records.locks.len().checked_add(0)).collect();
        assert!(
            seen.len() > 5_000 && holders.len() == 2,
            "the search went too shallow: {} worlds",
            seen.len()
        );
    }
}
