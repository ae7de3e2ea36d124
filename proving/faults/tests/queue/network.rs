//! The network of half the processes fails again and again: it is cut, silent, or mute.

use std::{
    thread,
    time::{Duration, Instant},
};

use faults::{Crowd, history::now};
use rand::RngExt as _;
use servers::{Flavor, Proxy};

use crate::scene::{
    DEAD_HOLDER, Scene, WINDOW, dice, is_long, lasts, no_gap_is_longer_than, nobody_was_deceived, slack,
    some_of, worker,
};

const AWAY: Duration = Duration::from_millis(600);

servers::tests! {
    fn half_the_connections_fail_again_and_again_at_a_redis() =
        half_the_connections_fail(&Scene::on(Flavor::Redis70), "");
    fn half_the_connections_fail_again_and_again_at_a_valkey() =
        half_the_connections_fail(&Scene::on(Flavor::Valkey91), "");
    fn half_the_connections_fail_again_and_again_in_the_older_protocol() =
        half_the_connections_fail(&Scene::on(Flavor::Redis70), "?protocol=resp2");
}

fn half_the_connections_fail(scene: &Scene, parameters: &str) {
    let mut plan = scene.plan();
    plan.url += parameters;
    (plan.tasks, plan.think, plan.dropped_percent) = (4, Duration::from_millis(3), 20);
    // Longer than a third of a claim window, so the lease is renewed.
    (plan.long_hold, plan.long_percent) = (Duration::from_millis(800), 1);
    let proxy = Proxy::before(scene.server.as_ref().unwrap());
    let mut behind_it = plan.clone();
    behind_it.url = format!("{}{parameters}", proxy.url());
    let mut crowd = Crowd::new(plan);
    crowd.add(worker(), 4);
    crowd.add_with(worker(), 4, &behind_it);
    crowd.wait_until_all_were_served_since(0);

    let mut dice = dice(13);
    let lasts = lasts(Duration::from_secs(3), Duration::from_secs(40));
    let enough = if is_long() { 200 } else { 10 };
    let begun = Instant::now();
    let mut in_flight = 0;
    while begun.elapsed() < lasts || in_flight < enough {
        assert!(begun.elapsed() < 4 * lasts, "{in_flight} calls were in flight when the network failed");
        thread::sleep(some_of(&mut dice, Duration::from_millis(100)));
        match dice.random_range(0..4) {
            0 => {
                crowd.fault("cut");
                in_flight += proxy.unanswered();
                proxy.cut();
            }
            1 => {
                crowd.fault("silent");
                in_flight += proxy.unanswered();
                proxy.black_hole();
                thread::sleep(some_of(&mut dice, AWAY));
            }
            _ => {
                // Waits until an executed request's answer is held back, and loses it for good.
                crowd.fault("mute");
                proxy.mute();
                let mute = Instant::now();
                while proxy.unanswered() == 0 && mute.elapsed() < AWAY {
                    thread::sleep(Duration::from_millis(1));
                }
                in_flight += proxy.unanswered();
                proxy.cut();
            }
        }
        proxy.heal();
        crowd.healed();
    }
    println!("{in_flight} calls were in flight when the network failed");
    let took = crowd.wait_until_all_were_served_since(now());
    println!("all are served {took:?} after the last failure");

    let parsed_history = scene.ends("network", &mut crowd);
    // A holder that is cut off costs its lease, and a waiter a claim window, after the failure.
    no_gap_is_longer_than(&parsed_history, WINDOW.max(crowd.ttl()) + DEAD_HOLDER + AWAY + slack(&crowd));
    nobody_was_deceived(&parsed_history);
}
