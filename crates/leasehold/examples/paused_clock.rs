//! A test with the feature `testing` on tokio's paused clock (`start_paused = true`): the code under
//! test sleeps by tokio, and an hour of its work takes a moment.

use std::time::Duration;

use leasehold::testing::{Outage, World};
use leasehold::{HoldError, Locks};
use tokio::time::{Instant, sleep};

/// The code under test: it imports a file a minute, for as long as it has the lock.
#[allow(clippy::disallowed_methods, reason = "a program, and not the library")]
async fn import(locks: Locks, files: u32) -> Result<u32, HoldError> {
    let work = async |_| {
        for _ in 0..files {
            sleep(Duration::from_secs(60)).await;
        }
        files
    };
    locks.mutex("import").lock().hold(work).await.map_err(|error| error.map(drop))
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
#[allow(clippy::disallowed_methods, reason = "a program, and not the library")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (world, began) = (World::new(), Instant::now());
    println!("imported {} files", import(world.locks(), 60).await?);
    println!("in {:?}", began.elapsed());

    let importing = tokio::spawn(import(world.locks(), 60));
    world.until_held("import").await;
    world.outage(Outage::Silent); // the store does not answer any more
    let stopped = importing.await?.err().ok_or("it went on")?;
    println!("{stopped}");
    println!("after {:?} more", began.elapsed().saturating_sub(Duration::from_secs(3600)));
    Ok(())
}
