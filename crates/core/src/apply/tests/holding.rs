//! One attempt after another, without a queue.

use super::*;

#[test]
fn a_free_key_is_granted_and_a_taken_one_says_by_whom_and_for_how_long() {
    let mut records = Records::default();
    assert_eq!(ask(&mut records, &writer(1), 100), granted(100_000_000));
    let owner = Owner::Holder { holder: Holder::from_bits(1), label: Label::new("web-3").ok() };
    let left = Some(Duration::from_secs(7));
    let held_by = HolderInfo::exclusive(key("a"), owner, Fence::new(100_000_000), left);
    assert_eq!(ask(&mut records, &writer(2), 103), GrantAnswer::Busy { held_by, place: None });
    assert_eq!(ask(&mut records, &writer(2), 110), granted(110_000_000));
}

#[test]
fn a_repeated_request_of_an_attempt_is_granted_again_for_a_whole_ttl() {
    let mut records = held_by(&writer(1));
    assert_eq!(ask(&mut records, &writer(1), 105), granted(105_000_000));
    assert!(matches!(ask(&mut records, &writer(2), 114), GrantAnswer::Busy { .. }));
}

#[test]
fn several_keys_are_granted_together_under_one_fence_or_not_at_all() {
    let mut records = Records::default();
    records.fences.insert(key("b"), LastFence::new(Fence::new(900_000_000).unwrap(), at(999).now));
    assert_eq!(ask(&mut records, &attempt(1, &["a", "b"], 10), 100), granted(900_000_001));
    let before = records.clone();
    let GrantAnswer::Busy { held_by, .. } = ask(&mut records, &attempt(2, &["A", "b", "c"], 10), 101) else {
        panic!("b is taken")
    };
    assert_eq!((held_by.key, &records), (key("b"), &before));
}

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
