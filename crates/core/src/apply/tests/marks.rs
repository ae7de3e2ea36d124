//! Marks: the records that something was done.

use super::*;
use crate::Mark;

fn mark(records: &mut Records, attempt: &Attempt, second: u64) -> HoldAnswer {
    let mark = Mark::new(at(second).now, Fence::new(7).unwrap(), None);
    super::super::mark(records, attempt, &mark, Duration::from_secs(60), &at(second))
}

fn marked(records: &mut Records, second: u64) -> bool {
    super::super::marked(records, &key("a"), &at(second)).mark.is_some()
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
