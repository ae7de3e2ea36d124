//! Locks for blocking programs: in a plain thread, and even in an async runtime.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::blocking::{Guard, Locks};
use leasehold::{LockError, Loss};
use servers::{Flavor, Server};
use tokio::runtime::Builder;

use super::place::on_every_store;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn threads_that_block_take_turns() {
    on_every_store(|connect| {
        const THREADS: u32 = 8;
        const TURNS: u32 = 25;
        let (inside, done) = (AtomicU32::new(0), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..THREADS {
                let locks = connect();
                let (inside, done) = (&inside, &done);
                scope.spawn(move || {
                    let mut last = None;
                    for _ in 0..TURNS {
                        let guard = locks.mutex("turn").lock().within(30 * SECOND).wait().unwrap();
                        assert_eq!(
                            inside.fetch_add(1, Ordering::SeqCst),
                            0,
                            "two at once on {}",
                            locks.store()
                        );
                        assert!(last < Some(guard.fence()));
                        last = Some(guard.fence());
                        inside.fetch_sub(1, Ordering::SeqCst);
                        done.fetch_add(1, Ordering::SeqCst);
                        guard.release().unwrap();
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), THREADS * TURNS);
    });
}

/// tokio pauses a task after some operations; code that blocks inside it used to hang forever.
#[test]
fn a_task_of_a_runtime_of_one_thread_may_block_for_as_many_locks_as_it_likes() {
    on_every_store(|connect| {
        let locks = connect();
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let task = tokio::spawn(async move {
                for n in 0..400 {
                    let guard = locks.mutex(format!("k{}", n % 3)).lock().within(10 * SECOND).wait().unwrap();
                    guard.release().unwrap();
                }
            });
            task.await.unwrap();
        });
    });
}

/// A server without RESP3 needs a second connection for pushes; opening it in a thread panicked.
#[test]
fn threads_wait_at_a_server_without_resp3() {
    let server = Server::start(Flavor::Redis50);
    let connect = || Locks::connect(&server.url()).unwrap();
    let _held = connect().mutex("k").lock().wait().unwrap();
    for _ in 0..20 {
        let busy = connect().mutex("k").lock().within(SECOND / 50).wait().unwrap_err();
        assert!(busy.is_timeout(), "{busy}");
    }
}

#[test]
fn a_thread_can_watch_over_what_others_hold() {
    let server = Server::start(Flavor::Valkey91);
    let locks = Locks::connect(&server.url()).unwrap();
    let guard = locks.mutex("k").ttl(SECOND).lock().wait().unwrap();
    let held = guard.held();
    let watcher = thread::spawn(move || Guard::await_loss(&held));
    server.text(&["DEL", "k"]);
    assert!(matches!(
        watcher.join().unwrap(),
        Loss::Expired { .. } | Loss::TakenByOther { .. } | Loss::Gone { .. }
    ));
    assert!(!guard.is_held() && guard.loss().is_some());
}

#[test]
fn closing_releases_every_lock_that_is_still_held() {
    on_every_store(|connect| {
        let locks = connect();
        let guard = locks.mutex("k").lock().wait().unwrap();
        let error = locks.close(Duration::ZERO).unwrap_err();
        assert_eq!(error.taken_back.len(), 1);
        assert!(!guard.is_held());
        assert!(matches!(locks.mutex("k").lock().wait(), Err(LockError::Closed { .. })));
    });
}
