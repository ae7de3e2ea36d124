//! Behind PgBouncer in transaction mode, which gives each transaction any session: everything but
//! push works.

use std::time::Duration;

use leasehold::{Event, Severity};
use servers::Pooler;

use crate::world::{Crowd, db, process, server, take, until};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_pooler_in_transaction_mode_everything_but_push_works() {
    let server = server(&[]).await;
    let pooler = {
        let server = server.clone();
        tokio::task::spawn_blocking(move || Pooler::before(&server)).await.unwrap()
    };
    let processes = [process(&pooler.url(), 3 * SECOND).await, process(&pooler.url(), 3 * SECOND).await];
    let [here, there] = &processes;
    // A holder outlives its TTL by renewals; a waiter polls until its turn comes.
    let guard = take(here, "k").await;
    let mut events = there.events();
    let waits = tokio::spawn({
        let there = there.clone();
        async move { take(&there, "k").await }
    });
    let down = async {
        loop {
            if let Some(Event::PushDown { fault, .. }) = events.next().await {
                break fault.to_string();
            }
        }
    };
    let fault = tokio::time::timeout(20 * SECOND, down).await.expect("push is not said to be down");
    assert!(fault.contains("pooler") && fault.contains("name the server itself"), "{fault}");
    let dangers: Vec<_> =
        here.diagnose().await.into_iter().filter(|it| it.severity > Severity::Note).collect();
    let abouts: Vec<_> = dangers.iter().map(|it| it.about).collect();
    // The tests' servers do not wait for their disks.
    assert_eq!(abouts, ["disk", "push"], "{dangers:?}");
    let began = tokio::time::Instant::now();
    until("the first lease would have ended", async || began.elapsed() > 4 * SECOND).await;
    assert!(guard.is_held() && !waits.is_finished());
    assert_eq!(here.inspect("k").await.unwrap().waiters.len(), 1);
    guard.release().await.unwrap();
    waits.await.unwrap().release().await.unwrap();

    let crowd = Crowd::start(&processes, "crowded");
    crowd.goes_on(20).await;
    crowd.end().await;
    let readers = [here.rw_lock("r").read().await.unwrap(), there.rw_lock("r").read().await.unwrap()];
    assert!(here.rw_lock("r").try_write().await.unwrap().is_none());
    drop(readers);
    let permits = here.semaphore("s", 2).acquire_many(2).await.unwrap();
    assert!(there.semaphore("s", 2).try_acquire().await.unwrap().is_none());
    permits.release().await.unwrap();
    here.mutex_all(["a", "b"]).lock().await.unwrap().release().await.unwrap();
    let locks =
        db(&server).await.query_one("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", &[]).await;
    assert_eq!(locks.unwrap().get::<_, i64>(0), 0, "a session of the pool keeps a lock");
}
