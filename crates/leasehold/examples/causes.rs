//! What went wrong, as a program can tell: each error has its cause as `source()`, also behind the
//! `Box<dyn Error>` or `anyhow::Error` of a program.

use std::error::Error;
use std::time::Duration;

use leasehold::{Fault, FaultCause, Locks};

async fn job(store: &str) -> Result<(), Box<dyn Error>> {
    let locks = Locks::builder().outage_limit(Duration::from_millis(300)).connect(store).await?;
    locks.mutex("job").lock().within(Duration::from_secs(1)).await?.release().await?;
    Ok(())
}

/// The store's fault, wherever it is in the chain.
fn fault<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Fault> {
    error.downcast_ref().or_else(|| fault(error.source()?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let given = std::env::var("LEASEHOLD_STORE").into_iter();
    for store in ["redis://127.0.0.1:1".into()].into_iter().chain(given) {
        let Err(error) = job(&store).await else {
            println!("done");
            continue;
        };
        match fault(&*error).map(|fault| fault.cause) {
            Some(FaultCause::ConnectionRefused) => println!("start the server"),
            Some(FaultCause::Authentication) => println!("correct the password"),
            _ => println!("{error}"),
        }
    }
    Ok(())
}
