//! A store as a member of a quorum.

use super::*;

const MAX_TTL: u64 = 60;

/// The same attempt, proposing a fence to a member of a quorum.
pub(super) fn proposing(attempt: &Attempt, fence: u64) -> Attempt {
    let max_ttl = Ttl::new(Duration::from_secs(MAX_TTL)).unwrap();
    attempt.at_member(attempt.holder, crate::Proposal { fence: Fence::new(fence).unwrap(), max_ttl })
}

pub(super) fn rejoin(
    records: &mut Records,
    attempt: &Attempt,
    not_after: Option<Stamp>,
    context: &ApplyContext<'_>,
) -> HoldAnswer {
    super::super::rejoin(records, attempt, not_after, context).unwrap().answer
}

pub(super) fn raise(records: &mut Records, attempt: &Attempt, context: &ApplyContext<'_>) -> RaiseAnswer {
    super::super::raise(records, attempt, context).unwrap().answer
}

#[test]
fn a_fence_is_raised_only_for_the_holder_and_a_free_key_goes_to_the_first_waiter() {
    let (one, two) = (proposing(&writer(1), 100_000_005), proposing(&writer(2), 100_000_006));
    let mut records = Records::default();
    assert_eq!(rejoin(&mut records, &one, None, &at(100)), HoldAnswer::Done);
    let held = raise(&mut records, &two, &at(101));
    assert!(matches!(held, RaiseAnswer::NotHeld { held_by: Some(_), .. }), "{held:?}");
    assert_eq!(records.fence(&key("a"), at(101).now), Fence::new(100_000_005));
    wait(&mut records, &writer(3), &at(102));
    let ended = raise(&mut records, &one, &at(111));
    assert_eq!(ended, RaiseAnswer::NotHeld { key: key("a"), held_by: None });
    assert!(records.is_held_by(&key("a"), Holder::from_bits(3), at(111).now));
}

/// Regression: a member whose clock was an hour ahead gave the others a fence that they forgot after ten
/// minutes, and the next one, while it was down, was smaller.
#[test]
fn a_fence_at_most_a_day_ahead_of_the_clock_is_remembered_until_the_clock_has_passed_it() {
    let kept = LastFence::kept_for(writer(1).ttl).as_secs();
    for (ahead, forgotten) in
        [(3_700, 3_700 + kept), (100 + 86_400, 86_500 + kept), (101 + 86_400, 100 + kept)]
    {
        let one = proposing(&writer(1), ahead * 1_000_000);
        let mut after_rejoin = Records::default();
        assert_eq!(rejoin(&mut after_rejoin, &one, None, &at(100)), HoldAnswer::Done);
        let mut after_raise = Records::default();
        assert_eq!(ask(&mut after_raise, &proposing(&writer(1), 100_000_000), 100), granted(100_000_000));
        let fence = Fence::new(ahead * 1_000_000).unwrap();
        assert_eq!(raise(&mut after_raise, &one, &at(100)), RaiseAnswer::Raised { fence });
        for records in [after_rejoin, after_raise] {
            assert_eq!(records.fence(&key("a"), at(forgotten - 1).now), Some(fence));
            assert_eq!(records.fence(&key("a"), at(forgotten).now), None);
        }
    }
}

/// A renewal that is delayed past the release would restore the lease.
#[test]
fn a_member_is_not_rejoined_too_late_but_a_lease_that_lasts_is_renewed() {
    let one = proposing(&writer(1), 100_000_005);
    let mut records = Records::default();
    let nobody = HoldAnswer::NotHeld { key: key("a"), held_by: None };
    assert_eq!(rejoin(&mut records, &one, Some(at(99).now), &at(100)), nobody);
    assert_eq!(records, Records::default());
    assert_eq!(rejoin(&mut records, &one, Some(at(100).now), &at(100)), HoldAnswer::Done);
    assert_eq!(rejoin(&mut records, &one, Some(at(100).now), &at(105)), HoldAnswer::Done);
    assert!(records.lock(&key("a"), at(114).now).is_some());
}

#[test]
fn a_member_that_may_have_forgotten_abstains_for_the_longest_ttl_and_releases_all_the_same() {
    let one = writer(1);
    let (mut records, end) = (Records::default(), 100 + MAX_TTL + 1);
    records.voided = Some(at(100).now);
    for request in [
        Request::Grant { attempt: proposing(&one, 100_000_000), wait: None, not_after: None },
        Request::Rejoin { attempt: proposing(&one, 100_000_000), not_after: None },
        Request::Raise(proposing(&one, 100_000_000)),
        Request::Renew(proposing(&one, 100_000_000)),
    ] {
        let before = records.clone();
        let answer = apply(&mut records, request, &at(end - 3)).answer;
        assert_eq!((answer, &records), (Answer::Quarantined { left: Duration::from_secs(3) }, &before));
    }
    assert!(matches!(ask(&mut records, &one, end - 3), GrantAnswer::Granted { .. }), "it serves alone");
    assert_eq!(release(&mut records, &one, &at(end - 2)), HoldAnswer::Done);
    assert!(matches!(ask(&mut records, &proposing(&one, 1), end), GrantAnswer::Granted { .. }));
}
