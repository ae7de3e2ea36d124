//! A lock that goes from one process to another with its job: `LEASEHOLD_STORE=redis://localhost
//! cargo run --example transfer`; without it, both are in this process.

use std::time::Duration;

use leasehold::{Locks, TransferError};

/// Accepts an upload, and returns the job that another process finishes. The token is part of it.
async fn accept(locks: &Locks) -> Result<String, leasehold::Error> {
    let guard = locks.mutex("upload:7").lock().await?;
    println!("accepted"); // Nothing may write under this guard any more.
    Ok(guard.transfer(Duration::from_secs(60)).await?.to_string())
}

/// Finishes the job, unless another process does.
async fn finish(locks: &Locks, job: &str) -> Result<(), leasehold::Error> {
    let guard = match locks.adopt(&job.parse()?).await {
        Err(TransferError::Lost(why)) => {
            println!("not mine: {why}");
            return Ok(());
        }
        adopted => adopted?,
    };
    println!("finished by {}", guard.held().label().unwrap_or_default());
    guard.release().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "memory:".into());
    let web = Locks::connect(&store).await?;
    let job = accept(&web).await?;
    assert!(web.mutex("upload:7").try_lock().await?.is_none());
    let worker =
        if store == "memory:" { web } else { Locks::builder().label("worker").connect(&store).await? };
    finish(&worker, &job).await?;
    Ok(finish(&worker, &job).await?)
}
