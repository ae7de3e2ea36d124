//! Locks over the program's connection of redis-rs: a `ConnectionManager`, because it reconnects.

use leasehold::{Locks, redis};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "redis://127.0.0.1".into());
    // The program's own `redis` in Cargo.toml switches the feature `connection-manager` on.
    let mut manager = redis::Client::open(url)?.get_connection_manager().await?;
    let locks = Locks::builder().redis_connection(manager.clone())?;

    let guard = locks.mutex("invoice:42").lock().await?;
    println!("{}: mine", locks.store());
    println!("free for others: {}", locks.mutex("invoice:42").try_lock().await?.is_some());
    guard.release().await?;

    let pong: String = redis::cmd("PING").query_async(&mut manager).await?;
    println!("the connection is still the program's: {pong}");
    Ok(())
}
