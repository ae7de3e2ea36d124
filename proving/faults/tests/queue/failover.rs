//! The master fails under sentinels, killed, hung or replaced, and comes back as a replica.

use std::time::{Duration, Instant};

use faults::{Crowd, ParsedHistory, history::now, judge::sound_but_for, until};
use servers::{Flavor, Watched};

use crate::scene::{Scene, longer_than, no_gap_is_longer_than, slack, worker};

/// The longest wait that a failover may cause; the sentinels take about two seconds of it.
const FAILOVER: Duration = Duration::from_secs(5);

/// The time beyond the sentinels': after a split vote, they vote again after two `failover-timeout`s.
const AFTER: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Killed,
    Hangs,
    Replaced,
}

servers::tests! {
    fn masters_of_redis_fail_and_are_followed() = fail(Flavor::Redis70);
    fn masters_of_valkey_fail_and_are_followed() = fail(Flavor::Valkey91);
}

/// Data that the old master had not sent to its replica is lost, so others may be granted locks
/// whose holders still rely on them; but fences rise, and all waiters find the queue again.
fn fail(flavor: Flavor) {
    let watched = Watched::start(flavor);
    let scene = Scene::under(watched.url());
    let mut plan = scene.plan();
    (plan.tasks, plan.hold) = (3, Duration::from_millis(10));
    let mut crowd = Crowd::new(plan);
    crowd.add(worker(), 8);
    let mut failures = Vec::new();
    let mut bound = FAILOVER;
    for failure in [Failure::Killed, Failure::Hangs, Failure::Replaced] {
        crowd.wait_until_all_were_served_since(now());
        watched.until_ready();
        let old = watched.master_by(0);
        let begins = now();
        crowd.fault(&format!("{failure:?}"));
        match failure {
            Failure::Killed => watched.servers[old].kill_9(),
            Failure::Hangs => watched.servers[old].stop(),
            Failure::Replaced => watched.fail_over(),
        }
        let begun = Instant::now();
        until("the sentinels have replaced it", Duration::from_secs(60), || {
            (0..3).all(|sentinel| watched.master_by(sentinel) != old)
        });
        let replaced = begun.elapsed();
        bound = bound.max(replaced + AFTER);
        crowd.healed();
        failures.push((begins, now()));
        let took = crowd.wait_until_all_were_served_since(now());
        println!("{flavor}: {failure:?}: replaced within {replaced:?}, all are served {took:?} later");
        match failure {
            Failure::Killed => watched.servers[old].restart(),
            Failure::Hangs => watched.servers[old].cont(),
            Failure::Replaced => {}
        }
    }
    watched.until_ready();
    crowd.wait_until_all_were_served_since(now());

    let parsed_history = scene.ends_unjudged("failovers", &mut crowd);
    judge(&parsed_history, &failures, bound + slack(&crowd));
}

fn judge(parsed_history: &ParsedHistory, failures: &[(u64, u64)], bound: Duration) {
    sound_but_for(parsed_history, failures);
    no_gap_is_longer_than(parsed_history, bound);
    for handover in longer_than(parsed_history, Duration::from_secs(3)) {
        assert!(failures.iter().any(|(begins, _)| handover.spans(*begins)), "no failover here: {handover}");
    }
}
