//! A configuration that many processes read and one reloads: the writer becomes a reader, so that
//! nobody else changes what it has just written before it has read it.

use leasehold::{Locks, RwLockReadGuard, RwLockWriteGuard};

/// Needs the guard of a writer: that of a reader does not compile here.
async fn write(_: &RwLockWriteGuard) {
    println!("written by one");
}

/// Reads under a guard.
async fn read(_: &RwLockReadGuard, who: &str) {
    println!("read by {who}");
}

#[tokio::main]
async fn main() -> Result<(), leasehold::Error> {
    let store = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "memory:".into());
    let config = Locks::connect(&store).await?.rw_lock("config");

    let writing = config.write().await?;
    write(&writing).await;
    println!("others read now: {}", config.try_read().await?.is_some());
    let reading = writing.downgrade();
    let other = config.read().await?; // let in as soon as the store knows
    tokio::join!(read(&reading, "the one that wrote it"), read(&other, "another"));
    println!("others write now: {}", config.try_write().await?.is_some());

    reading.release().await?;
    other.release().await?;
    println!("and then: {}", config.try_write().await?.is_some());
    Ok(())
}
