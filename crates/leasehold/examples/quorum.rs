//! A lock in a majority of three stores, of which one is down. In earnest, three servers:
//! redis://10.0.0.1 and so on.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{AnyStore, Locks, MemoryStore, Store, TokioRuntime};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Arc::new(TokioRuntime::current().ok_or("in a runtime")?);
    let in_memory = |name| -> Arc<dyn Store> { Arc::new(MemoryStore::new(runtime.clone()).named(name)) };
    let down = AnyStore::from_url("redis://127.0.0.1:1")?;
    let stores = [in_memory("a").into(), in_memory("b").into(), down];
    let locks = Locks::quorum(stores, Duration::from_secs(60))?;

    let guard = locks.mutex("invoice:42").lock().await?;
    println!("granted by two of three");
    println!("to others: {:?}", locks.mutex("invoice:42").try_lock().await?.is_some());
    guard.release().await?;

    // With two of three down there is no majority, and the error gives the reason of each.
    let down = |port| AnyStore::from_url(&format!("redis://127.0.0.1:{port}"));
    let builder = Locks::builder().outage_limit(Duration::from_millis(300));
    let locks = builder.quorum([in_memory("a").into(), down(1)?, down(2)?], Duration::from_secs(60))?;
    match locks.mutex("invoice:42").lock().await {
        Ok(_) => println!("granted"),
        Err(error) => println!("{error}"),
    }
    Ok(())
}
