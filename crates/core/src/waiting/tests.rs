mod asked;
mod hostile;

use std::task::Context;

use super::*;
use crate::by_hand::ByHand;
use crate::{Claim, Fence, Owner, Ttl};

const START: Instant = Instant::from_nanos(1_000_000_000_000);
const SECOND: Duration = Duration::from_secs(1);
const AGAIN: Option<Wake> = Some(Wake::AskAgain);

fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

fn holder(who: u128) -> Holder {
    Holder::from_bits(who)
}

fn attempt(who: u128, names: &[&str]) -> Attempt {
    let claim = Claim::exclusive_all(names.iter().map(|name| key(name))).unwrap();
    Attempt::new(claim, holder(who), None, Ttl::new(30 * SECOND).unwrap())
}

fn held(left: Duration) -> HolderInfo {
    let owner = Owner::Holder { holder: holder(99), label: None };
    HolderInfo::exclusive(key("a"), owner, None, Some(left))
}

fn busy(who: u128, left: Duration, before: u64, stood: bool) -> GrantAnswer {
    let place = QueuePosition { ticket: Ticket::new(who as u64), before, stood };
    GrantAnswer::Busy { held_by: held(left), place: Some(place) }
}

/// The same behind another program's lock, which does not end.
fn busy_elsewhere(before: u64, stood: bool) -> GrantAnswer {
    let held_by = HolderInfo::exclusive(key("a"), Owner::Foreign { value: b"x"[..].into() }, None, None);
    let place = QueuePosition { ticket: Ticket::new(1), before, stood };
    GrantAnswer::Busy { held_by, place: Some(place) }
}

/// Asks for `a`, and gets this answer.
fn asks(waiting: &WaiterRegistry, who: u128, answer: GrantAnswer, now: Instant) {
    waiting.asks(holder(who), None, now);
    waiting.answered(&attempt(who, &["a"]), &answer, now);
}

/// Numbers 1 to 3 wait for `a`, which is held for this long.
fn three(left: Duration) -> WaiterRegistry {
    let waiting = WaiterRegistry::new(1);
    for who in 1..=3 {
        assert_eq!(waiting.asks(holder(who), None, START), None);
        waiting.answered(&attempt(who, &["a"]), &busy(who, left, who as u64 - 1, false), START);
    }
    waiting
}

fn told(waiting: &WaiterRegistry, who: u128, now: Instant) -> Option<Wake> {
    let clock = ByHand::default();
    clock.set(now);
    match waiting.called(holder(who), &clock).as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(wake) => Some(wake),
        Poll::Pending => None,
    }
}

fn by_asking() -> GrantAnswer {
    GrantAnswer::Granted { fence: Fence::new(6).unwrap() }
}

fn granted() -> PushEvent {
    PushEvent::Granted { fence: Fence::new(5).unwrap(), lasts: Ttl::new(2 * SECOND).unwrap() }
}

#[test]
fn only_the_first_waiter_asks_again_and_does_so_when_the_lease_ends() {
    let waiting = three(SECOND);
    assert_eq!([1, 2, 3].map(|who| told(&waiting, who, START + SECOND)), [None; 3]);
    let soon = START + SECOND + ROUNDING + SPREAD;
    assert_eq!([1, 2, 3].map(|who| told(&waiting, who, soon)), [AGAIN, None, None]);
    assert_eq!(told(&waiting, 1, soon), None, "once");
}

#[test]
fn the_first_asks_again_from_time_to_time_however_long_the_lease_is() {
    let waiting = three(3600 * SECOND);
    assert_eq!(told(&waiting, 1, START + WaitQueue::RE_ASK / 2 - Duration::from_millis(1)), None);
    assert_eq!(told(&waiting, 1, START + WaitQueue::RE_ASK), AGAIN);
}

/// No store notifies the queue that another program's lock has ended.
#[test]
fn the_first_waiter_behind_another_programs_lock_polls_and_later_ones_do_not() {
    for (before, soon) in [(0, true), (1, false)] {
        let waiting = WaiterRegistry::new(1);
        asks(&waiting, 1, busy_elsewhere(before, false), START);
        assert_eq!(told(&waiting, 1, START + Duration::from_millis(150)).is_some(), soon);
    }
}

#[test]
fn a_waiter_that_holds_other_keys_asks_before_their_leases_end() {
    let waiting = three(3600 * SECOND);
    waiting.asks(holder(4), None, START);
    let mut two = attempt(4, &["a", "b"]);
    two.ttl = Ttl::new(SECOND).unwrap();
    waiting.answered(&two, &busy(4, 3600 * SECOND, 3, false), START);
    assert_eq!(told(&waiting, 4, START + SECOND / 2), AGAIN);
    assert_eq!(waiting.asks(holder(4), None, START + SECOND / 2), Some((key("a"), Ticket::new(4))));
}

#[test]
fn a_push_before_the_first_poll_is_not_lost_and_the_next_waiter_asks_later_for_all() {
    let waiting = three(3600 * SECOND);
    let now = START + 100 * SECOND;
    assert!(waiting.hears(holder(1), granted(), None, START, now));
    let PushEvent::Granted { fence, lasts } = granted() else { unreachable!() };
    assert_eq!(told(&waiting, 1, now), Some(Wake::Granted { fence, since: START, lasts }));
    // The second one last asked long ago, but nothing makes it worth asking now.
    let waiting = three(3600 * SECOND);
    waiting.hears(holder(1), granted(), None, now, now);
    assert_eq!(told(&waiting, 2, now), None);
    assert_eq!(told(&waiting, 2, now + WaitQueue::RE_ASK), AGAIN);
}

#[test]
fn a_waiter_granted_by_asking_makes_the_next_one_ask_at_once() {
    let waiting = three(3600 * SECOND);
    let now = START + 2 * SECOND;
    assert_eq!(waiting.asks(holder(1), None, now), Some((key("a"), Ticket::new(1))));
    waiting.answered(&attempt(1, &["a"]), &by_asking(), now);
    assert_eq!([2, 3].map(|who| told(&waiting, who, now)), [AGAIN, None]);
}

#[test]
fn when_one_had_been_forgotten_the_others_ask_each_once() {
    let waiting = three(3600 * SECOND);
    let now = START + 5 * SECOND;
    asks(&waiting, 1, busy(1, 3600 * SECOND, 0, false), now);
    let soon = now + Duration::from_millis(1);
    assert_eq!([1, 2, 3].map(|who| told(&waiting, who, soon)), [None, AGAIN, AGAIN]);
    for who in [2, 3] {
        waiting.asks(holder(who), None, soon);
    }
    for who in [2, 3] {
        waiting.answered(&attempt(who, &["a"]), &busy(who, 3600 * SECOND, who as u64 - 1, false), soon);
    }
    let later = soon + Duration::from_millis(1);
    assert_eq!([1, 2, 3].map(|who| told(&waiting, who, later)), [AGAIN, None, None]);
    asks(&waiting, 1, busy(1, 3600 * SECOND, 0, true), later);
    assert_eq!([1, 2, 3].map(|who| told(&waiting, who, later)), [None; 3]);
}

#[test]
fn after_a_late_hand_over_every_waiter_asks() {
    let waiting = three(3600 * SECOND);
    let now = START + 3 * SECOND;
    waiting.hears(holder(1), granted(), None, START, now);
    assert!(matches!(told(&waiting, 1, now), Some(Wake::Granted { .. })));
    assert_eq!([2, 3].map(|who| told(&waiting, who, now)), [AGAIN; 2]);
    // It asks, and finds its place again.
    assert_eq!(waiting.asks(holder(1), None, now), Some((key("a"), Ticket::new(1))));
}

#[test]
fn the_first_waiter_after_a_hand_over_asks_at_the_end_of_the_window() {
    let waiting = three(3600 * SECOND);
    let now = START + 100 * SECOND;
    waiting.hears(holder(2), PushEvent::First { left: 2 * SECOND }, None, now, now);
    assert_eq!(told(&waiting, 2, now + 2 * SECOND), None);
    assert_eq!(told(&waiting, 2, now + 2 * SECOND + ROUNDING + SPREAD), AGAIN);
}

/// Regression: connections decode messages before the requester's task runs, so the waiter read the
/// answer after the message behind it, and asked when the former holder's lease would have ended.
#[test]
fn a_message_that_is_read_before_the_older_answer_still_says_when_to_ask() {
    for first in [true, false] {
        let waiting = three(3600 * SECOND);
        let (who, now) = (if first { 1 } else { 2 }, START + SECOND);
        waiting.asks(holder(who), None, now);
        waiting.hears(holder(who), PushEvent::First { left: 2 * SECOND }, None, now, now);
        waiting.answered(&attempt(who, &["a"]), &busy(who, 3600 * SECOND, who as u64, true), now);
        assert_eq!(told(&waiting, who, now + 2 * SECOND), None);
        assert_eq!(told(&waiting, who, now + 2 * SECOND + ROUNDING + SPREAD), AGAIN, "{who}");
    }
}

/// Regression: an endless time plus a moment overflowed.
///
/// Regression: a waiter before it gave up, and it was told the hour that was left of the holder's
/// lease. It did not ask for that hour, so if the push for its turn had been lost, it would have
/// waited in vain.
#[test]
fn a_lease_that_lasts_for_ever_is_waited_for_like_any_long_one() {
    let waiting = three(Duration::MAX);
    waiting.hears(holder(2), PushEvent::First { left: Duration::MAX }, None, START, START);
    assert_eq!([1, 2].map(|who| told(&waiting, who, START + WaitQueue::RE_ASK)), [AGAIN; 2]);
}

/// With two connections, a push may come after the answer with the same content.
#[test]
fn a_holder_is_not_woken_again_and_an_unwanted_grant_is_released() {
    let waiting = three(3600 * SECOND);
    asks(&waiting, 1, by_asking(), START + SECOND);
    assert!(waiting.hears(holder(1), granted(), None, START, START + SECOND));
    assert_eq!(waiting.len(), 2);
    waiting.leave(holder(1), START + SECOND);
    assert!(!waiting.hears(holder(1), granted(), None, START, START + SECOND));
    assert!(waiting.hears(holder(1), PushEvent::AskAgain, None, START, START + SECOND));
}

#[test]
fn waiters_that_left_leave_nothing_behind() {
    let waiting = three(SECOND);
    waiting.hears(holder(2), granted(), None, START, START);
    for who in 1..=3 {
        assert!(waiting.leave(holder(who), START));
        assert!(!waiting.leave(holder(who), START), "nobody any more");
    }
    asks(&waiting, 4, by_asking(), START);
    let waiters = locked(&waiting.0);
    assert!(waiters.all.is_empty() && waiters.by_key.is_empty());
}

#[test]
fn a_waiter_without_push_asks_again_soon_wherever_it_is_queued() {
    for deaf in [false, true] {
        let waiting = WaiterRegistry::new(1);
        for _ in 0..20 {
            waiting.asks(holder(1), None, START);
            if deaf {
                waiting.cannot_be_told(holder(1));
            }
            waiting.answered(&attempt(1, &["a"]), &busy(1, 3600 * SECOND, 7, true), START);
            assert_eq!(told(&waiting, 1, START), None, "but not at once");
            assert_eq!(told(&waiting, 1, START + Duration::from_millis(150)).is_some(), deaf);
        }
        if deaf {
            waiting.asks(holder(1), None, START);
            waiting.cannot_be_told(holder(1));
            waiting.answered(&attempt(1, &["a"]), &busy(1, Duration::from_millis(1), 7, true), START);
            assert_eq!(told(&waiting, 1, START + Duration::from_millis(1)), None);
            let ended = START + Duration::from_millis(1) + ROUNDING + SPREAD;
            assert_eq!(told(&waiting, 1, ended), AGAIN, "the holder has ended");
        }
    }
}

#[test]
fn one_of_the_waiters_without_push_asks_and_when_it_leaves_the_next_asks_at_once() {
    let waiting = WaiterRegistry::new(1);
    for who in [1, 2] {
        waiting.asks(holder(who), None, START);
        waiting.cannot_be_told(holder(who));
        waiting.answered(&attempt(who, &["a"]), &busy(who, 3600 * SECOND, 3, true), START);
    }
    let later = START + 9 * SECOND;
    assert_eq!(told(&waiting, 2, later), None);
    waiting.leave(holder(1), later);
    assert_eq!(told(&waiting, 2, later), AGAIN);
}

/// A waiter that receives the hand-over, and only then the earlier answer, no longer waits.
#[test]
fn an_answer_that_is_read_after_the_push_behind_it_changes_nothing() {
    let waiting = WaiterRegistry::new(1);
    for who in [1, 2] {
        waiting.asks(holder(who), None, START);
    }
    assert!(waiting.hears(holder(1), granted(), None, START, START));
    for who in [1, 2] {
        waiting.answered(&attempt(who, &["a"]), &busy(who, 3600 * SECOND, 0, true), START);
    }
    assert_eq!(waiting.len(), 1);
    assert_eq!(told(&waiting, 2, START + WaitQueue::RE_ASK), AGAIN, "it asks for all now");
    assert!(matches!(told(&waiting, 1, START), Some(Wake::Granted { .. })));
}

/// It was handed the lock, asked before it read that, too late: it is in the queue like any other.
#[test]
fn a_push_from_before_a_request_is_ignored_after_it() {
    let waiting = three(3600 * SECOND);
    assert!(waiting.hears(holder(1), granted(), None, START, START));
    waiting.ask_for_all();
    asks(&waiting, 1, busy(4, 3600 * SECOND, 3, false), START);
    assert_eq!(told(&waiting, 1, START), None);
    // The answer says that its place was lost, so the other waiters check theirs.
    assert_eq!(told(&waiting, 2, START), AGAIN);
}
