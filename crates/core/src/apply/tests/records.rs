//! What the records say to requesters, observers and holders.

use super::*;
use crate::{Family, QueueEntry};

/// The end is the first moment at which a lease is over, for requesters, observers and its holder.
#[test]
fn a_lease_is_over_at_the_instant_of_its_end() {
    for one in [writer(1), reader(1)] {
        let mut records = held_by(&one);
        let just_before = Stamp::from_micros(at(110).now.as_micros() - 1);
        assert!(records.is_held_by(&key("a"), one.holder, just_before));
        assert_eq!(records.holder_ids(&key("a"), just_before), [one.holder]);
        assert!(records.holding(&key("a"), just_before).is_some());
        assert_eq!(records.holders(&key("a"), just_before).len(), 1);

        assert!(!records.is_held_by(&key("a"), one.holder, at(110).now));
        assert!(records.holder_ids(&key("a"), at(110).now).is_empty());
        assert_eq!(records.holding(&key("a"), at(110).now), None);
        assert!(records.holders(&key("a"), at(110).now).is_empty());
        assert!(matches!(renew(&mut records, &one, &at(110)), HoldAnswer::NotHeld { .. }));
    }
}

/// Of two holders that share a key, one's share has ended; the marker goes on with the other's.
#[test]
fn a_share_is_over_at_the_instant_of_its_end_though_others_hold_the_key() {
    let mut records = held_by(&reader(1));
    ask(&mut records, &reader(2), 105);
    assert!(!records.is_held_by(&key("a"), Holder::from_bits(1), at(110).now));
    assert_eq!(records.holder_ids(&key("a"), at(110).now), [Holder::from_bits(2)]);
    let seen = records.holders(&key("a"), at(110).now);
    assert_eq!(seen.iter().map(|seen| seen.remaining).collect::<Vec<_>>(), [Some(Duration::from_secs(5))]);
    assert_eq!(records.holding(&key("a"), at(110).now), seen.first().cloned());
}

#[test]
fn only_ended_records_are_forgotten() {
    let mut records = Records::default();
    let foreign = |ends| Lock::new(Content::Foreign(b"x"[..].into()), ends);
    for (name, second) in [("before", Some(49)), ("now", Some(50)), ("later", Some(51)), ("never", None)] {
        records.locks.insert(key(name), foreign(second.map(|second| at(second).now)));
        let ends = at(second.unwrap_or(52)).now;
        records.fences.insert(key(name), LastFence::new(Fence::MAX, ends));
        let mut queue = WaitQueue::default();
        queue.keep_until(ends);
        records.queues.insert(key(name), queue);
    }
    records.forget_ended(at(50).now);
    let left = [key("later"), key("never")];
    assert!(records.locks.keys().eq(&left));
    assert!(records.fences.keys().eq(&left));
    assert!(records.queues.keys().eq(&left));
}

#[test]
fn the_keys_in_use_are_those_held_by_ours_or_waited_for() {
    let mut records = Records::default();
    records.locks.insert(key("b"), Lock::new(Content::Foreign(b"x"[..].into()), None));
    assert!(records.keys_in_use(b"", at(100).now).is_empty(), "another program's, for which nobody waits");
    ask(&mut records, &writer(1), 100);
    wait(&mut records, &attempt(2, &["b"], 10), &at(100));
    let mut left = WaitQueue::default();
    left.keep_until(at(1000).now);
    records.queues.insert(key("c"), left);
    assert_eq!(records.keys_in_use(b"", at(101).now), [key("a"), key("b")]);
    assert_eq!(records.keys_in_use(b"b", at(101).now), [key("b")]);
    assert!(records.keys_in_use(b"", at(200).now).is_empty(), "all have ended");
}

#[test]
fn a_key_is_idle_when_it_has_room_for_the_first_waiter() {
    let mut records = Records::default();
    assert!(!records.is_idle(&key("a"), at(100).now), "nobody waits");
    ask(&mut records, &reader(1), 100);
    wait(&mut records, &writer(2), &at(100));
    assert!(!records.is_idle(&key("a"), at(101).now));
    assert!(records.is_idle(&key("a"), at(110).now), "the reader's share has ended");

    let waiter = QueueEntry::new(Holder::from_bits(3), None, Mode::Shared, Ttl::DEFAULT, None, false);
    let mut shared = held_by(&reader(1));
    shared.queues.entry(key("a")).or_default().join(waiter, None, at(100).now);
    assert!(shared.is_idle(&key("a"), at(101).now), "there is room next to a reader");
}

#[test]
fn a_share_whose_holder_is_dead_ends_at_once_and_the_others_stay() {
    let mut records = held_by(&reader(1));
    ask(&mut records, &reader(2), 101);
    records.end_share(&key("a"), Holder::from_bits(2));
    assert_eq!(records.holder_ids(&key("a"), at(102).now), [Holder::from_bits(1)]);
    assert_eq!(records.locks[&key("a")].ends, Some(at(110).now), "as the share that is left");
    assert_eq!(records.family(&key("a"), at(102).now), Some(Family::Shared));
}
