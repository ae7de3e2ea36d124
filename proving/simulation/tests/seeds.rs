//! Every promise holds in simulated worlds: in many every day, in four times as many before a release.

use std::ops::Range;

use simulation::{Campaign, run};

/// Five times what most flaws need to be found; twenty seconds on two processors.
const EVERYDAY: u64 = 2500;
const ALL: u64 = 10_000;

fn every_promise_holds_in(seeds: Range<u64>) {
    let campaign = Campaign::over(seeds, None);
    if let Some(failed) = campaign.failure() {
        let replayed = run(failed.seed, None, true);
        replayed.trace.iter().for_each(|line| println!("{line}"));
        panic!("{campaign}");
    }
    assert!(campaign.fewest_steps() >= 200, "{campaign}");
    assert!(campaign.median_grants() >= 10, "{campaign}");
    let rare: Vec<_> = campaign.shares().into_iter().filter(|(_, share)| *share < 0.05).collect();
    assert!(rare.is_empty(), "too rare: {rare:?}\n{campaign}");
}

#[test]
fn every_promise_holds_under_every_fault() {
    every_promise_holds_in(0..EVERYDAY);
}

#[test]
fn every_promise_holds_in_thousands_of_worlds() {
    every_promise_holds_in(EVERYDAY..ALL);
}

/// Compares every line of the trace, which names each message, each answer and its time.
#[test]
fn a_seed_replays_to_the_letter() {
    for seed in 0..100 {
        let (once, again) = (run(seed, None, true), run(seed, None, true));
        let differs = once.trace.iter().zip(&again.trace).find(|(one, other)| one != other);
        assert_eq!(differs, None, "seed {seed}");
        assert_eq!(once, again, "seed {seed}");
    }
}

#[test]
fn another_seed_is_another_world() {
    assert_ne!(run(1, None, true).trace, run(2, None, true).trace);
}
