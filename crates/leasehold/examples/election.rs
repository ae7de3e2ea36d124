//! One leader among several candidates; when it resigns, the next in the queue leads.

use leasehold::Locks;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = std::env::var("LEASEHOLD_STORE").unwrap_or_else(|_| "memory:".into());
    let election = Locks::connect(&store).await?.election("scheduler");

    let leadership = election.candidate("a").stand().await?;
    let mut standing = JoinSet::new();
    standing.spawn(election.candidate("b").stand());
    while election.candidates().await?.is_empty() {
        tokio::task::yield_now().await;
    }
    let leader = election.leader().await?.ok_or("nobody")?;
    println!("leads: {}", leader.owner);
    for candidate in election.candidates().await? {
        println!("would lead next: {}", candidate.label.ok_or("nameless")?.as_str());
    }

    let term = leadership.fence();
    leadership.release().await?; // resigns; also done when it is dropped
    let leadership = standing.join_all().await.pop().ok_or("nobody stood")??;
    println!("b leads, with a greater fence: {}", leadership.fence() > term);
    leadership.release().await?;
    Ok(())
}
