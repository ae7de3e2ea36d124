//! Checks: marks of jobs.

use std::time::Duration;

use leasehold::TokioRuntime;
use leasehold_core::{HoldAnswer, Label, Mark, Marked, Runtime, Stamp, Store};

use super::{LONG, SHORT, attempt, holders, key, take};
use crate::target::Target;

async fn marked(store: &dyn Store) -> Marked {
    store.marks().unwrap().marked(&key("k")).await.unwrap()
}

/// A mark outlives the process that did the job, and is not a lock.
pub async fn a_finished_job_is_known_to_everybody(target: &Target) {
    let (here, there) = (target.store(), target.store());
    let before = marked(&*there).await;
    assert_eq!(before.mark, None);
    let wall = TokioRuntime::current().unwrap().since_epoch();
    let off = before.now.as_micros().abs_diff(u64::try_from(wall.as_micros()).unwrap());
    assert!(off < 60_000_000, "the store's clock is {off} µs off");
    let one = attempt(&["k"], LONG);
    let fence = take(&*here, &one).await;
    let mark = Mark::new(before.now, fence, Some(Label::new("web-3: größe").unwrap()));
    assert_eq!(here.marks().unwrap().mark(&one, &mark, LONG).await.unwrap(), HoldAnswer::Done);
    assert_eq!(marked(&*there).await.mark, Some(mark.clone()));
    here.release(&one).await.unwrap();
    assert_eq!(holders(&*there, "k").await, []);
    let after = marked(&*there).await;
    assert_eq!(after.mark, Some(mark));
    assert!(after.now >= before.now);
}

/// A process that lost the lock may have been overtaken, so it cannot set the mark.
pub async fn only_the_holder_sets_a_mark(target: &Target) {
    let store = target.store();
    let (one, other) = (attempt(&["k"], LONG), attempt(&["k"], LONG));
    let fence = take(&*store, &one).await;
    let mark = Mark::new(Stamp::from_micros(1), fence, None);
    let HoldAnswer::NotHeld { held_by: Some(_), .. } =
        store.marks().unwrap().mark(&other, &mark, LONG).await.unwrap()
    else {
        panic!("somebody else holds it")
    };
    // A release need not wait for each store of a quorum; giving up does.
    store.give_up(&one).await.unwrap();
    let not_held = HoldAnswer::NotHeld { key: key("k"), held_by: None };
    assert_eq!(store.marks().unwrap().mark(&one, &mark, LONG).await.unwrap(), not_held);
    assert_eq!(marked(&*store).await.mark, None);
}

/// A later mark replaces the earlier one, and lasts for its own time.
pub async fn a_mark_lasts_for_its_time(target: &Target) {
    let store = target.store();
    let one = attempt(&["k"], LONG);
    let fence = take(&*store, &one).await;
    let at = |number| Mark::new(Stamp::from_micros(number), fence, None);
    store.marks().unwrap().mark(&one, &at(1), LONG).await.unwrap();
    store.marks().unwrap().mark(&one, &at(2), SHORT).await.unwrap();
    assert_eq!(marked(&*store).await.mark, Some(at(2)));
    let runtime = TokioRuntime::current().unwrap();
    let begun = runtime.now();
    while marked(&*store).await.mark.is_some() {
        assert!(runtime.now().saturating_since(begun) < SHORT + Duration::from_secs(1));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A mark is listed with its period, by the prefix of its key, and is gone after it was forgotten.
pub async fn marks_are_listed_and_can_be_taken_back(target: &Target) {
    let (here, there) = (target.store(), target.store());
    let now = marked(&*there).await.now;
    assert_eq!(there.marks().unwrap().forget(&key("job:a")).await.unwrap(), None);
    let mut left = Vec::new();
    for (name, period) in [("job:b", Some(LONG)), ("job:a", None), ("other", Some(SHORT))] {
        let one = attempt(&[name], LONG);
        let fence = take(&*here, &one).await;
        let mark = Mark::new(now, fence, Some(Label::new("web-3 report").unwrap()));
        let mark = period.map_or(mark.clone(), |period| mark.every(period));
        assert_eq!(here.marks().unwrap().mark(&one, &mark, LONG).await.unwrap(), HoldAnswer::Done);
        here.release(&one).await.unwrap();
        left.push((key(name), mark));
    }
    let listed = async |prefix: &[u8]| -> Vec<_> {
        let marks = there.marks().unwrap().list_marks(prefix).await.unwrap();
        assert!(marks.iter().all(|(_, marked)| marked.now >= now), "{marks:?}");
        marks.into_iter().map(|(key, marked)| (key, marked.mark.unwrap())).collect()
    };
    assert_eq!(listed(b"job:").await, [left[1].clone(), left[0].clone()]);
    assert_eq!(listed(b"").await, [left[1].clone(), left[0].clone(), left[2].clone()]);
    assert_eq!(listed(b"job:*").await, []);
    let forgotten = there.marks().unwrap().forget(&key("job:a")).await.unwrap();
    assert_eq!(forgotten.as_ref(), Some(&left[1].1));
    assert_eq!(here.marks().unwrap().marked(&key("job:a")).await.unwrap().mark, None);
    assert_eq!(there.marks().unwrap().forget(&key("job:a")).await.unwrap(), None);
    assert_eq!(listed(b"job:").await, [left[0].clone()]);
}
