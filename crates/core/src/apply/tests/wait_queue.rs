//! The queue: who waits, and whose turn it is.

use super::*;

#[test]
fn a_waiter_that_is_handed_the_lock_and_asks_all_the_same_is_granted_it() {
    let mut records = a_line();
    release(&mut records, &writer(1), &at(105));
    let (answer, pushes) = wait(&mut records, &writer(2), &at(106));
    assert_eq!((answer, pushes), (granted(106_000_000), vec![]));
    assert!(records.queue(&key("a"), at(106).now).unwrap().unclaimed().is_none());
}

#[test]
fn a_try_does_not_overtake_the_queue() {
    let mut records = a_line();
    let (answer, late) = (ask(&mut records, &writer(9), 110), at(110));
    let GrantAnswer::Busy { held_by, place: None } = answer else { panic!("{answer:?}") };
    assert!(matches!(held_by.owner, Owner::Holder { holder, .. } if holder == Holder::from_bits(2)));
    assert!(records.is_held_by(&key("a"), Holder::from_bits(2), late.now));
}

#[test]
fn a_waiter_that_does_not_listen_is_not_handed_a_lock() {
    let mut records = held_by(&writer(1));
    for (who, channel) in [(2, "gone"), (3, "gone"), (4, "here"), (5, "gone")] {
        listens(&mut records, &writer(who), Channel::new(channel), 101);
    }
    let context = at(105).with_subscribers(&Deaf("gone"));
    let pushes = pushed(&mut records, Request::Release(writer(1)), &context);
    assert_eq!(pushes, [(4, handed(105_000_000)), (5, FIRST)]);
}

#[test]
fn a_process_that_lets_a_lock_lie_costs_one_window_for_all_its_waiters() {
    for stopped in [Channel::new("stopped"), Channel::silent(7)] {
        let mut records = held_by(&writer(1));
        for (who, channel) in [(2, &stopped), (3, &stopped), (4, &Channel::new("here"))] {
            listens(&mut records, &writer(who), channel.clone(), 101);
        }
        // Nobody listens on a silent channel, and that proves nothing.
        let context = at(105).with_subscribers(&Deaf("?000000000007"));
        let pushes = pushed(&mut records, Request::Release(writer(1)), &context);
        assert_eq!(pushes, [(2, handed(105_000_000)), (4, FIRST)]);
        let pushes = pushed(&mut records, Request::Advance(vec![key("a")]), &at(107));
        assert_eq!(pushes, [(4, handed(107_000_000))]);
        // It runs again, and finds its place before those who came later.
        let ticket = Some((key("a"), Ticket::new(101_000_001)));
        let (answer, _) = wait(&mut records, &writer(6), &at(108));
        assert_eq!(place(&answer).before, 0);
        let wait = Wait { channel: Some(stopped), ticket, ..Wait::default() };
        let (answer, _) = wait_as(&mut records, &writer(3), wait, &at(108));
        let position = QueuePosition { ticket: Ticket::new(101_000_001), before: 0, stood: false };
        assert_eq!(place(&answer), position);
        let pushes = pushed(&mut records, Request::Release(writer(4)), &at(108));
        assert_eq!(pushes, [(3, handed(108_000_000)), (6, FIRST)]);
    }
}

/// Nobody is notified on a silent channel.
#[test]
fn a_push_to_a_process_that_cannot_be_notified_has_no_channel() {
    let mut records = held_by(&writer(1));
    for (who, channel) in [(2, Channel::silent(7)), (3, Channel::silent(8)), (4, Channel::new("here"))] {
        listens(&mut records, &writer(who), channel, 101);
    }
    let served = apply(&mut records, Request::Release(writer(1)), &at(105));
    let told: Vec<_> = served.pushes.iter().map(|push| (push.holder.bits(), push.to.clone())).collect();
    // The witness is one that can be notified.
    assert_eq!(told, [(2, None), (4, Some(Channel::new("here")))]);
}

#[test]
fn no_request_clears_away_more_than_a_hundred_waiters() {
    let mut records = held_by(&writer(1));
    for who in 2..=251 {
        listens(&mut records, &writer(who), Channel::new("gone"), 101);
    }
    let context = at(105).with_subscribers(&Deaf("gone"));
    for left in [150, 50] {
        let served = apply(&mut records, Request::Release(writer(1)), &context);
        assert_eq!((served.unfinished, served.pushes), (vec![key("a")], vec![]));
        assert_eq!(records.queue(&key("a"), context.now).unwrap().len(), left);
    }
    // Nobody passes the waiters that are yet to be removed.
    assert_eq!(grant(&mut records.clone(), &writer(1000), None, &context), granted(105_000_000));
    let served = apply(&mut records, Request::Advance(vec![key("a")]), &context);
    assert!(served.unfinished.is_empty() && records.queues.is_empty() && records.locks.is_empty());
}

/// When the first waiter gives up, the new first one must learn when the holder's lease ends;
/// otherwise nobody in the queue would know.
#[test]
fn a_waiter_that_becomes_first_learns_when_the_lease_ends() {
    let mut records = a_line();
    let pushes = pushed(&mut records, Request::Release(writer(3)), &at(105));
    assert_eq!(pushes, []);
    let pushes = pushed(&mut records, Request::Release(writer(2)), &at(106));
    assert_eq!(pushes, [(4, PushEvent::First { left: Duration::from_secs(4) })]);
}

/// A process that asks will also receive what it was handed; skipped again at once, it would lose
/// its place a second time.
#[test]
fn a_process_that_asks_is_not_skipped_for_a_hand_over_that_another_of_its_waiters_missed() {
    let mut records = held_by(&writer(1));
    for who in 2..=4 {
        wait(&mut records, &writer(who), &at(101));
    }
    release(&mut records, &writer(1), &at(102));
    // Number 2 was handed the lock and did not receive the push; another waiter of its process asks
    // after that lease ended.
    let (answer, pushes) = wait(&mut records, &writer(4), &at(104));
    assert_eq!(pushes, [(3, handed(104_000_000)), (4, FIRST)]);
    assert_eq!(place(&answer).before, 0);
}

/// Another waiter on the same channel may be as dead as the one that was handed the lock.
#[test]
fn the_witness_of_another_process_near_the_front_is_notified_when_to_ask() {
    let queues = [(vec!["x", "x", "x", "y"], 5), (vec!["x"; 9], 3)];
    for (channels, witness) in queues {
        let mut records = held_by(&writer(1));
        for (who, channel) in (2..).zip(channels) {
            listens(&mut records, &writer(who), Channel::new(channel), 101);
        }
        let pushes = pushed(&mut records, Request::Release(writer(1)), &at(105));
        assert_eq!(pushes, [(2, handed(105_000_000)), (witness, FIRST)]);
    }
}

#[test]
fn a_queue_can_be_full() {
    let mut records = a_line();
    let wait = |queue_limit| Wait { queue_limit: Some(queue_limit), ..Wait::default() };
    let (answer, _) = wait_as(&mut records, &writer(5), wait(3), &at(105));
    assert!(matches!(answer, GrantAnswer::QueueFull { length: 3, .. }), "{answer:?}");
    assert_eq!(records, a_line());
    // A waiter that is in the queue already is not refused.
    let (answer, _) = wait_as(&mut records, &writer(3), wait(3), &at(105));
    assert!(place(&answer).stood);
    let (answer, _) = wait_as(&mut records, &writer(5), wait(4), &at(105));
    assert_eq!(place(&answer).before, 3);
}

#[test]
fn a_queue_is_forgotten_when_its_waiters_stop_asking() {
    let mut records = a_line();
    let end = 104 + WaitQueue::KEPT_FOR.as_secs();
    let (answer, pushes) = wait(&mut records.clone(), &writer(9), &at(end - 1));
    assert_eq!((place(&answer).before, pushes.len()), (2, 2));
    assert_eq!(wait(&mut records, &writer(9), &at(end)), (granted(end * 1_000_000), vec![]));
}

#[test]
fn a_claim_that_lost_a_key_releases_the_later_ones_while_it_waits() {
    let mut records = held_by(&attempt(1, &["c"], 10));
    let all = attempt(3, &["a", "b", "c"], 10);
    wait(&mut records, &all, &at(101));
    wait(&mut records, &attempt(5, &["b"], 10), &at(102));
    records.locks.remove(&key("a"));
    ask(&mut records, &writer(4), 103);
    let (answer, pushes) = wait(&mut records, &all, &at(104));
    assert_eq!(place(&answer).before, 0);
    assert_eq!(pushes, [(5, handed(104_000_000))]);
    assert!(records.queue(&key("c"), at(104).now).is_none());
}

fn awaited(records: &Records) -> bool {
    match &records.locks[&key("a")].content {
        Content::Lease { awaited, .. } => *awaited,
        other => panic!("{other:?}"),
    }
}

/// The lock's own record tells its holder whether a release has anybody to hand it to.
#[test]
fn a_lock_knows_whether_somebody_waits_for_it_however_it_was_taken() {
    let first = writer(1);
    let mut records = held_by(&first);
    assert!(!awaited(&records));
    ask(&mut records, &first, 101);
    assert!(!awaited(&records));

    let mut records = a_line();
    for _ in 0..2 {
        ask(&mut records, &first, 105);
        assert!(awaited(&records), "also when it asked again");
    }
    // The first waiter asks when the lease has ended, and the others are behind it.
    wait(&mut records, &writer(2), &at(115));
    assert!(awaited(&records));
}

/// The queue had lost its place. It comes back with the ticket, so no later waiter passes it.
#[test]
fn a_waiter_that_returns_with_its_ticket_goes_before_those_behind_it() {
    let mut records = a_line();
    let second = writer(2);
    let queue = records.queues.get_mut(&key("a")).unwrap();
    let ticket = queue.ticket(second.holder).unwrap();
    queue.leave(second.holder);
    let again = Wait { ticket: Some((key("a"), ticket)), ..Wait::default() };
    let (answer, pushes) = wait_as(&mut records, &second, again, &at(110));
    assert!(matches!(answer, GrantAnswer::Granted { .. }) && pushes.is_empty(), "{answer:?}");
}

/// It renewed what it was handed, and died later, which says nothing about its process's others.
#[test]
fn a_waiter_that_renewed_its_hand_over_is_not_skipped_when_that_ends() {
    let mut records = a_line();
    release(&mut records, &writer(1), &at(105));
    assert_eq!(renew(&mut records, &writer(2), &at(106)), HoldAnswer::Done);
    let pushes = pushed(&mut records, Request::Advance(vec![key("a")]), &at(116));
    assert!(matches!(pushes[0], (3, PushEvent::Granted { .. })), "{pushes:?}");
}
