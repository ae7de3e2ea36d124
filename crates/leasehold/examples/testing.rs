//! A test of a program that uses locks, with the feature `testing`: its clock is moved by hand.

use std::time::Duration;

use leasehold::Locks;
use leasehold::testing::{Outage, World};
use tokio::task::JoinSet;

/// The code under test: it works until it loses its lock.
async fn job(locks: Locks) -> String {
    let done = locks.mutex("job").lock().hold(async |_| std::future::pending::<()>().await).await;
    done.map_or_else(|why| why.to_string(), |()| "done".into())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::new();
    let mut jobs = JoinSet::new();
    jobs.spawn(job(world.locks()));
    jobs.spawn(job(world.locks()));
    world.until("job", |state| state.holders.len() + state.waiters.len() == 2).await;

    world.advance(Duration::from_secs(3600)).await;
    println!("an hour later: {}", if jobs.try_join_next().is_none() { "working" } else { "stopped" });

    world.break_lease("job");
    println!("{}", jobs.join_next().await.ok_or("no job")??);

    world.settle().await; // the other one has the lock, and knows it
    world.outage(Outage::Silent);
    let minute = Duration::from_secs(60);
    println!("{}", world.within(minute, jobs.join_next()).await.ok_or("no job")??);
    println!("{:.0?} of its time", world.passed());
    Ok(())
}
