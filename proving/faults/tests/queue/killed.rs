//! Processes are killed while they wait and hold.

use std::{
    thread,
    time::{Duration, Instant},
};

use faults::{Crowd, ParsedHistory, history::now};
use rand::seq::IndexedRandom as _;
use servers::Flavor;

use crate::scene::{
    DEAD_HOLDER, DEAD_WAITER, Scene, dice, in_order, lasts, longer_than, slack, some_of, worker,
};

const PROCESSES: usize = 20;
const KILLED: u32 = 10;

servers::tests! {
    fn ten_of_twenty_processes_are_killed_at_a_redis() = some_held(&Scene::on(Flavor::Redis70));
    fn ten_of_twenty_processes_are_killed_at_a_valkey() = some_held(&Scene::on(Flavor::Valkey91));
}

fn some_held(scene: &Scene) {
    let parsed_history = ten_of_twenty_are_killed(scene);
    assert!(parsed_history.killed.iter().any(|fault| fault.had_it.is_some()), "no holder was killed");
}

/// On a file, a dead process's lock is seen to be free: a dead holder costs no more than a waiter.
#[test]
fn ten_of_twenty_processes_are_killed_at_a_file() {
    let parsed_history = ten_of_twenty_are_killed(&Scene::on_a_file());
    assert!(parsed_history.killed.iter().all(|fault| fault.had_it.is_none()));
}

fn ten_of_twenty_are_killed(scene: &Scene) -> ParsedHistory {
    let mut plan = scene.plan();
    // Long enough for some to be killed while they hold.
    (plan.long_hold, plan.long_percent) = (Duration::from_millis(60), 2);
    let mut crowd = Crowd::new(plan);
    crowd.add(worker(), PROCESSES);
    crowd.wait_until_all_were_served_since(0);

    let mut dice = dice(7);
    let lasts = lasts(Duration::from_secs(4), Duration::from_secs(20));
    let begun = Instant::now();
    for killed in 1..=KILLED {
        thread::sleep(some_of(
            &mut dice,
            lasts * killed / KILLED - begun.elapsed().min(lasts * killed / KILLED),
        ));
        // Some should be holders; they may have released the lock by the time they die.
        let alive = crowd.alive();
        let holder = crowd.has_the_lock().filter(|holder| killed % 3 == 0 && alive.contains(holder));
        crowd.kill(holder.or_else(|| alive.choose(&mut dice).copied()).expect("some are left"));
    }
    crowd.wait_until_all_were_served_since(now());

    let parsed_history = scene.ends("killed", &mut crowd);
    only_the_dead_cost_time(&parsed_history, crowd.ttl() + DEAD_HOLDER, slack(&crowd));
    in_order(&parsed_history);
    parsed_history
}

/// A dead holder costs a lease and a little more, and so does a next one that dies; the rest, little.
fn only_the_dead_cost_time(parsed_history: &ParsedHistory, dead_holder: Duration, slack: Duration) {
    for handover in longer_than(parsed_history, DEAD_WAITER + slack) {
        let held = parsed_history.killed.iter().filter_map(|fault| fault.had_it);
        let died = held.filter(|at| handover.spans(*at)).count();
        assert!(died > 0, "no holder died here: {handover}");
        let died = u32::try_from(died).expect("there are ten at most");
        assert!(handover.gap < dead_holder * died + slack, "{died} holders died here: {handover}");
    }
}
