//! A service that must not run twice: the second instance says who is at it, and the first stops
//! when it loses its lock.

use std::time::Duration;

use leasehold::{HoldError, Locks};
use tokio::task::JoinSet;

async fn serve(locks: Locks, name: &'static str) {
    let running =
        locks.mutex("billing").label(name).lock().within(Duration::from_millis(50)).hold(async |_| {
            println!("{name}: serving");
            std::future::pending::<()>().await;
        });
    match running.await {
        Ok(()) => println!("{name}: done"),
        Err(HoldError::NotTaken(why)) => println!("{name}: not started: {why}"),
        Err(stopped) => println!("{name}: {stopped}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "memory:".into());
    let locks = Locks::connect(&store).await?;

    let mut first = JoinSet::new();
    first.spawn(serve(locks.clone(), "first"));
    while !locks.mutex("billing").is_locked().await? {
        tokio::task::yield_now().await;
    }
    serve(locks.clone(), "second").await;

    // As an operator does with `leasehold break`: the first service loses its lock.
    let held = locks.inspect("billing").await?.holders.pop().ok_or("nobody")?;
    locks.break_lease("billing", held.fence.ok_or("not ours")?).await?;
    first.join_all().await;
    Ok(())
}
