//! Every promise holds in ten thousand simulated worlds.

use simulation::{Campaign, FaultKind, run};

/// Takes two minutes on two processors, while other tests run.
const SEEDS: u64 = 10_000;

#[test]
fn every_promise_holds_under_every_fault() {
    let campaign = Campaign::over(0..SEEDS, None);
    if let Some(failed) = campaign.failure() {
        let replayed = run(failed.seed, None, true);
        replayed.trace.iter().for_each(|line| println!("{line}"));
        panic!("{campaign}");
    }
    assert!(campaign.fewest_steps() >= 200, "{campaign}");
    assert!(campaign.median_grants() >= 10, "{campaign}");
    let rare = |kind: &FaultKind| campaign.shares()[kind] < 0.05;
    let rare: Vec<_> = FaultKind::ALL.into_iter().filter(rare).collect();
    assert!(rare.is_empty(), "too rare: {rare:?}\n{campaign}");
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
