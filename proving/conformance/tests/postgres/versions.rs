//! Programs of this version on tables of other versions.

use std::time::Duration;

use leasehold::postgres::{InitOutcome, init};

use crate::world::{Crowd, db, process, served, server, take};

const SECOND: Duration = Duration::from_secs(1);

/// A later version may add columns and tables, and says that this one still knows enough.
#[tokio::test(flavor = "multi_thread")]
async fn tables_to_which_a_later_version_has_added_serve_this_one() {
    let (server, db) = served().await;
    let (before, url) = (process(&server.url(), 5 * SECOND).await, server.url());
    let kept = take(&before, "kept").await;
    for table in ["meta", "lease", "share", "waiter", "unresponsive", "mark", "broken"] {
        let add = format!("ALTER TABLE leasehold.{table} ADD COLUMN later text DEFAULT 'later'");
        db.batch_execute(&add).await.unwrap();
    }
    db.batch_execute("UPDATE leasehold.meta SET value = '3' WHERE name = 'version'").await.unwrap();

    assert_eq!(init(&url).await.unwrap(), InitOutcome::Existed);
    let after = process(&url, 5 * SECOND).await;
    assert!(after.mutex("kept").try_lock().await.unwrap().is_none());
    kept.release().await.unwrap();
    let crowd = Crowd::start(&[before.clone(), after.clone()], "k");
    crowd.goes_on(40).await;
    crowd.end().await;
    let readers = [before.rw_lock("r").read().await.unwrap(), after.rw_lock("r").read().await.unwrap()];
    assert!(after.rw_lock("r").try_write().await.unwrap().is_none());
    drop(readers);
    let broken = take(&before, "broken").await;
    after.break_lease("broken", broken.fence()).await.unwrap();
    assert!(after.list("").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_need_a_later_version_are_refused_before_anything_is_asked_of_them() {
    let server = server(&[]).await;
    let of = "UPDATE leasehold.meta SET value = '3' WHERE name IN ('version', 'readable_by')";
    db(&server).await.batch_execute(of).await.unwrap();
    let refused = leasehold::Locks::connect(&server.url()).await.unwrap_err().to_string();
    assert!(refused.contains("takes a program of version 3") && refused.contains("update"), "{refused}");
    let refused = init(&server.url()).await.unwrap_err().to_string();
    assert!(refused.contains("takes a program of version 3"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_are_too_old_are_refused_and_the_remedy_works() {
    let (server, db) = served().await;
    let url = server.url();
    let older = "UPDATE leasehold.meta SET value = '1' WHERE name IN ('version', 'readable_by')";
    db.batch_execute(older).await.unwrap();
    let connected = leasehold::Locks::connect(&url).await.map(drop);
    for refused in [connected.unwrap_err().to_string(), init(&url).await.unwrap_err().to_string()] {
        assert!(refused.contains("version 1") && refused.contains("drop this one"), "{refused}");
        assert!(refused.contains("leasehold init"), "{refused}");
    }
    db.batch_execute("DROP SCHEMA leasehold CASCADE").await.unwrap();
    assert_eq!(init(&url).await.unwrap(), InitOutcome::Created);
    take(&process(&url, 5 * SECOND).await, "k").await.release().await.unwrap();
}
