//! The waiters that are made to ask.

use super::*;

#[test]
fn a_waiter_that_is_seen_twice_to_hold_the_key_asks_and_the_others_do_not() {
    let waiting = three(3600 * SECOND);
    for _ in 0..2 {
        waiting.finds(holder(1), &key("b"));
        waiting.finds(holder(9), &key("a"));
    }
    assert_eq!([1, 2, 3].map(|who| told(&waiting, who, START)), [None; 3], "it waits elsewhere");
    waiting.finds(holder(2), &key("a"));
    assert_eq!(told(&waiting, 2, START), None, "its notification may be on the way");
    waiting.finds(holder(2), &key("a"));
    assert_eq!([1, 2, 3].map(|who| told(&waiting, who, START)), [None, AGAIN, None]);
    // What was seen before its next request says nothing about what follows.
    waiting.asks(holder(2), None, START);
    waiting.finds(holder(2), &key("a"));
    assert_eq!(told(&waiting, 2, START), None);
    // A waiter that was notified already knows more than that.
    assert!(waiting.hears(holder(1), granted(), None, START, START));
    for _ in 0..2 {
        waiting.finds(holder(1), &key("a"));
    }
    assert!(matches!(told(&waiting, 1, START), Some(Wake::Granted { .. })));
    waiting.finds(holder(1), &key("a"));
    assert_eq!(told(&waiting, 1, START), None);
}

#[test]
fn all_waiters_of_a_key_are_asked_to_ask_except_those_that_just_did() {
    let waiting = three(3600 * SECOND);
    let later = START + SECOND;
    waiting.asks(holder(2), None, later);
    waiting.ask_for(&key("b"), later);
    assert_eq!([1, 2, 3].map(|who| told(&waiting, who, later)), [None; 3]);
    waiting.ask_for(&key("a"), later);
    assert_eq!([1, 2, 3].map(|who| told(&waiting, who, later)), [AGAIN, None, AGAIN]);
}

/// Regression: each waiter of a lost queue that came back looked at all the others. With so many,
/// that takes longer than a test may.
#[test]
fn a_lost_queue_costs_its_waiters_little_however_many_they_are() {
    const MANY: u128 = 200_000;
    let waiting = WaiterRegistry::new(1);
    (1..=MANY).for_each(|who| asks(&waiting, who, busy(who, SECOND, 1, false), START));
    for round in 1..=2 {
        let at = |who: u128| START + round * SECOND + Duration::from_micros(who as u64);
        (1..=MANY).for_each(|who| asks(&waiting, who, busy(who, SECOND, 1, round > 1), at(who)));
        // All of them asked before the last one, and each of them might have been lost since.
        let told = (1..MANY).filter(|&who| told(&waiting, who, at(0)) == AGAIN).count();
        assert_eq!(told, if round > 1 { 0 } else { MANY as usize - 1 });
    }
}

#[test]
fn every_waiter_that_does_not_hold_is_asked_to_ask() {
    let waiting = three(3600 * SECOND);
    assert!(waiting.hears(holder(1), granted(), None, START, START));
    assert!(matches!(told(&waiting, 1, START), Some(Wake::Granted { .. })));
    waiting.ask_for_all();
    assert_eq!([1, 2, 3].map(|who| told(&waiting, who, START)), [None, AGAIN, AGAIN]);
}

#[test]
fn a_key_is_listed_while_its_queue_has_a_waiter() {
    let waiting = WaiterRegistry::new(1);
    assert!(!waiting.has_waiters() && waiting.keys().is_empty());
    let waiting = three(3600 * SECOND);
    assert!(waiting.has_waiters());
    assert_eq!(waiting.keys(), [key("a")]);
    for who in 1..=3 {
        waiting.leave(holder(who), START);
    }
    assert!(!waiting.has_waiters() && waiting.keys().is_empty());
}

/// An answer that names no holder and grants nothing leaves a waiter where it was.
#[test]
fn an_answer_that_is_no_word_on_the_lock_keeps_the_place() {
    let late = GrantAnswer::TooLate { now: crate::Stamp::from_micros(0) };
    for answer in [GrantAnswer::Unfinished, late] {
        let waiting = three(3600 * SECOND);
        waiting.asks(holder(1), None, START);
        waiting.answered(&attempt(1, &["a"]), &answer, START);
        assert_eq!(waiting.len(), 3);
        assert_eq!(waiting.asks(holder(1), None, START), Some((key("a"), Ticket::new(1))));
    }
}

/// The first waiter behind another program's lock asks less and less often, and often again when
/// another waiter becomes the first.
#[test]
fn the_pauses_grow_while_a_waiter_is_first_and_start_over_when_it_is_not() {
    let waiting = WaiterRegistry::new(1);
    let answered = |before| asks(&waiting, 1, busy_elsewhere(before, true), START);
    let soon = START + Duration::from_millis(20);
    answered(0);
    assert!(told(&waiting, 1, soon).is_some(), "at first");
    for _ in 0..10 {
        answered(0);
    }
    assert_eq!(told(&waiting, 1, soon), None, "later");
    answered(1);
    answered(0);
    assert!(told(&waiting, 1, soon).is_some(), "anew");
}

/// Its queue had been lost, and it joined again: its former place is empty.
#[test]
fn a_waiter_that_is_given_another_place_leaves_its_old_one() {
    let waiting = three(3600 * SECOND);
    asks(&waiting, 2, busy(7, 3600 * SECOND, 6, true), START);
    assert_eq!(waiting.asks(holder(2), None, START), Some((key("a"), Ticket::new(7))));
    for who in 1..=3 {
        waiting.leave(holder(who), START);
    }
    assert!(!waiting.has_waiters());
}

#[test]
fn a_waiter_that_asks_for_all_but_is_not_first_leaves_the_first_some_time() {
    let waiting = WaiterRegistry::new(1);
    asks(&waiting, 1, busy(1, SECOND, 3, true), START);
    let ended = START + SECOND + ROUNDING;
    assert_eq!(told(&waiting, 1, ended + AFTER_THE_FIRST - Duration::from_millis(1)), None);
    assert_eq!(told(&waiting, 1, ended + 2 * AFTER_THE_FIRST), AGAIN);
}
