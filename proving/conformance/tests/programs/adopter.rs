//! A process that has adopted a lock, and is killed.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use leasehold::{Event, Locks, Renewal};

use super::place::new_file;

/// The environment variables that make a test the adopter: the store, the token, and how it renews.
const STORE: &str = "LEASEHOLD_TEST_STORE";
const TOKEN: &str = "LEASEHOLD_TEST_TOKEN";
const RENEWAL: &str = "LEASEHOLD_TEST_RENEWAL";

/// Longer than the test takes.
const HOUR: Duration = Duration::from_secs(3600);

/// Adopts the lock, and says so once the lease was renewed.
async fn adopt(store: &str) {
    let renewal = if std::env::var(RENEWAL).unwrap() == "off" { Renewal::Off } else { Renewal::Automatic };
    let locks = Locks::builder().renewal(renewal).connect(store).await.unwrap();
    let mut events = locks.events();
    let _guard = locks.adopt(&std::env::var(TOKEN).unwrap().parse().unwrap()).await.unwrap();
    while !matches!(events.next().await.unwrap(), Event::Renewed { .. }) {}
    println!("adopted");
    std::io::stdout().flush().unwrap();
    std::future::pending::<()>().await;
}

/// Regression: until the first renewal, after a third of the TTL, the lock belonged to no process.
#[tokio::test]
async fn the_lock_of_an_adopter_that_is_killed_is_free_at_once_in_a_file() {
    if let Ok(store) = std::env::var(STORE) {
        return adopt(&store).await;
    }
    let (_directory, url) = new_file();
    let locks = Locks::connect(&url).await.unwrap();
    for renewal in ["automatic", "off"] {
        let token = locks.mutex("k").lock().await.unwrap().transfer(HOUR).await.unwrap();
        let mut adopter = Command::new(std::env::current_exe().unwrap());
        adopter.args(["adopter::", "--nocapture"]).env(STORE, &url).env(RENEWAL, renewal);
        let mut adopter = adopter.env(TOKEN, token.to_string()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(adopter.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("adopted")), "{renewal}");
        assert!(locks.mutex("k").try_lock().await.unwrap().is_none());
        adopter.kill().unwrap();
        adopter.wait().unwrap();
        let free = locks.mutex("k").try_lock().await.unwrap();
        assert!(free.is_some(), "{renewal}: {:?}", locks.inspect("k").await.unwrap().holders);
    }
}
