//! Breaking the lease of another holder.

use super::*;
use crate::{BreakAnswer, BreakNote, LeaseBreak};

fn break_it(records: &mut Records, fence: u64, second: u64) -> (BreakAnswer, Vec<(u128, PushEvent)>) {
    let lease = LeaseBreak::new(Fence::new(fence).unwrap(), BreakNote::default());
    let request = Request::Break { key: key("a"), lease };
    let served = apply(records, request, &at(second));
    let Answer::Break(answer) = served.answer else { panic!("{:?}", served.answer) };
    (answer, told(&served.pushes))
}

fn fence_of(answer: &GrantAnswer) -> u64 {
    let GrantAnswer::Granted { fence } = answer else { panic!("{answer:?}") };
    fence.get()
}

/// The second of three readers is broken, and then the first: the fence decides, not the order.
#[test]
fn only_the_share_with_the_given_fence_is_broken() {
    let mut records = Records::default();
    let [first, second, third] =
        [1, 2, 3].map(|who| fence_of(&ask(&mut records, &reader(who), 99 + who as u64)));
    for (fence, who) in [(second, 2), (first, 1)] {
        let (answer, pushes) = break_it(&mut records, fence, 103);
        let BreakAnswer::Broken { holding } = answer else { panic!("{answer:?}") };
        assert_eq!((holding.fence.map(Fence::get), pushes), (Some(fence), vec![(who, PushEvent::Broken)]));
        assert!(!records.is_held_by(&key("a"), Holder::from_bits(who), at(103).now));
    }
    assert_eq!(records.holder_ids(&key("a"), at(103).now), [Holder::from_bits(3)]);
    assert!(matches!(break_it(&mut records, third + 1, 103).0, BreakAnswer::NotHeld { held_by: Some(_) }));
}

/// Regression, found by a soak test: an operator broke a key that an attempt kept while it waited
/// for a second key. The kept key, which was not granted yet, still had the fence of its previous
/// holder, so whoever had seen that fence broke this attempt.
#[test]
fn a_fence_that_was_released_names_nothing_that_is_kept_while_another_key_is_waited_for() {
    let several = attempt(2, &["a", "b"], 10);
    for is_handed in [true, false] {
        let mut records = Records::default();
        let seen = fence_of(&ask(&mut records, &writer(1), 100));
        ask(&mut records, &attempt(3, &["b"], 10), 100);
        if is_handed {
            wait(&mut records, &several, &at(101));
        }
        release(&mut records, &writer(1), &at(102));
        if !is_handed {
            wait(&mut records, &several, &at(103));
        }
        assert!(records.is_held_by(&key("a"), Holder::from_bits(2), at(103).now));
        let (answer, pushes) = break_it(&mut records, seen, 103);
        assert!(matches!(answer, BreakAnswer::NotHeld { held_by: Some(_) }), "{answer:?}");
        assert!(pushes.is_empty() && records.is_held_by(&key("a"), Holder::from_bits(2), at(103).now));
    }
}

#[test]
fn another_programs_lock_has_no_fence_by_which_it_could_be_broken() {
    let mut records = Records::default();
    let foreign = Lock::new(Content::Foreign(b"x"[..].into()), None);
    records.locks.insert(key("a"), foreign.clone());
    for fence in [1, u64::from(u32::MAX)] {
        assert!(matches!(break_it(&mut records, fence, 100).0, BreakAnswer::NotHeld { held_by: Some(_) }));
    }
    assert_eq!(records.locks[&key("a")], foreign);
}
