//! Processes are stopped while they wait and hold: connections stay open, and silent.

use std::{
    thread,
    time::{Duration, Instant},
};

use faults::{Crowd, ParsedHistory, history::now};
use rand::seq::IndexedRandom as _;
use servers::Flavor;

use crate::scene::{
    DEAD_HOLDER, Scene, WINDOW, dice, is_long, longer_than, nobody_was_deceived, slack, some_of, worker,
};

servers::tests! {
    fn a_stopped_process_costs_a_window_at_a_redis() = some_are_stopped(&Scene::on(Flavor::Redis70));
    fn a_stopped_process_costs_a_window_at_a_valkey() = some_are_stopped(&Scene::on(Flavor::Valkey91));
    fn a_stopped_process_costs_a_window_at_a_file() = some_are_stopped(&Scene::on_a_file());
}

fn some_are_stopped(scene: &Scene) {
    let (processes, stopped) = if is_long() { (20, 10) } else { (8, 2) };
    let mut plan = scene.plan();
    // Tasks of a process must not be neighbours in the queue, as they would be if all started at once.
    (plan.think, plan.tasks) = (Duration::from_millis(5), 5);
    let mut crowd = Crowd::new(plan);
    crowd.add(worker(), processes);
    crowd.wait_until_all_were_served_since(0);

    let mut dice = dice(11);
    let some: Vec<u32> = crowd.alive().sample(&mut dice, stopped).copied().collect();
    for process in &some {
        thread::sleep(some_of(&mut dice, Duration::from_millis(400)));
        crowd.stop(*process);
    }
    // All delay by the stopped is over once everybody else has been served twice.
    let patience = (WINDOW + DEAD_HOLDER) * u32::try_from(stopped).unwrap() + Duration::from_secs(10);
    let going: Vec<u32> = crowd.alive().into_iter().filter(|process| !some.contains(process)).collect();
    for _ in 0..2 {
        crowd.wait_until_served_since(now(), &going, patience);
    }
    let begun = Instant::now();
    let since = now();
    some.iter().for_each(|process| crowd.cont(*process));
    crowd.wait_until_served_since(since, &crowd.alive(), patience);
    println!("all are served {:?} after the stopped went on", begun.elapsed());

    let parsed_history = scene.ends("stopped", &mut crowd);
    only_the_stopped_cost_time(&parsed_history, crowd.ttl(), slack(&crowd));
    no_running_waiter_was_overtaken(&parsed_history);
    stopped_holders_knew_that_they_lost(&parsed_history);
}

/// Each costs the rest of its lease, or a claim window, once; and, if the waiters that could ask at
/// the end of it are in the same process, the time until another process asks.
fn only_the_stopped_cost_time(parsed_history: &ParsedHistory, ttl: Duration, slack: Duration) {
    let dear = WINDOW.max(ttl) + DEAD_HOLDER + slack;
    let allowed: Duration = parsed_history.stopped.iter().map(|_| dear).sum();
    let mut cost = Duration::ZERO;
    for handover in longer_than(parsed_history, slack) {
        let (begins, ends) = (handover.from.believed_until, handover.to.begins());
        let during = parsed_history
            .stopped
            .iter()
            .any(|fault| fault.at <= ends && fault.until.is_none_or(|until| until >= begins));
        assert!(during, "nobody was stopped: {handover}");
        cost += handover.gap;
    }
    println!("the {} that were stopped cost {cost:?}", parsed_history.stopped.len());
    assert!(cost <= allowed, "{cost:?} for {} stopped processes", parsed_history.stopped.len());
}

/// A stopped process may have been overtaken, but no other.
fn no_running_waiter_was_overtaken(parsed_history: &ParsedHistory) {
    for (one, other) in parsed_history.overtaken() {
        let until = one.granted.map_or(one.over, |(at, _)| at);
        let stopped = parsed_history.stopped.iter().any(|fault| {
            fault.process == one.process && fault.at <= until && fault.until.is_none_or(|end| end >= one.asks)
        });
        assert!(stopped, "overtaken:\n{one}\n{other}");
    }
}

/// A process stopped past the end of its lease does not consider itself the holder afterwards.
fn stopped_holders_knew_that_they_lost(parsed_history: &ParsedHistory) {
    for fault in &parsed_history.stopped {
        let Some(until) = fault.until else { continue };
        let holds = |span: &&faults::RequestSpan| {
            span.process == fault.process && span.granted.is_some_and(|(at, _)| at < fault.at)
        };
        for span in parsed_history.spans.iter().filter(holds).filter(|span| span.over > until) {
            assert!(span.believed_until < until, "{span}");
        }
    }
    nobody_was_deceived(parsed_history);
}
