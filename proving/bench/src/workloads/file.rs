use leasehold::Locks;

use super::{Bench, Workload, on_one_thread};
use crate::AnyError;
use crate::backend::OpenStore;
use crate::clock;
use crate::figure::Figures;
use crate::sample::Sample;
use crate::settings::Settings;
use crate::transactions::Transactions;
use crate::workers::{Race, Workers};

pub(super) const WORKLOAD: Workload = Workload {
    name: "file",
    title: "The file store",
    method: "\
Processes acquire and release one key of a file. *Bare transactions* are two immediate transactions
of the same database library, each of which writes one row, with the settings of the file store.",
    run,
};

fn run(settings: &Settings, figures: &mut Figures) -> Result<(), AnyError> {
    for backend in settings.backends().filter(|backend| backend.is_file()) {
        figures.announce("file");
        let store = &backend.open();
        cycles(&mut Bench { workload: WORKLOAD.name, settings, figures, store })?;
    }
    Ok(())
}

const ALONE: &str = "1 process";
const FOUR: &str = "4 processes, one key";

fn cycles(bench: &mut Bench<'_>) -> Result<(), AnyError> {
    let Bench { settings, store, .. } = *bench;
    let [mut one, mut four, mut bare] = [(); 3].map(|()| Sample::default());
    let mut workers = Workers::start(store, 4)?;
    let mut ledger = Transactions::open(store.directory()?)?;
    let turns = settings.pick(20_000, 200);
    let race = Race { key: "four", waiters: 4, each: turns / 4, hold: 0, think: 0 };
    for repetition in 0..=settings.repetitions() {
        let lap = [
            on_one_thread(through_the_store(store, turns))?,
            workers.take_turns(&race)?.per_second(),
            pairs_per_second(&mut ledger, turns)?,
        ];
        // The first repetition is a warm-up.
        if repetition > 0 {
            for (sample, speed) in [&mut one, &mut four, &mut bare].into_iter().zip(lap) {
                sample.push(speed / 1e3);
            }
        }
    }
    bench.add(ALONE, "through the store", "k/s", one.clone());
    bench.add(FOUR, "through the store", "k/s", four);
    bench.add(ALONE, "bare transactions", "k/s", bare.clone());
    bench.add(ALONE, "through the store ÷ bare transactions", "", one.over(&bare));
    Ok(())
}

async fn through_the_store(store: &OpenStore, turns: u32) -> Result<f64, AnyError> {
    let mutex = Locks::connect(&store.url).await?.mutex("alone");
    let begun = clock::now();
    for _ in 0..turns {
        mutex.lock().await?.release().await?;
    }
    Ok(f64::from(turns) * 1e9 / (clock::now() - begun) as f64)
}

fn pairs_per_second(ledger: &mut Transactions, count: u32) -> Result<f64, AnyError> {
    let begun = clock::now();
    ledger.pairs(count)?;
    Ok(f64::from(count) * 1e9 / (clock::now() - begun) as f64)
}
