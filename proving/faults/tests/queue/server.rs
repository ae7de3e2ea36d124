//! The server is killed and restarts empty, forgets its scripts, drops its clients, pauses.

use std::{
    thread,
    time::{Duration, Instant},
};

use faults::{Crowd, history::now, judge::sound_but_for};
use servers::{Flavor, Server};

use crate::scene::{DEAD_HOLDER, DEAD_WAITER, Scene, longer_than, no_gap_is_longer_than, slack, worker};

servers::tests! {
    fn a_redis_forgets_its_scripts_and_its_clients_and_pauses() = bad_moments(&Scene::on(Flavor::Redis70));
    fn a_valkey_forgets_its_scripts_and_its_clients_and_pauses() = bad_moments(&Scene::on(Flavor::Valkey91));
    fn a_redis_comes_back_empty() = comes_back_empty(&Scene::on(Flavor::Redis70));
    fn a_valkey_comes_back_empty() = comes_back_empty(&Scene::on(Flavor::Valkey91));
}

fn bad_moments(scene: &Scene) {
    let mut plan = scene.plan();
    (plan.tasks, plan.long_hold, plan.long_percent) = (5, Duration::from_millis(300), 2);
    let mut crowd = Crowd::new(plan);
    crowd.add(worker(), 6);
    crowd.wait_until_all_were_served_since(0);
    let server = scene.server.as_ref().unwrap();
    for (name, command) in [
        ("script flush", &["SCRIPT", "FLUSH"][..]),
        ("client kill", &["CLIENT", "KILL", "TYPE", "normal"]),
        ("client kill", &["CLIENT", "KILL", "TYPE", "pubsub"]),
        ("client pause", &["CLIENT", "PAUSE", "1000", "ALL"]),
        ("script flush", &["SCRIPT", "FLUSH"]),
    ] {
        crowd.fault(name);
        server.text(command);
        crowd.healed();
        let took = crowd.wait_until_all_were_served_since(now());
        println!("all are served {took:?} after {name}");
    }

    let parsed_history = scene.ends("bad moments", &mut crowd);
    no_gap_is_longer_than(&parsed_history, crowd.ttl() + DEAD_HOLDER + slack(&crowd));
}

/// Holders kept relying on their leases while it was down, so others may be granted the same locks;
/// but fences rise, and all waiters find the queue again.
fn comes_back_empty(scene: &Scene) {
    let mut plan = scene.plan();
    plan.tasks = 5;
    let mut crowd = Crowd::new(plan);
    crowd.add(worker(), 6);
    let server = scene.server.as_ref().unwrap();
    let mut restarts = Vec::new();
    for _ in 0..2 {
        crowd.wait_until_all_were_served_since(now());
        let begins = now();
        crowd.fault("killed");
        server.kill_9();
        back(server);
        crowd.healed();
        restarts.push((begins, now()));
    }
    let took = crowd.wait_until_all_were_served_since(now());
    println!("all are served {took:?} after the last restart");

    let parsed_history = scene.ends_unjudged("came back empty", &mut crowd);
    sound_but_for(&parsed_history, &restarts);
    for handover in longer_than(&parsed_history, DEAD_WAITER + slack(&crowd)) {
        let away = restarts.iter().find(|(begins, _)| handover.spans(*begins));
        let Some((begins, ends)) = away else { panic!("no restart here: {handover}") };
        let bound = Duration::from_nanos(ends - begins) + crowd.ttl() + DEAD_HOLDER + slack(&crowd);
        assert!(handover.gap < bound, "longer than {bound:?}: {handover}");
    }
}

fn back(server: &Server) {
    let begun = Instant::now();
    // Long enough for all processes to notice that the server is down.
    thread::sleep(Duration::from_millis(200));
    server.restart();
    println!("the server was away for {:?}", begun.elapsed());
}
