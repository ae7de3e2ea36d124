//! A job under a lock, whose writes carry its fence. `LEASEHOLD_STORE=redis://localhost cargo run
//! --example job`; without it, the locks are this process's alone.

use std::sync::Mutex;

use leasehold::{Fence, Locks};

/// Represents a database: it refuses a smaller fence than it has seen.
#[derive(Default)]
struct Ledger(Mutex<Option<Fence>>);

impl Ledger {
    fn charge(&self, invoice: u32, fence: Fence) {
        let mut greatest = self.0.lock().unwrap();
        if Some(fence) < *greatest {
            println!("invoice {invoice}: refused, somebody was here since");
        } else {
            *greatest = Some(fence);
            println!("invoice {invoice}: charged");
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "memory:".into());
    let (locks, ledger) = (Locks::connect(&store).await?, Ledger::default());

    let guard = locks.mutex("invoice:42").lock().await?;
    let old = guard.fence();
    ledger.charge(42, old);
    guard.release().await?;

    let guard = locks.mutex("invoice:42").lock().await?;
    ledger.charge(42, guard.fence());
    ledger.charge(42, old); // a write that was on its way for a long time
    guard.release().await?;
    Ok(())
}
