//! Holders that release and immediately ask again.

use std::{collections::BTreeMap, thread, time::Duration};

use faults::Crowd;
use servers::Flavor;

use crate::scene::{DEAD_WAITER, Scene, in_order, lasts, no_gap_is_longer_than, slack, worker};

servers::tests! {
    fn nobody_starves_at_a_redis() = nobody_starves(&Scene::on(Flavor::Redis70));
    fn nobody_starves_at_a_valkey() = nobody_starves(&Scene::on(Flavor::Valkey91));
    fn nobody_starves_at_a_file() = nobody_starves(&Scene::on_a_file());
}

fn nobody_starves(scene: &Scene) {
    let mut plan = scene.plan();
    (plan.tasks, plan.hold) = (4, Duration::ZERO);
    let mut crowd = Crowd::new(plan);
    crowd.add(worker(), 8);
    crowd.wait_until_all_were_served_since(0);
    let everybody_is_there = faults::history::now();
    thread::sleep(lasts(Duration::from_secs(1), Duration::from_secs(20)));
    crowd.wait_until_all_were_served_since(everybody_is_there);

    let parsed_history = scene.ends("at once", &mut crowd);
    in_order(&parsed_history);
    no_gap_is_longer_than(&parsed_history, DEAD_WAITER + slack(&crowd));
    let mut turns = BTreeMap::new();
    for span in parsed_history.spans.iter().filter(|span| span.asks > everybody_is_there) {
        *turns.entry((span.process, span.task)).or_insert(0_u32) += u32::from(span.granted.is_some());
    }
    let (least, most) = (turns.values().min().unwrap(), turns.values().max().unwrap());
    println!("each had it {least} to {most} times");
    // Everybody has a turn before anybody has two; joining between readings makes a round or two.
    assert!(turns.len() == 32 && least * 4 >= *most - 2, "{turns:?}");
}
