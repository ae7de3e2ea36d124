//! Four graphics cards for ten jobs, on however many machines: no more than four run at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use leasehold::Locks;
use tokio::task::{JoinSet, yield_now};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "memory:".into());
    let cards = Locks::connect(&store).await?.semaphore("gpus", 4);
    let (running, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));

    let mut jobs = JoinSet::new();
    for _ in 0..10 {
        let (cards, running, most) = (cards.clone(), running.clone(), most.clone());
        jobs.spawn(async move {
            let permit = cards.acquire().await.expect("a permit");
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            yield_now().await; // here it works
            running.fetch_sub(1, Ordering::SeqCst);
            permit.release().await.expect("held to the end");
        });
    }
    println!("{} jobs ran", jobs.join_all().await.len());
    println!("never more than four at a time: {}", most.load(Ordering::SeqCst) <= 4);
    Ok(())
}
