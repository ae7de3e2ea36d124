//! A hostile publisher, which receives on all channels and publishes anything there, but cannot
//! read the records of the key.

use super::*;

fn proof(channel: &str, nonce: u128) -> Proof {
    Proof { channel: Channel::new(channel), nonce: Nonce::from_bits(nonce) }
}

fn fenced(fence: u64) -> PushEvent {
    PushEvent::Granted { fence: Fence::new(fence).unwrap(), lasts: Ttl::new(2 * SECOND).unwrap() }
}

/// A waiter for a key that is held with fence 7, which listens on this channel.
fn one() -> WaiterRegistry {
    let waiting = WaiterRegistry::new(1);
    assert_eq!(waiting.asks(holder(1), Some(proof("here", 42)), START), None);
    let held_by = HolderInfo { fence: Fence::new(7), ..held(3600 * SECOND) };
    let place = QueuePosition { ticket: Ticket::new(1), before: 0, stood: false };
    waiting.answered(&attempt(1, &["a"]), &GrantAnswer::Busy { held_by, place: Some(place) }, START);
    waiting
}

/// Regression: an attacker saw the digits in a hint, and sent that the key was handed over. The
/// waiter accepted that, although the key had another holder.
#[test]
fn a_grant_without_its_proof_is_a_hint_and_no_grant() {
    let forged = [
        (None, 8),
        (Some(proof("here", 41)), 8),
        (Some(proof("there", 42)), 8),
        // An earlier holder of the key had a smaller fence.
        (Some(proof("here", 42)), 7),
    ];
    for (shown, fence) in forged {
        let waiting = one();
        assert!(waiting.hears(holder(1), fenced(fence), shown.as_ref(), START, START));
        assert_eq!(told(&waiting, 1, START), AGAIN, "{shown:?} {fence}");
        assert!(waiting.has_waiters(), "it waits");
    }
    let waiting = one();
    assert!(waiting.hears(holder(1), fenced(8), Some(&proof("here", 42)), START, START));
    assert!(matches!(told(&waiting, 1, START), Some(Wake::Granted { .. })));
}

/// Everybody received the hand-over, and the waiter received it only when it was over: repeating it
/// then describes the past.
#[test]
fn the_proof_of_a_grant_is_void_after_the_next_request() {
    let waiting = one();
    let later = START + 5 * SECOND;
    waiting.asks(holder(1), Some(proof("here", 43)), later);
    waiting.answered(&attempt(1, &["a"]), &busy(1, 3600 * SECOND, 0, false), later);
    waiting.hears(holder(1), fenced(8), Some(&proof("here", 42)), later, later);
    assert_eq!(told(&waiting, 1, later), AGAIN);
}

#[test]
fn a_lease_that_was_handed_over_began_after_the_ask_whose_secret_proves_it() {
    let waiting = one();
    let later = START + 5 * SECOND;
    waiting.asks(holder(1), Some(proof("here", 43)), later);
    waiting.hears(holder(1), fenced(8), Some(&proof("here", 43)), START, later + SECOND);
    let Some(Wake::Granted { since, .. }) = told(&waiting, 1, later + SECOND) else { panic!() };
    assert_eq!(since, later);
}

#[test]
fn a_flood_of_hints_has_nobody_flood_the_store() {
    for event in [PushEvent::AskAgain, PushEvent::First { left: Duration::ZERO }, fenced(8)] {
        let (waiting, mut asks) = (one(), 0);
        for ms in 0..3000 {
            let now = START + Duration::from_millis(ms);
            waiting.hears(holder(1), event, None, now, now);
            if told(&waiting, 1, now).is_some() {
                asks += 1;
                waiting.asks(holder(1), Some(proof("here", 42)), now);
                waiting.answered(&attempt(1, &["a"]), &busy(1, 3600 * SECOND, 0, true), now);
            }
        }
        assert!((1..=60).contains(&asks), "{event:?}: {asks} asks in 3 s");
    }
}

/// If it was repeated often enough, the waiter would wait for ever for a push that may get lost.
#[test]
fn no_hint_puts_an_ask_off() {
    let waiting = one();
    let mut now = START;
    while now < START + WaitQueue::RE_ASK {
        waiting.hears(holder(1), PushEvent::First { left: 3600 * SECOND }, None, now, now);
        now = now + SECOND / 2;
    }
    assert_eq!(told(&waiting, 1, START + WaitQueue::RE_ASK), AGAIN);
}

/// The message that it was handed a key is a hint too, and may come as often as it makes progress.
#[test]
fn a_waiter_that_advances_by_its_hints_asks_at_once() {
    let waiting = one();
    for ticket in 2..20 {
        let now = START + Duration::from_millis(ticket);
        waiting.hears(holder(1), PushEvent::AskAgain, None, now, now);
        assert_eq!(told(&waiting, 1, now), AGAIN, "{ticket}");
        waiting.asks(holder(1), Some(proof("here", 42)), now);
        let place = QueuePosition { ticket: Ticket::new(ticket), before: 0, stood: false };
        let answer = GrantAnswer::Busy { held_by: held(3600 * SECOND), place: Some(place) };
        waiting.answered(&attempt(1, &["a"]), &answer, now);
    }
}
