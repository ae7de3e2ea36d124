//! Under random faults of calls, no two guards are valid at once, and fences rise, also if locks are
//! transferred.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use conformance::faulty::CallFate;
use leasehold::{Fence, TransferToken};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tokio::time::sleep;

use super::world::{MAX_TTL, Process, SECOND, World};

const SEEDS: u64 = 200;

/// The events, by the one clock that all processes share here.
#[derive(Default)]
struct Ledger {
    /// The guards that consider themselves valid; each is asked whether it still does.
    believed: Vec<(usize, leasehold::Held)>,
    last: Option<Fence>,
    tokens: Vec<TransferToken>,
    grants: usize,
}

impl Ledger {
    fn granted(&mut self, who: usize, guard: &leasehold::Guard, is_adopted: bool, seed: u64) {
        self.believed.retain(|(_, held)| held.is_held());
        assert!(self.believed.is_empty(), "seed {seed}: {who} together with {:?}", self.believed);
        let rises =
            if is_adopted { self.last == Some(guard.fence()) } else { self.last < Some(guard.fence()) };
        assert!(rises, "seed {seed}: {} after {:?}, adopted: {is_adopted}", guard.fence(), self.last);
        self.last = Some(guard.fence());
        self.grants += 1;
        self.believed.push((who, guard.held()));
    }

    fn gone(&mut self, who: usize) {
        self.believed.retain(|(other, _)| *other != who);
    }
}

fn fate(dice: &mut StdRng) -> CallFate {
    let time = Duration::from_millis(dice.random_range(1..1500));
    match dice.random_range(0..10) {
        0 => CallFate::Hung,
        1 => CallFate::Lost,
        2 => CallFate::AnswerLost,
        3 => CallFate::Late(time),
        4 => CallFate::Slow(time),
        5 => CallFate::Slow(time / 100),
        6 => CallFate::Late(time / 100),
        _ => CallFate::Fair,
    }
}

async fn client(who: usize, process: Arc<Process>, ledger: Arc<Mutex<Ledger>>, seed: u64) {
    let mut dice = StdRng::seed_from_u64(seed * 31 + who as u64);
    loop {
        let within = Duration::from_millis(dice.random_range(0..8_000));
        // Several may adopt the same lock.
        let token = ledger.lock().unwrap().tokens.last().filter(|_| dice.random_bool(0.3)).cloned();
        let guard = match &token {
            Some(token) => process.locks.adopt(token).await.ok(),
            None => process.locks.mutex("k").lock().within(within).await.ok(),
        };
        if let Some(guard) = guard {
            ledger.lock().unwrap().granted(who, &guard, token.is_some(), seed);
            let hold = sleep(Duration::from_millis(dice.random_range(0..4_000)));
            tokio::select! {
                () = hold => {}
                _ = guard.lost() => {}
            }
            ledger.lock().unwrap().gone(who);
            match dice.random_range(0..4) {
                0 => drop(guard),
                1 => {
                    let token = guard.transfer(Duration::from_millis(dice.random_range(500..6_000))).await;
                    ledger.lock().unwrap().tokens.extend(token);
                }
                _ => drop(guard.release().await),
            }
        }
        sleep(Duration::from_millis(dice.random_range(0..300))).await;
    }
}

async fn run(seed: u64) -> usize {
    let mut dice = StdRng::seed_from_u64(seed);
    let count = [3, 3, 4, 5][dice.random_range(0..4)];
    let world = World::of(count);
    let ledger = Arc::new(Mutex::new(Ledger::default()));
    let ttl = Duration::from_millis(dice.random_range(500..3_000));
    let processes: Vec<_> =
        (0..3).map(|_| Arc::new(world.process_with(|b| b.ttl(ttl).outage_limit(3 * SECOND)))).collect();
    let tasks: Vec<_> = processes
        .iter()
        .enumerate()
        .map(|(who, process)| tokio::spawn(client(who, process.clone(), ledger.clone(), seed)))
        .collect();
    for _ in 0..40 {
        sleep(Duration::from_millis(dice.random_range(50..1_500))).await;
        let process = &processes[dice.random_range(0..3)];
        let member = dice.random_range(0..usize::from(count));
        process.set([member], &fate(&mut dice));
        if dice.random_range(0..12) == 0 {
            world.members[member].forget();
        }
    }
    processes.iter().for_each(|process| process.set(0..usize::from(count), &CallFate::Fair));
    // Long enough for every quarantine to end, so that everybody can continue.
    let before = ledger.lock().unwrap().grants;
    sleep(MAX_TTL + 10 * SECOND).await;
    let grants = ledger.lock().unwrap().grants;
    assert!(grants > before, "seed {seed}: nobody gets on");
    assert!(tasks.iter().all(|task| !task.is_finished()), "seed {seed}: a client ended");
    // All at once: an aborted task releases, which is not recorded.
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    sleep(3 * MAX_TTL).await;
    // A member that hung for long does not learn that a waiter has gone, but its records expire.
    let left: Vec<_> = world.members.iter().map(|member| member.dump()).collect();
    let empty = left.iter().all(|records| records.locks.is_empty() && records.queues.is_empty());
    assert!(empty, "seed {seed}: something is left: {left:?}");
    assert!(
        processes.iter().all(|process| process.store.under_way() == 0),
        "seed {seed}: something is under way"
    );
    grants
}

/// `QUORUM_SEED=n` runs one seed.
#[test]
fn no_two_guards_are_valid_at_once_and_fences_rise_under_random_faults() {
    let only = std::env::var("QUORUM_SEED").ok().map(|seed| seed.parse().expect("a number"));
    let seeds = only.map_or(0..SEEDS, |seed: u64| seed..seed + 1);
    let mut grants = Vec::new();
    for seed in seeds {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        grants.push(runtime.block_on(run(seed)));
    }
    grants.sort_unstable();
    assert!(grants[grants.len() / 2] >= 10, "too little happens: {grants:?}");
}
