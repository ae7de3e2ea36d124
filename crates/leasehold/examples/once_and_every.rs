//! A job that runs once, ever, and one that runs once per period, whichever process starts it.

use std::io;
use std::time::Duration;

use leasehold::{EveryOutcome, Locks, OnceOutcome};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "memory:".into());
    let locks = Locks::connect(&store).await?;

    for instance in ["first", "second"] {
        // All instances of a program may say this at their start.
        match locks.once("migrate:0042").run(async |_| Ok::<_, io::Error>(17)).await? {
            OnceOutcome::Ran(tables) => println!("{instance}: migrated {tables} tables"),
            OnceOutcome::AlreadyDone { .. } => println!("{instance}: was migrated"),
        }
        // And this from a timer, each by its own clock.
        let report = locks.every(Duration::from_secs(3600), "report");
        match report.run(async |_| Ok::<_, io::Error>(())).await? {
            EveryOutcome::Ran(()) => println!("{instance}: reported"),
            EveryOutcome::NotDue(_) => println!("{instance}: no report is due"),
        }
    }

    // A failed job does not count as done: the next process tries.
    let failed = locks.once("seed").run(async |_| Err::<(), _>("no disk space")).await;
    println!("{}", failed.is_err());
    println!("{}", locks.once("seed").mark().await?.is_none());
    Ok(())
}
