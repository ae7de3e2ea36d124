//! Readers and permits.

use super::*;
use crate::{Family, Misuse, Share, Shares};

fn claiming(who: u128, claim: Result<Claim, Misuse>, ttl_s: u64) -> Attempt {
    let ttl = Ttl::new(Duration::from_secs(ttl_s)).unwrap();
    Attempt::new(claim.unwrap(), Holder::from_bits(who), None, ttl)
}

fn permits(who: u128, weight: u32, of: u32) -> Attempt {
    claiming(who, Claim::permits([key("a")], weight, of), 10)
}

fn is_granted(answer: &GrantAnswer) -> bool {
    matches!(answer, GrantAnswer::Granted { .. })
}

fn holders(records: &Records, second: u64) -> Vec<u128> {
    held(records, "a", second).into_iter().map(|(who, ..)| who).collect()
}

fn nothing_is_left(records: &Records) -> bool {
    records.locks.is_empty() && records.shares.is_empty() && records.queues.is_empty()
}

fn marker_ends(records: &Records) -> u64 {
    let lock = &records.locks[&key("a")];
    assert_eq!(lock.content, Content::Marker(records.family(&key("a"), at(0).now).unwrap()));
    assert_eq!(lock.ends, records.shares[&key("a")].end());
    lock.ends.unwrap().as_micros() / 1_000_000
}

#[test]
fn asking_again_is_granted_again_and_takes_up_no_more() {
    let mut records = held_by(&permits(1, 2, 3));
    let longer = claiming(1, Claim::permits([key("a")], 2, 3), 60);
    assert_eq!(renew(&mut records, &longer, &at(101)), HoldAnswer::Done);
    assert_eq!(ask(&mut records, &permits(1, 2, 3), 102), granted(102_000_000));
    assert_eq!(records.shares[&key("a")].weight(), 2);
    assert_eq!(marker_ends(&records), 161, "no ask shortens what a renewal made longer");
    assert_eq!(held(&records, "a", 102), [(1, Mode::Permits { weight: 2, of: 3 }, 102_000_000)]);
}

#[test]
fn the_marker_ends_with_the_last_share_also_when_that_becomes_earlier() {
    let mut records = held_by(&reader(1));
    ask(&mut records, &shared(2, &["a"], 60), 100);
    assert_eq!(marker_ends(&records), 160);
    release(&mut records, &reader(2), &at(101));
    assert_eq!(marker_ends(&records), 110);
    assert_eq!(renew(&mut records, &reader(1), &at(105)), HoldAnswer::Done);
    assert_eq!(marker_ends(&records), 115);
    release(&mut records, &reader(1), &at(106));
    assert!(nothing_is_left(&records));
}

/// The marker was deleted, a mutex was held and released, and a new reader created it again.
#[test]
fn a_reader_whose_marker_was_lost_never_comes_back_to_life() {
    for in_between in [None, Some(writer(9)), Some(permits(9, 1, 2))] {
        let mut records = held_by(&reader(1));
        records.locks.remove(&key("a"));
        if let Some(other) = in_between {
            assert!(is_granted(&ask(&mut records, &other, 101)));
            release(&mut records, &other, &at(102));
        }
        assert!(is_granted(&ask(&mut records, &reader(2), 103)));
        assert_eq!(holders(&records, 103), [2]);
        assert!(matches!(renew(&mut records, &reader(1), &at(103)), HoldAnswer::NotHeld { .. }));
        assert!(matches!(release(&mut records, &reader(1), &at(103)), HoldAnswer::NotHeld { .. }));
        assert_eq!(holders(&records, 103), [2]);
    }
}

#[test]
fn a_stranger_s_value_voids_the_shares_and_is_left_alone() {
    let mut records = held_by(&reader(1));
    let foreign = Lock::new(Content::Foreign(b"x"[..].into()), None);
    records.locks.insert(key("a"), foreign.clone());
    let renewed = renew(&mut records, &reader(1), &at(101));
    assert!(matches!(renewed, HoldAnswer::NotHeld { held_by: Some(_), .. }));
    assert_eq!((records.locks.get(&key("a")), records.shares.len()), (Some(&foreign), 0));
}

#[test]
fn a_marker_without_shares_is_nobody_s() {
    for asks in [reader(1), permits(1, 1, 2), writer(1)] {
        let mut records = Records::default();
        records.locks.insert(key("a"), Lock::new(Content::Marker(Family::Shared), None));
        assert_eq!(held(&records, "a", 100), []);
        assert!(is_granted(&ask(&mut records, &asks, 100)));
        release(&mut records, &asks, &at(100));
        assert!(nothing_is_left(&records));
    }
}

#[test]
fn a_request_that_is_granted_in_turn_also_advances_the_waiters_behind_it() {
    let mut records = held_by(&writer(1));
    for waits in [reader(2), reader(3)] {
        wait(&mut records, &waits, &at(109));
    }
    let (answer, pushes) = wait(&mut records, &reader(2), &at(110));
    assert!(is_granted(&answer));
    assert_eq!(pushes.iter().map(|(who, _)| *who).collect::<Vec<_>>(), [3]);
    assert_eq!(holders(&records, 110), [3, 2], "the fence of an answer is the last that a request makes");
}

/// Otherwise a process that died while its writer waited would keep new readers out.
#[test]
fn a_writer_that_is_gone_keeps_no_reader_waiting() {
    let mut records = held_by(&reader(1));
    listens(&mut records, &writer(2), Channel::new("gone"), 101);
    let context = at(102).with_subscribers(&Deaf("gone"));
    let (answer, _) = wait(&mut records, &reader(3), &context);
    assert!(is_granted(&answer));
    assert!(records.queues.is_empty());
}

#[test]
fn a_process_that_ignores_a_share_is_skipped_with_all_its_waiters() {
    let mut records = held_by(&writer(1));
    listens(&mut records, &reader(2), Channel::new("stopped"), 101);
    listens(&mut records, &reader(3), Channel::new("here"), 101);
    listens(&mut records, &writer(4), Channel::new("stopped"), 101);
    listens(&mut records, &writer(5), Channel::new("here"), 101);
    pushed(&mut records, Request::Release(writer(1)), &at(102));
    assert_eq!(holders(&records, 102), [2, 3]);
    renew(&mut records, &reader(3), &at(103));
    let pushes = pushed(&mut records, Request::Release(reader(3)), &at(105));
    assert_eq!(pushes, [(5, handed(105_000_000))], "number 4 listens where number 2 did");
}

#[test]
fn a_waiter_that_claimed_its_share_is_not_skipped_when_the_share_ends() {
    let claims: [fn(&mut Records); 3] = [
        |records| drop(renew(records, &reader(2), &at(103))),
        |records| drop(ask(records, &reader(2), 103)),
        |records| drop(renew(records, &reader(2), &at(105))),
    ];
    for claims in claims {
        let mut records = held_by(&writer(1));
        listens(&mut records, &reader(2), Channel::new("here"), 101);
        listens(&mut records, &writer(3), Channel::new("here"), 101);
        pushed(&mut records, Request::Release(writer(1)), &at(102));
        claims(&mut records);
        pushed(&mut records, Request::Advance(vec![key("a")]), &at(114));
        assert!(records.is_held_by(&key("a"), Holder::from_bits(3), at(105).now));
    }
}

#[test]
fn no_request_clears_away_or_hands_out_more_than_a_hundred_shares() {
    let mut records = held_by(&writer(1));
    for who in 2..=151 {
        wait(&mut records, &reader(who), &at(101));
    }
    let served = apply(&mut records, Request::Release(writer(1)), &at(102));
    assert_eq!((served.unfinished, holders(&records, 102).len()), (vec![key("a")], 100));
    let served = apply(&mut records, Request::Advance(vec![key("a")]), &at(102));
    assert_eq!((served.unfinished, holders(&records, 102).len()), (vec![], 150));
    // All of them end at once.
    let answer = ask(&mut records, &writer(200), 104);
    assert_eq!((answer, records.shares[&key("a")].all().len()), (GrantAnswer::Unfinished, 50));
    assert!(is_granted(&ask(&mut records, &writer(200), 104)));
}

#[test]
fn several_keys_are_shared_together_under_one_fence() {
    let mut records = held_by(&attempt(1, &["b"], 10));
    let both = |who| shared(who, &["b", "a"], 10);
    let GrantAnswer::Busy { held_by, .. } = wait(&mut records, &both(2), &at(101)).0 else { panic!() };
    assert_eq!((held_by.key, holders(&records, 101)), (key("b"), vec![2]));
    let pushes = pushed(&mut records, Request::Release(attempt(1, &["b"], 10)), &at(102));
    assert_eq!(pushes, [(2, PushEvent::AskAgain)]);
    assert_eq!(wait(&mut records, &both(2), &at(103)).0, granted(103_000_000));
    let fences = ["a", "b"].map(|name| records.shares[&key(name)].of(Holder::from_bits(2)).unwrap().fence);
    assert_eq!(fences, [Fence::new(103_000_000); 2]);
    assert!(is_granted(&ask(&mut records, &both(3), 104)));
    for who in [2, 3] {
        release(&mut records, &both(who), &at(105));
    }
    assert!(nothing_is_left(&records));
}

/// Servers count milliseconds; on one clock a lease must not end early.
#[test]
fn a_share_ends_at_the_next_whole_millisecond() {
    let ttl = Ttl::new(Duration::from_millis(50)).unwrap();
    assert_eq!(Share::end(Stamp::from_micros(7_000), ttl), Stamp::from_micros(57_000));
    assert_eq!(Share::end(Stamp::from_micros(7_001), ttl), Stamp::from_micros(58_000));
}

#[test]
fn a_shared_holder_raises_its_fence_and_rejoins_at_a_member() {
    use super::member::{proposing, raise, rejoin};
    let mut records = held_by(&reader(2));
    let one = |fence| proposing(&reader(1), fence);
    assert_eq!(rejoin(&mut records, &one(100_000_007), None, &at(100)), HoldAnswer::Done);
    assert_eq!(held(&records, "a", 100), [(2, Mode::Shared, 100_000_000), (1, Mode::Shared, 100_000_007)]);
    let to = |fence| RaiseAnswer::Raised { fence: Fence::new(fence).unwrap() };
    assert_eq!(raise(&mut records, &one(100_000_009), &at(101)), to(100_000_009));
    wait(&mut records, &writer(3), &at(101));
    let other = rejoin(&mut records, &proposing(&reader(4), 100_000_010), None, &at(102));
    assert!(matches!(other, HoldAnswer::NotHeld { .. }));
    assert_eq!(rejoin(&mut records, &one(100_000_009), None, &at(102)), HoldAnswer::Done, "it holds");
}

#[test]
fn those_that_ended_are_forgotten_in_the_end() {
    let mut records = held_by(&reader(1));
    let end = 110 + WaitQueue::KEPT_FOR.as_secs();
    records.forget_ended(at(end - 1).now);
    assert_eq!(records.shares.get(&key("a")).map(|shares: &Shares| shares.all().len()), Some(1));
    records.forget_ended(at(end).now);
    assert!(nothing_is_left(&records));
}
