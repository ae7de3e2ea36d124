use proptest::prelude::*;

use super::*;

fn entry(n: u8) -> QueueEntry {
    QueueEntry::new(Holder::from_bits(n.into()), None, Mode::Exclusive, Ttl::DEFAULT, None, false)
}

fn order(queue: &WaitQueue) -> Vec<u128> {
    queue.waiters().map(|(_, waiter)| waiter.holder.bits()).collect()
}

#[test]
fn a_ticket_leads_back_to_its_place() {
    let mut queue = WaitQueue::default();
    let first = queue.join(entry(1), None, Stamp::from_micros(50));
    queue.join(entry(2), None, Stamp::from_micros(60));
    queue.leave(Holder::from_bits(1));
    assert_eq!(queue.join(entry(1), Some(first), Stamp::from_micros(90)), first);
    queue.join(entry(3), Some(first), Stamp::from_micros(90));
    assert_eq!(order(&queue), [1, 3, 2]);
    assert_eq!([1, 3, 2, 4].map(|n| queue.before(Holder::from_bits(n))), [Some(0), Some(1), Some(2), None]);
}

#[test]
fn those_left_out_are_counted_and_missed_only_when_their_turn_comes() {
    let mut queue = WaitQueue::default();
    for (n, at) in [(1, 10), (2, 20), (3, 60), (4, 90)] {
        queue.join(entry(n), Some(Ticket::new(at)), Stamp::from_micros(0));
    }
    queue.leave_out(3, (Ticket::new(60), Holder::from_bits(3)));
    queue.leave_out(2, (Ticket::new(90), Holder::from_bits(4)));
    assert_eq!(queue.len(), 9);
    assert_eq!([2, 3, 4].map(|n| queue.before(Holder::from_bits(n))), [Some(1), Some(5), Some(8)]);
    assert_eq!(queue.join(entry(5), None, Stamp::from_micros(0)), Ticket::new(91));
    assert_eq!(queue.before(Holder::from_bits(5)), Some(9));
    assert_eq!(queue.pop().map(|first| first.holder.bits()), Some(1));
    assert!(!queue.is_short());
    assert_eq!(queue.pop().map(|first| first.holder.bits()), Some(2));
    assert!(queue.is_short() && queue.first().is_none() && queue.pop().is_none() && !queue.is_empty());
    for n in [3, 4, 5] {
        queue.leave(Holder::from_bits(n));
    }
    assert!(queue.is_short() && queue.len() == 5);
}

fn listening(n: u8, channel: &str) -> QueueEntry {
    QueueEntry { channel: Some(Channel::new(channel)), ..entry(n) }
}

fn witness(queue: &mut WaitQueue) -> Option<u128> {
    queue.witness(Some(&Channel::new("here"))).map(|waiter| waiter.holder.bits())
}

/// This many waiters on one channel, then one on another.
fn with_one_elsewhere(here: u8) -> WaitQueue {
    let mut queue = WaitQueue::default();
    for n in 1..=here {
        queue.join(listening(n, "here"), None, Stamp::from_micros(0));
    }
    queue.join(listening(here + 1, "elsewhere"), None, Stamp::from_micros(0));
    queue
}

#[test]
fn the_witness_is_the_first_of_a_few_on_another_channel_or_otherwise_the_first() {
    let ahead = u8::try_from(WaitQueue::LOOKED_AHEAD).unwrap();
    assert_eq!(witness(&mut with_one_elsewhere(2)), Some(3));
    assert_eq!(witness(&mut with_one_elsewhere(ahead - 1)), Some(ahead.into()));
    let mut far = with_one_elsewhere(ahead);
    assert_eq!(witness(&mut far), Some(1), "it stands too far behind");
    assert!(!far.is_short());
    let mut deaf = WaitQueue::default();
    deaf.join(entry(1), None, Stamp::from_micros(0));
    assert_eq!(witness(&mut deaf), Some(1), "who listens nowhere is told nothing either way");
}

/// A waiter that was left out may be the one on another channel: then more of the queue must be
/// loaded, unless as many waiters as possible were searched.
#[test]
fn a_witness_that_may_have_been_left_out_is_missed() {
    let mut found = with_one_elsewhere(2);
    found.leave_out(0, (Ticket::new(0), Holder::from_bits(1)));
    found.join(listening(9, "here"), Some(Ticket::new(90)), Stamp::from_micros(0));
    found.leave_out(4, (Ticket::new(90), Holder::from_bits(9)));
    assert_eq!(witness(&mut found), Some(3));
    assert!(!found.is_short(), "nobody had to look behind that one");

    let mut behind = WaitQueue::default();
    behind.join(listening(1, "here"), Some(Ticket::new(10)), Stamp::from_micros(0));
    behind.join(listening(2, "elsewhere"), Some(Ticket::new(20)), Stamp::from_micros(0));
    behind.leave_out(1, (Ticket::new(20), Holder::from_bits(2)));
    for _ in 0..2 {
        assert_eq!(witness(&mut behind), None);
        assert!(behind.is_short(), "whoever stands between may listen elsewhere");
    }

    let enough = u8::try_from(WaitQueue::LOOKED_AHEAD).unwrap();
    let mut known = with_one_elsewhere(enough);
    let last = Holder::from_bits(u128::from(enough) + 1);
    let ticket = known.ticket(last).unwrap();
    known.leave_out(3, (ticket, last));
    assert_eq!(witness(&mut known), Some(1));
    assert!(!known.is_short(), "no more are ever looked at");
}

proptest! {
    /// Compared with the simplest queue: a vector.
    #[test]
    fn a_queue_is_first_come_first_served(steps in prop::collection::vec((any::<bool>(), 0..6u8, 0..9u64), 0..60)) {
        let (mut queue, mut plain) = (WaitQueue::default(), Vec::new());
        for (joins, who, at) in steps {
            let holder = Holder::from_bits(who.into());
            if joins {
                queue.join(entry(who), None, Stamp::from_micros(at));
                if !plain.contains(&u128::from(who)) {
                    plain.push(who.into());
                }
                let place = plain.iter().position(|other| *other == holder.bits());
                prop_assert_eq!(queue.before(holder), place.map(|place| place as u64));
            } else {
                let stood = plain.contains(&holder.bits());
                plain.retain(|other| *other != holder.bits());
                prop_assert_eq!(queue.leave(holder).is_some(), stood);
            }
            prop_assert_eq!(order(&queue), plain.clone());
        }
    }
}
