//! The store as tasks of one process see it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fs, thread};

use leasehold_core::{FaultKind, GrantAnswer, ProcessStore as _, Store, WaitMode};
use leasehold_file::FileStore;
use tempfile::TempDir;
use tokio::time::timeout;

use crate::clocks::ByHand;
use crate::seeds::attempt;

fn a_store() -> (TempDir, FileStore) {
    let directory = tempfile::tempdir().unwrap();
    let store = FileStore::at(directory.path().join("leases.db"), ByHand::new());
    (directory, store)
}

/// A process that stops itself must not do so in the middle of a transaction.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_store_writes_nothing_and_then_works_again() {
    let (_directory, store) = a_store();
    let store = Arc::new(store);
    let done = Arc::new(AtomicU64::new(0));
    let busy: Vec<_> = (0..4_u128)
        .map(|who| {
            let (store, done) = (Arc::clone(&store), Arc::clone(&done));
            tokio::spawn(async move {
                loop {
                    let attempt = attempt(who, &[&format!("k{who}")], 60_000);
                    store.grant(&attempt, WaitMode::Try).await.unwrap();
                    store.release(&attempt).await.unwrap();
                    done.fetch_add(2, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for _ in 0..20 {
        let before = done.load(Ordering::SeqCst);
        while done.load(Ordering::SeqCst) < before + 10 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let (store, done) = (Arc::clone(&store), Arc::clone(&done));
        let rested = tokio::task::spawn_blocking(move || {
            let (sender, went_on) = mpsc::channel();
            store.at_rest(Box::new(move || {
                let is_still = || {
                    let before = done.load(Ordering::SeqCst);
                    thread::sleep(Duration::from_millis(20));
                    done.load(Ordering::SeqCst) == before
                };
                // Requests that were answered may still be counted.
                sender.send((0..50).any(|_| is_still())).unwrap();
            }));
            went_on.recv().unwrap()
        });
        assert!(rested.await.unwrap());
    }
    busy.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn a_fault_of_renewals_is_everybodys() {
    let nowhere = FileStore::at("/dev/null/leases.db", ByHand::new());
    let all = [(1, "a"), (2, "b"), (3, "c")].map(|(who, name)| attempt(who, &[name], 60_000));
    let answers = nowhere.renew(&all).await;
    assert!(answers.len() == 3 && answers.iter().all(|a| a.as_ref().unwrap_err().kind == FaultKind::Lasting));
}

#[tokio::test]
async fn nothing_is_opened_before_the_first_request_and_the_thread_ends_with_the_store() {
    let (directory, store) = a_store();
    let file = directory.path().join("leases.db");
    assert_eq!(store.name(), format!("file:{}", file.display()));
    assert!(!file.exists());
    store.open().await.unwrap();
    assert!(!file.exists(), "the first grant creates it");
    let granted = store.grant(&attempt(1, &["a"], 60_000), WaitMode::Try).await;
    assert!(matches!(granted, Ok(GrantAnswer::Granted { .. })), "{granted:?}");
    assert!(file.exists() && file.with_extension("db-shm").exists());
    drop(store);
    // SQLite takes -shm away when the last connection is closed, which the thread does as it ends.
    timeout(Duration::from_secs(5), async {
        while file.with_extension("db-shm").exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .unwrap();
}

/// Otherwise it would find out only at its next question, seconds later.
#[tokio::test]
async fn a_waiter_whose_file_and_session_were_removed_asks_again_at_once() {
    let (directory, store) = a_store();
    let [holds, waits] = [1, 2].map(|who| attempt(who, &["a"], 60_000));
    store.grant(&holds, WaitMode::Try).await.unwrap();
    let answer = store.grant(&waits, WaitMode::Wait { queue_limit: None }).await.unwrap();
    assert!(!matches!(answer, GrantAnswer::Granted { .. }), "{answer:?}");
    for name in ["leases.db", "leases.db-wal", "leases.db-shm"] {
        fs::remove_file(directory.path().join(name)).unwrap();
    }
    fs::remove_dir_all(directory.path().join("leases.db-peers")).unwrap();
    timeout(Duration::from_secs(30), store.woken(&waits)).await.expect("it asks again");
}
