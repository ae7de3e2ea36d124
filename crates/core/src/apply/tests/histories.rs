//! Random histories.

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
