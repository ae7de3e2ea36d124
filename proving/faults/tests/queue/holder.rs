//! A process that holds for long is stopped or killed.

use std::time::Duration;

use faults::{
    Crowd,
    history::{EventKind, now},
    until,
};
use servers::Flavor;

use crate::scene::{DEAD_HOLDER, RE_ASK, Scene, no_gap_is_longer_than, slack, worker};

servers::tests! {
    fn a_holder_that_is_stopped_past_its_lease_at_a_redis_knows_it_when_it_goes_on() =
        is_stopped_past_its_lease(&Scene::on(Flavor::Redis70));
    fn a_holder_that_is_stopped_past_its_lease_at_a_valkey_knows_it_when_it_goes_on() =
        is_stopped_past_its_lease(&Scene::on(Flavor::Valkey91));
    fn a_holder_that_is_stopped_past_its_lease_at_a_file_knows_it_when_it_goes_on() =
        is_stopped_past_its_lease(&Scene::on_a_file());
}

/// The next waiters are in the same process, and die with it.
#[test]
fn a_holder_dies_with_those_who_would_have_asked_next() {
    let scene = Scene::on(Flavor::Redis70);
    let mut plan = scene.plan();
    plan.hold = Duration::from_millis(20);
    let mut crowd = Crowd::new(plan);
    for _ in 0..2 {
        crowd.add(worker(), 2 - crowd.alive().len());
        crowd.wait_until_all_were_served_since(now());
        let mut holder = None;
        until("somebody has it", Duration::from_secs(10), || {
            holder = crowd.has_the_lock();
            holder.is_some()
        });
        crowd.kill(holder.unwrap());
        crowd.wait_until_all_were_served_since(now());
    }

    let parsed_history = scene.ends("died with the next", &mut crowd);
    // A process joins with all its tasks, so those behind a dead holder may have died with it.
    no_gap_is_longer_than(&parsed_history, crowd.ttl().max(RE_ASK) + DEAD_HOLDER + slack(&crowd));
}

fn is_stopped_past_its_lease(scene: &Scene) {
    let plan = scene.plan();
    let mut for_long = plan.clone();
    (for_long.tasks, for_long.hold) = (1, Duration::from_secs(600));
    let mut crowd = Crowd::new(plan);
    crowd.add_with(worker(), 1, &for_long);
    let holder = crowd.alive()[0];
    // Once the history has a second renewal, the guard's lease began again with a full TTL.
    until("it holds and has renewed", Duration::from_secs(10), || {
        crowd.history().iter().any(|entry| matches!(entry.what, EventKind::Renewed { .. }))
    });
    crowd.add(worker(), 2);
    until("the others are queued", Duration::from_secs(10), || {
        crowd.history().iter().filter(|entry| entry.what == EventKind::Stands).count() == 20
    });
    crowd.stop(holder);
    let others: Vec<u32> = crowd.alive().into_iter().filter(|process| *process != holder).collect();
    crowd.wait_until_served_since(now(), &others, crowd.ttl() + DEAD_HOLDER + slack(&crowd));

    crowd.cont(holder);
    let what_it_says = || -> Vec<EventKind> {
        let history = crowd.history().into_iter();
        let by_it =
            history.filter(|entry| entry.process == holder && entry.task == 1).map(|entry| entry.what);
        by_it.skip_while(|what| !matches!(what, EventKind::LetsGo { .. })).take(2).collect()
    };
    until("it looks at its guard", Duration::from_secs(10), || what_it_says().len() == 2);
    let said = what_it_says();
    assert!(matches!(said[..], [EventKind::LetsGo { held: false }, EventKind::Lost(_)]), "{said:?}");

    let parsed_history = scene.ends("stopped past its lease", &mut crowd);
    assert!(parsed_history.stopped[0].had_it.is_some());
}
