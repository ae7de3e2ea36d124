use std::path::Path;

use leasehold::Locks;

use super::{Workload, on_one_thread};
use crate::AnyError;
use crate::backend::OpenStore;
use crate::clock;
use crate::echo::Echo;
use crate::figure::{Figures, Of};
use crate::order::Order;
use crate::sample::Sample;
use crate::settings::Settings;
use crate::transactions::Transactions;
use crate::workers::{Race, Workers};

pub(super) const WORKLOAD: Workload = Workload {
    name: "file",
    title: "The file store",
    method: "\
Processes acquire and release one key of a file: *through the store*, as an async program does, and
*blocking*, through the ledger, which tries again while the key is held. *Bare transactions*: two
immediate transactions of the same database library, each of which writes one row, with the settings
of the file store. The gap is that of `hand_off` between two processes without hold or think time.
Its floor, measured in the same repetition, is the sum of a datagram to another process and back,
and one bare transaction. The *bare gap* is between two processes that make such transactions in
turns: from the start of one's transaction until the other knows of it by a datagram. Floor and bare
gap have two values each, because the kernel either keeps both processes on one processor or has to
wake the other one.",
    run,
};

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    for backend in settings.backends().filter(|backend| backend.is_file()) {
        figures.announce("file");
        let store = backend.open();
        cycles(settings, figures, &store)?;
        gap(settings, figures, &store)?;
    }
    Ok(())
}

fn of<'a>(store: &OpenStore, case: &'a str) -> Of<'a> {
    Of { workload: WORKLOAD.name, backend: store.backend, case }
}

const ALONE: &str = "1 process";
const FOUR: &str = "4 processes, one key";

fn cycles(settings: &Settings, figures: &mut Figures, store: &OpenStore) -> Result<(), AnyError> {
    let [mut async_store, mut four, mut spun, mut four_spun, mut bare] = [(); 5].map(|()| Sample::default());
    let mut one_worker = Workers::start(store, 1)?;
    let mut four_workers = Workers::start(store, 4)?;
    let mut ledger = Transactions::open(directory(store)?)?;
    let turns = settings.pick(20_000, 200);
    for repetition in 0..=settings.repetitions() {
        let lap = [
            on_one_thread(through_the_store(store, turns))?,
            four_workers
                .take_turns(&Race { key: "four", waiters: 4, each: turns / 4, hold: 0, think: 0 })?
                .per_second(),
            spin(&mut one_worker, store, turns)?,
            spin(&mut four_workers, store, turns / 4)?,
            pairs_per_second(&mut ledger, turns)?,
        ];
        // The first repetition is a warm-up.
        if repetition > 0 {
            for (sample, speed) in
                [&mut async_store, &mut four, &mut spun, &mut four_spun, &mut bare].into_iter().zip(lap)
            {
                sample.push(speed / 1e3);
            }
        }
    }
    figures.add(of(store, ALONE), "through the store", "k/s", async_store.clone());
    figures.add(of(store, FOUR), "through the store", "k/s", four);
    figures.add(of(store, ALONE), "blocking", "k/s", spun.clone());
    figures.add(of(store, FOUR), "blocking", "k/s", four_spun);
    figures.add(of(store, ALONE), "bare transactions", "k/s", bare.clone());
    figures.add(of(store, ALONE), "through the store ÷ bare transactions", "", async_store.over(&bare));
    figures.add(of(store, ALONE), "blocking ÷ bare transactions", "", spun.over(&bare));
    Ok(())
}

fn directory(store: &OpenStore) -> Result<&Path, AnyError> {
    store.directory().ok_or_else(|| "the file store has no directory".into())
}

async fn through_the_store(store: &OpenStore, turns: u32) -> Result<f64, AnyError> {
    let mutex = Locks::connect(&store.url).await?.mutex("alone");
    let begun = clock::now();
    for _ in 0..turns {
        mutex.lock().await?.release().await?;
    }
    Ok(f64::from(turns) * 1e9 / (clock::now() - begun) as f64)
}

fn spin(workers: &mut Workers, store: &OpenStore, turns: u32) -> Result<f64, AnyError> {
    let file = store.url.trim_start_matches("file:").to_owned();
    Ok(workers.turns(&Order::Spin { file, turns })?.per_second())
}

fn gap(settings: &Settings, figures: &mut Figures, store: &OpenStore) -> Result<(), AnyError> {
    let [mut medians, mut floors, mut bare] = [(); 3].map(|()| Sample::default());
    let mut workers = Workers::start(store, 2)?;
    let echo = Echo::start(&mut workers, 1, directory(store)?)?;
    let mut ledger = Transactions::open(directory(store)?)?;
    let each = settings.pick(200, 50);
    // Short and many, so that a gap and its baseline are measured at nearly the same moment and
    // other load affects both.
    for repetition in 0..=settings.pick(41, 5) {
        let floor = echo.round_trip(each)? + transaction(&mut ledger, each)?;
        let turns = echo.turns(&mut ledger, each)?;
        let race = Race { key: "gap", waiters: 2, each, hold: 0, think: 0 };
        let gap = workers.take_turns(&race)?.gaps().median();
        // The first repetition is a warm-up.
        if repetition > 0 {
            floors.push(floor);
            bare.push(turns);
            medians.push(gap);
        }
    }
    figures.add(of(store, ""), "gap p50 ÷ floor", "", medians.over(&floors));
    figures.add(of(store, ""), "gap p50 ÷ bare gap p50", "", medians.over(&bare));
    figures.add(of(store, ""), "gap p50", "µs", medians);
    figures.add(of(store, ""), "floor of the gap", "µs", floors);
    figures.add(of(store, ""), "bare gap p50", "µs", bare);
    Ok(())
}

fn pairs_per_second(ledger: &mut Transactions, count: u32) -> Result<f64, AnyError> {
    let begun = clock::now();
    ledger.pairs(count)?;
    Ok(f64::from(count) * 1e9 / (clock::now() - begun) as f64)
}

/// The median time of a transaction, in µs.
fn transaction(ledger: &mut Transactions, count: u32) -> Result<f64, AnyError> {
    let mut each = Sample::default();
    for serial in 0..count {
        for taken in [true, false] {
            let begun = clock::now();
            ledger.write(taken, serial)?;
            each.push((clock::now() - begun) as f64 / 1e3);
        }
    }
    Ok(each.median())
}
