//! A writer that becomes a reader.

use super::member::{proposing, rejoin};
use super::*;

fn left(records: &Records, second: u64) -> u64 {
    let now = at(second).now;
    records.holding(&key("a"), now).unwrap().remaining.unwrap().as_secs()
}

/// A writer, and behind it two readers, another writer and a third reader.
fn a_writer_and_a_line() -> Records {
    with_waiters(&writer(1), [reader(2), reader(3), writer(4), reader(5)])
}

#[test]
fn a_writer_that_renews_as_a_reader_lets_in_the_readers_behind_it_and_keeps_its_fence() {
    let mut records = a_writer_and_a_line();
    let pushes = pushed(&mut records, Request::Renew(reader(1)), &at(102));
    assert_eq!(pushes, [(2, handed(102_000_000)), (3, handed(102_000_001)), (4, FIRST)]);
    let reading = [(1, 100_000_000), (2, 102_000_000), (3, 102_000_001)];
    assert_eq!(held(&records, "a", 102), reading.map(|(who, fence)| (who, Mode::Shared, fence)));
    // The writer behind them gets in once all three are gone, and no reader passes it.
    release(&mut records, &reader(1), &at(102));
    release(&mut records, &reader(2), &at(102));
    let pushes = pushed(&mut records, Request::Release(reader(3)), &at(102));
    assert_eq!(pushes, [(4, handed(102_000_002)), (5, FIRST)]);
}

#[test]
fn a_downgrade_never_shortens_the_lease_and_lengthens_it_as_a_renewal_does() {
    for (ttl, expected) in [(1, 58), (60, 60), (100, 100)] {
        let mut records = held_by(&attempt(1, &["a"], 60));
        renew(&mut records, &shared(1, &["a"], ttl), &at(102));
        assert_eq!(left(&records, 102), expected);
        assert_eq!(records.locks[&key("a")].ends, records.shares[&key("a")].end());
        let owner = records.holding(&key("a"), at(102).now).unwrap().owner;
        assert!(matches!(owner, Owner::Holder { label: Some(_), .. }), "the label stays");
    }
}

/// An older request of the same holder, to read, waits behind its own lease.
#[test]
fn a_downgrade_that_hands_the_key_to_its_own_holder_shortens_nothing() {
    let mut records = held_by(&attempt(1, &["a"], 60));
    wait(&mut records, &reader(1), &at(101));
    renew(&mut records, &shared(1, &["a"], 60), &at(102));
    assert_eq!((left(&records, 102), held(&records, "a", 102).len()), (60, 1));
}

#[test]
fn all_keys_of_a_claim_become_shared_or_none() {
    let mut records = held_by(&attempt(1, &["a", "b"], 10));
    assert_eq!(renew(&mut records, &shared(1, &["a", "b"], 10), &at(101)), HoldAnswer::Done);
    for name in ["a", "b"] {
        assert_eq!(held(&records, name, 101), [(1, Mode::Shared, 100_000_000)]);
    }
    let mut records = held_by(&attempt(1, &["a", "b"], 10));
    records.locks.remove(&key("b"));
    let HoldAnswer::NotHeld { key: gone, .. } = renew(&mut records, &shared(1, &["a", "b"], 10), &at(101))
    else {
        panic!()
    };
    assert_eq!((gone, held(&records, "a", 101)[0].1), (key("b"), Mode::Exclusive));
}

#[test]
fn only_the_holder_becomes_a_reader_and_nobody_becomes_a_writer() {
    let mut records = a_writer_and_a_line();
    assert!(matches!(renew(&mut records, &reader(2), &at(102)), HoldAnswer::NotHeld { .. }));
    assert_eq!(held(&records, "a", 102), [(1, Mode::Exclusive, 100_000_000)]);
    let mut records = held_by(&reader(1));
    renew(&mut records, &writer(1), &at(101));
    assert_eq!(held(&records, "a", 101)[0].1, Mode::Shared);
    // Permits are not what a writer has, so a renewal for permits changes nothing.
    let mut records = held_by(&writer(1));
    let permits = Attempt { claim: Claim::permits([key("a")], 1, 2).unwrap(), ..writer(1) };
    renew(&mut records, &permits, &at(101));
    assert_eq!(held(&records, "a", 101)[0].1, Mode::Exclusive);
}

/// Leftovers of earlier shares must not come back with the new one.
#[test]
fn a_downgrade_revives_no_share_that_was_left_at_the_key() {
    let mut records = held_by(&shared(7, &["a"], 60));
    let stale = records.shares.clone();
    release(&mut records, &shared(7, &["a"], 60), &at(100));
    ask(&mut records, &writer(1), 101);
    records.shares = stale;
    records.downgrade(&key("a"), Holder::from_bits(1), Mode::Shared, at(101).now);
    assert_eq!(held(&records, "a", 101).len(), 1);
}

#[test]
fn a_member_that_rejoins_as_a_reader_lets_readers_in_with_the_agreed_fence() {
    let mut records = a_writer_and_a_line();
    let reading = proposing(&reader(1), 100_000_007);
    let request = Request::Rejoin { attempt: reading.clone(), not_after: None };
    let pushes = pushed(&mut records, request, &at(102));
    assert_eq!(pushes.iter().map(|(who, _)| *who).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(held(&records, "a", 102)[0], (1, Mode::Shared, 100_000_007));
    assert_eq!(rejoin(&mut records, &reading, None, &at(102)), HoldAnswer::Done);
    assert_eq!(held(&records, "a", 102).len(), 3);
    // It may take what the member lost, but only if nobody has it.
    let mut records = Records::default();
    assert_eq!(rejoin(&mut records, &reading, None, &at(102)), HoldAnswer::Done);
    assert_eq!(held(&records, "a", 102), [(1, Mode::Shared, 100_000_007)]);
}

/// All keys or none: the key that it has stays as it is while another cannot be taken.
#[test]
fn a_rejoin_that_is_refused_downgrades_nothing() {
    let mut records = held_by(&writer(1));
    ask(&mut records, &attempt(2, &["b"], 10), 100);
    let reading = proposing(&shared(1, &["a", "b"], 10), 100_000_007);
    assert!(matches!(rejoin(&mut records, &reading, None, &at(101)), HoldAnswer::NotHeld { .. }));
    assert_eq!(held(&records, "a", 101), [(1, Mode::Exclusive, 100_000_000)]);
}
