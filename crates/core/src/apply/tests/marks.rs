//! Marks: the records that something was done.

use super::*;
use crate::{Mark, Marked};

fn mark(records: &mut Records, attempt: &Attempt, second: u64) -> HoldAnswer {
    let mark = Mark::new(at(second).now, Fence::new(7).unwrap(), None);
    let request = Request::Mark { attempt: attempt.clone(), mark, keep: Duration::from_secs(60) };
    match apply(records, request, &at(second)).answer {
        Answer::Mark(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn marked(records: &mut Records, second: u64) -> bool {
    match apply(records, Request::Marked(key("a")), &at(second)).answer {
        Answer::Marked(Marked { mark, .. }) => mark.is_some(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_an_exclusive_holder_sets_a_mark() {
    let mut records = Records::default();
    let ours = writer(1);
    assert!(matches!(mark(&mut records, &ours, 100), HoldAnswer::NotHeld { held_by: None, .. }));
    assert!(!marked(&mut records, 100));

    let mut shares = held_by(&reader(1));
    assert!(matches!(mark(&mut shares, &reader(1), 101), HoldAnswer::NotHeld { held_by: Some(_), .. }));

    ask(&mut records, &ours, 100);
    assert_eq!(mark(&mut records, &ours, 101), HoldAnswer::Done);
    assert!(marked(&mut records, 101));
}

#[test]
fn a_mark_outlives_the_lease_and_is_remembered_up_to_its_end() {
    let ours = writer(1);
    let mut records = held_by(&ours);
    mark(&mut records, &ours, 101);
    release(&mut records, &ours, &at(102));
    let just_before = Stamp::from_micros(at(161).now.as_micros() - 1);
    records.forget_ended_marks(just_before);
    assert!(marked(&mut records, 160));
    assert!(!marked(&mut records, 161) && !marked(&mut records, 162));
    records.forget_ended_marks(at(161).now);
    assert!(records.marks.is_empty());
}
