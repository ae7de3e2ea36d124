//! One attempt after another, without a queue.

use super::*;

#[test]
fn a_request_that_comes_too_late_changes_nothing() {
    let mut records = Records::default();
    let late = grant(&mut records, &writer(1), Some(at(99).now), &at(100));
    assert_eq!(late, GrantAnswer::TooLate { now: at(100).now });
    assert_eq!(records, Records::default());
    let in_time = grant(&mut records, &writer(1), Some(at(100).now), &at(100));
    assert_eq!(in_time, granted(100_000_000));
}

#[test]
fn a_value_that_is_not_a_lock_is_named_and_left_alone() {
    let mut records = Records::default();
    records.locks.insert(key("a"), Lock::new(Content::NotALock, None));
    let before = records.clone();
    let answer = ask(&mut records, &writer(1), 100);
    assert_eq!(answer, GrantAnswer::NotALock { key: key("a") });
    renew(&mut records, &writer(1), &at(100));
    release(&mut records, &writer(1), &at(100));
    assert_eq!(records, before);
}

#[test]
fn used_up_fences_are_an_error_and_not_a_repetition() {
    let mut records = Records::default();
    records.fences.insert(key("a"), LastFence::new(Fence::MAX, at(999).now));
    let answer = ask(&mut records, &writer(1), 100);
    assert_eq!(answer, GrantAnswer::FencesSpent { key: key("a") });
    assert!(records.locks.is_empty());
}

/// Regression: the first request was delayed on a connection that broke; the second one was granted
/// and its lease was renewed for longer.
#[test]
fn a_delayed_ask_does_not_cut_off_a_renewal() {
    let mut records = held_by(&writer(1));
    assert_eq!(renew(&mut records, &attempt(1, &["a"], 1000), &at(101)), HoldAnswer::Done);
    ask(&mut records, &writer(1), 102);
    assert!(records.lock(&key("a"), at(1100).now).is_some());
    assert!(records.lock(&key("a"), at(1101).now).is_none());
    assert!(records.fence(&key("a"), at(2100).now).is_some(), "the fence outlives the lease");
}

#[test]
fn a_release_frees_our_keys_and_names_those_that_are_not_ours() {
    let mut records = held_by(&attempt(1, &["a", "b"], 10));
    records.locks.insert(key("a"), Lock::new(Content::Foreign(b"x"[..].into()), None));
    let answer = release(&mut records, &attempt(1, &["a", "b"], 10), &at(101));
    let foreign = HolderInfo::exclusive(key("a"), Owner::Foreign { value: b"x"[..].into() }, None, None);
    assert_eq!(answer, HoldAnswer::NotHeld { key: key("a"), held_by: Some(foreign) });
    assert_eq!(records.locks.keys().collect::<Vec<_>>(), [&key("a")]);
}
