use proptest::prelude::*;

use super::*;

fn standing(n: u8) -> Standing {
    Standing {
        holder: Holder::from_bits(n.into()),
        label: None,
        mode: Mode::Exclusive,
        ttl: Ttl::DEFAULT,
        channel: None,
        wants_more: false,
    }
}

fn order(line: &Line) -> Vec<u128> {
    line.waiters().map(|(_, standing)| standing.holder.bits()).collect()
}

#[test]
fn joining_again_keeps_the_place() {
    let mut line = Line::default();
    let first = line.join(standing(1), None, Stamp::from_micros(50));
    line.join(standing(2), None, Stamp::from_micros(60));
    assert_eq!(line.join(standing(1), None, Stamp::from_micros(70)), first);
    assert_eq!(order(&line), [1, 2]);
}

#[test]
fn a_clock_that_steps_back_puts_nobody_before_others() {
    let mut line = Line::default();
    line.join(standing(1), None, Stamp::from_micros(50));
    line.join(standing(2), None, Stamp::from_micros(10));
    assert_eq!(order(&line), [1, 2]);
}

#[test]
fn a_ticket_leads_back_to_its_place() {
    let mut line = Line::default();
    let first = line.join(standing(1), None, Stamp::from_micros(50));
    line.join(standing(2), None, Stamp::from_micros(60));
    line.leave(Holder::from_bits(1));
    assert_eq!(line.join(standing(1), Some(first), Stamp::from_micros(90)), first);
    line.join(standing(3), Some(first), Stamp::from_micros(90));
    assert_eq!(order(&line), [1, 3, 2]);
    assert_eq!([1, 3, 2, 4].map(|n| line.before(Holder::from_bits(n))), [Some(0), Some(1), Some(2), None]);
}

#[test]
fn those_left_out_are_counted_and_missed_only_when_their_turn_comes() {
    let mut line = Line::default();
    for (n, at) in [(1, 10), (2, 20), (3, 60), (4, 90)] {
        line.join(standing(n), Some(Ticket::new(at)), Stamp::from_micros(0));
    }
    line.leave_out(3, (Ticket::new(60), Holder::from_bits(3)));
    line.leave_out(2, (Ticket::new(90), Holder::from_bits(4)));
    assert_eq!(line.len(), 9);
    assert_eq!([2, 3, 4].map(|n| line.before(Holder::from_bits(n))), [Some(1), Some(5), Some(8)]);
    assert_eq!(line.join(standing(5), None, Stamp::from_micros(0)), Ticket::new(91));
    assert_eq!(line.before(Holder::from_bits(5)), Some(9));
    assert_eq!(line.pop().map(|first| first.holder.bits()), Some(1));
    assert!(!line.is_short());
    assert_eq!(line.pop().map(|first| first.holder.bits()), Some(2));
    assert!(line.is_short() && line.first().is_none() && line.pop().is_none() && !line.is_empty());
    for n in [3, 4, 5] {
        line.leave(Holder::from_bits(n));
    }
    assert!(line.is_short() && line.len() == 5);
}

proptest! {
    /// Against the plainest line there is: a vector.
    #[test]
    fn a_line_is_first_come_first_served(steps in prop::collection::vec((any::<bool>(), 0..6u8, 0..9u64), 0..60)) {
        let (mut line, mut plain) = (Line::default(), Vec::new());
        for (joins, who, at) in steps {
            let holder = Holder::from_bits(who.into());
            if joins {
                line.join(standing(who), None, Stamp::from_micros(at));
                if !plain.contains(&u128::from(who)) {
                    plain.push(who.into());
                }
                let place = plain.iter().position(|other| *other == holder.bits());
                prop_assert_eq!(line.before(holder), place.map(|place| place as u64));
            } else {
                let stood = plain.contains(&holder.bits());
                plain.retain(|other| *other != holder.bits());
                prop_assert_eq!(line.leave(holder).is_some(), stood);
            }
            prop_assert_eq!(order(&line), plain.clone());
        }
    }
}
