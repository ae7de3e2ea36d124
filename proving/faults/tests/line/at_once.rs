//! A holder that releases asks again at once.

use std::{collections::BTreeMap, thread, time::Duration};

use faults::Crowd;
use servers::Flavor;

use crate::scene::{DEAD_WAITER, Scene, in_order, lasts, longer_than, report, slack, worker};

#[test]
fn nobody_starves_at_a_redis() {
    nobody_starves(&Scene::on(Flavor::Redis70));
}

#[test]
fn nobody_starves_at_a_valkey() {
    nobody_starves(&Scene::on(Flavor::Valkey91));
}

#[test]
fn nobody_starves_at_a_file() {
    nobody_starves(&Scene::on_a_file());
}

fn nobody_starves(scene: &Scene) {
    let mut plan = scene.plan();
    (plan.tasks, plan.hold) = (4, Duration::ZERO);
    let ttl = plan.ttl;
    let mut crowd = Crowd::new(plan);
    crowd.add(worker(), 8);
    crowd.wait_until_all_were_served_since(0, Duration::from_secs(30));
    let everybody_is_there = faults::history::now();
    thread::sleep(lasts(Duration::from_secs(1), Duration::from_secs(20)));
    crowd.wait_until_all_were_served_since(everybody_is_there, Duration::from_secs(30));
    crowd.dismiss();

    let account = crowd.account();
    report("at once", &crowd, &account);
    scene.is_clean(&crowd, &account, ttl);
    in_order(&account);
    let long = longer_than(&account, DEAD_WAITER + slack(&crowd));
    assert!(long.is_empty(), "{}", long[0]);
    let mut turns = BTreeMap::new();
    for stay in account.stays.iter().filter(|stay| stay.asks > everybody_is_there) {
        *turns.entry((stay.process, stay.task)).or_insert(0_u32) += u32::from(stay.granted.is_some());
    }
    let (least, most) = (turns.values().min().unwrap(), turns.values().max().unwrap());
    println!("each had it {least} to {most} times");
    // In a queue, everybody has a turn before anybody has two; processes that join between two
    // readings differ by a round or two.
    assert!(turns.len() == 32 && least * 4 >= *most - 2, "{turns:?}");
}
