//! Locks over a pool of the program's, here deadpool-redis: they keep one of its connections, and
//! take the next one when it fails.

use leasehold::{Locks, redis};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "redis://127.0.0.1".into());
    let pool = deadpool_redis::Config::from_url(url).create_pool(Some(deadpool_redis::Runtime::Tokio1))?;
    let lent = pool.clone();
    let locks = Locks::builder().redis_pool(move || {
        let pool = lent.clone();
        async move { pool.get().await }
    })?;

    let guard = locks.mutex("invoice:42").lock().await?;
    println!("{}: mine", locks.store());

    // An operator ends every connection but this one. A lock waits until the pool has made another.
    let mut connection = pool.get().await?;
    let _: i64 = redis::cmd("CLIENT").arg(&["KILL", "SKIPME", "yes"]).query_async(&mut connection).await?;
    locks.mutex("invoice:43").lock().await?.release().await?;
    println!("still mine: {}", guard.is_held());
    guard.release().await?;
    Ok(())
}
