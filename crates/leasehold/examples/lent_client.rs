//! Locks over a client of the fred crate, which the program has already: with the features `redis`
//! and `fred`.

use leasehold::Locks;
use leasehold::fred::prelude::{Builder, ClientLike, Config, ReconnectPolicy};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "redis://127.0.0.1".into());
    let config = Config::from_url(&url)?;
    let client = Builder::from_config(config).set_policy(ReconnectPolicy::default()).build()?;
    client.init().await?;

    // The locks use a clone of the client: it has the same configuration, and its own connection,
    // so the program's commands do not delay the locks.
    let lent = client.clone_new();
    lent.init().await?;
    let locks = Locks::builder().fred_client(lent)?;

    let guard = locks.mutex("invoice:42").lock().await?;
    println!("{}: mine", locks.store());
    println!("free for others: {}", locks.mutex("invoice:42").try_lock().await?.is_some());
    guard.release().await?;

    let pong: String = client.ping(None).await?;
    println!("the client is still the program's: {pong}");
    Ok(())
}
