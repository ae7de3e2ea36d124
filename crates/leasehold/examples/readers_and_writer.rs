//! Readers together, a writer alone.

use leasehold::Locks;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "memory:".into());
    let doc = Locks::connect(&store).await?.rw_lock("doc:7");

    let (one, other) = (doc.read().await?, doc.read().await?);
    println!("two read");
    println!("a writer may come in: {}", doc.try_write().await?.is_some());

    // Queued behind the readers, and before readers that ask later.
    let (alone, ()) = tokio::join!(doc.write(), async { drop((one, other)) });
    let alone = alone?;
    println!("a writer writes alone");
    println!("a reader may come in: {}", doc.try_read().await?.is_some());
    alone.release().await?;
    Ok(())
}
