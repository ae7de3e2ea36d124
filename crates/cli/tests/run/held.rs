//! Locks that are held by the process of the test.

use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use leasehold::Locks;
use tokio::sync::oneshot;

/// Held locks, until this is dropped.
pub(crate) struct Held {
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    pub(crate) fences: Vec<u64>,
}

impl Held {
    /// Holds these keys with the default label of a run, each with so many waiters behind it.
    pub(crate) fn all(store: &str, keys: Vec<String>, waiters: usize) -> Self {
        let url = store.to_owned();
        let (end, ended) = oneshot::channel();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let locks = Locks::connect(&url).await.unwrap();
                let mut guards = Vec::new();
                for key in &keys {
                    let lock = locks.mutex(key).label("ada@web-3.example:4711 report");
                    guards.push(lock.lock().await.unwrap());
                    for _ in 0..waiters {
                        let lock = lock.clone();
                        tokio::spawn(async move { lock.lock().await });
                    }
                }
                for key in &keys {
                    while locks.inspect(key).await.unwrap().waiters.len() < waiters {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                tell.send(guards.iter().map(|guard| guard.fence().get()).collect()).unwrap();
                let _ = ended.await;
            });
        });
        let fences = told.recv_timeout(Duration::from_secs(60)).expect("all are held");
        Self { end: Some(end), thread: Some(thread), fences }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
