//! Random histories, and all short ones.

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;

use super::*;

proptest! {
    /// Random histories of waiters, holders, other programs and processes without a listener, on
    /// two keys.
    ///
    /// After each request: fences rose with every grant, answered or pushed; a key that was asked
    /// about is not free while somebody waits for it; a new holder was before everybody else that
    /// can be notified; no lease of another holder was changed.
    #[test]
    fn no_history_leaves_a_free_key_with_a_waiter(
        steps in prop::collection::vec((0..8u8, 1..6u128, 0..3u8, 0..3u64), 1..60),
    ) {
        let mut records = Records::default();
        let mut now = 100;
        let mut last = std::collections::BTreeMap::<Key, Fence>::new();
        for (what, who, keys, pass) in steps {
            now += pass;
            let keys: &[&str] = [&["a"][..], &["b"], &["a", "b"]][usize::from(keys)];
            let attempt = attempt(who, keys, 10);
            let context = at(now);
            let context = context.with_subscribers(&Deaf("gone"));
            let channel = Some(Channel::new(if who == 4 { "gone" } else { "here" }));
            let request = match what {
                0..=2 => {
                    let wait = Wait { channel, ..Wait::default() };
                    Request::Grant { attempt: attempt.clone(), wait: Some(wait), not_after: None }
                }
                3 => Request::Grant { attempt: attempt.clone(), wait: None, not_after: None },
                4 => Request::Renew(attempt.clone()),
                5 | 6 => Request::Release(attempt.clone()),
                _ => {
                    records.locks.remove(&key("a"));
                    continue;
                }
            };
            let before = records.clone();
            let Served { answer, pushes, unfinished } = apply(&mut records, request, &context);
            prop_assert!(unfinished.is_empty());
            let mut fences = Vec::new();
            if let Answer::Grant(GrantAnswer::Granted { fence }) = answer {
                fences.extend(attempt.claim.keys().map(|key| (key.clone(), fence)));
            }
            for push in &pushes {
                let event_only = matches!(push.event, PushEvent::First { .. });
                prop_assert!(push.to != Some(Channel::new("gone")) || event_only);
                if let PushEvent::Granted { fence, .. } = push.event {
                    fences.push((push.key.clone(), fence));
                    let queue = before.queue(&push.key, context.now);
                    let passed = queue.into_iter().flat_map(WaitQueue::waiters)
                        .take_while(|(_, waiter)| waiter.holder != push.holder)
                        .find(|(_, it)| it.channel != Some(Channel::new("gone")) && it.holder != attempt.holder);
                    prop_assert!(passed.is_none(), "{:?} was passed over by {:?}", passed, push);
                }
            }
            for (key, fence) in fences {
                prop_assert!(last.insert(key, fence).is_none_or(|last| fence > last));
            }
            for key in attempt.claim.keys() {
                let queue = records.queue(key, context.now).map_or(0, WaitQueue::len);
                prop_assert!(queue == 0 || records.lock(key, context.now).is_some(), "{queue} wait for a free key");
                let (was, is) = (before.lock(key, context.now), records.lock(key, context.now));
                let other = was.filter(|_| !before.is_held_by(key, attempt.holder, context.now));
                if let Some(other) = other {
                    let is = is.map(|lock| (lock.ends, format!("{:?}", lock.content).replace("true", "false")));
                    prop_assert_eq!(is, Some((other.ends, format!("{:?}", other.content).replace("true", "false"))));
                }
            }
        }
    }
}

/// One step of a small world.
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
/// After each step: fences rose with every grant; nobody's lease was ended, extended or replaced by
/// somebody else's request; every entry of ours has an end.
#[test]
fn no_short_history_breaks_exclusion_or_the_order_of_fences() {
    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct World {
        records: String,
        now: u64,
        last: Option<Fence>,
    }
    let moves = [1, 2].into_iter().flat_map(|who| [Move::Grant(who), Move::Renew(who), Move::Release(who)]);
    let moves: Vec<_> = moves
        .chain([Move::Foreign, Move::Delete, Move::Flush, Move::Pass(1), Move::Pass(11), Move::Pass(1000)])
        .collect();
    let name = key("a");
    let mut frontier = vec![(Records::default(), 100, None::<Fence>)];
    let mut seen = HashSet::new();
    for _ in 0..7 {
        let mut next = Vec::new();
        for (records, now, last) in &frontier {
            for step in &moves {
                let (mut records, mut now, mut last) = (records.clone(), *now, *last);
                let context = at(now);
                let owner = records.lock(&name, context.now).cloned();
                match *step {
                    Move::Grant(who) => match ask(&mut records, &writer(who), now) {
                        GrantAnswer::Granted { fence } => {
                            let own = owner.is_none_or(|lock| {
                                matches!(lock.content, Content::Lease { holder, .. } if holder == Holder::from_bits(who))
                            });
                            assert!(own, "granted over another's lease");
                            assert!(last.is_none_or(|last| fence > last), "{fence} after {last:?}");
                            last = Some(fence);
                        }
                        _ => assert_eq!(records.lock(&name, context.now), owner.as_ref()),
                    },
                    Move::Renew(who) => {
                        let done = renew(&mut records, &writer(who), &context) == HoldAnswer::Done;
                        let after = records.lock(&name, context.now).map(|lock| lock.content.clone());
                        assert_eq!(after, owner.as_ref().map(|lock| lock.content.clone()));
                        assert!(!done || owner.is_some());
                    }
                    Move::Release(who) => {
                        let answer = release(&mut records, &writer(who), &context);
                        if answer != HoldAnswer::Done {
                            assert_eq!(records.lock(&name, context.now), owner.as_ref());
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
                // A grant takes some time, so the clock's floor has moved when the next one comes.
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
    assert!(seen.len() > 5_000 && holders.len() == 2, "the search went too shallow: {} worlds", seen.len());
}
