//! A library and Leasehold on one server.

use std::{fmt, thread, time::Duration};

use interop::{Answer, Driver, Peer, now};
use leasehold::{Guard, LockError, Locks, Mutex};
use libtest_mimic::Failed;
use servers::{Flavor, Reply, Server};
use tokio::{runtime, task::JoinHandle};

/// Longer than any test lasts.
pub(crate) const LONG: Duration = Duration::from_secs(20);
/// Enough for several polls.
pub(crate) const A_WHILE: Duration = Duration::from_millis(300);
/// How long a process may wait for a processor on a machine that is busy compiling.
pub(crate) const SLACK: Duration = Duration::from_secs(3);

/// The lock's name in the other library.
const NAME: &str = "invoice:42";

/// A library, Leasehold, and the servers that both use.
pub(crate) struct Pair {
    pub(crate) peer: Peer,
    pub(crate) driver: Driver,
    pub(crate) locks: Locks,
    pub(crate) servers: Vec<Server>,
    pub(crate) key: String,
}

/// A promise, as a test of one pair. It blocks, while Leasehold's tasks run on the runtime's workers.
pub(crate) type Promise = fn(&mut Pair, &runtime::Handle);

/// Runs the test on each of these servers, in parallel.
pub(crate) fn on_each(flavors: &[Flavor], peer: Peer, promise: Promise) -> Result<(), Failed> {
    thread::scope(|scope| {
        let threads: Vec<_> = flavors
            .iter()
            .map(|&flavor| {
                let run =
                    move || with_runtime(|runtime| promise(&mut Pair::on(flavor, peer, runtime), runtime));
                let named = thread::Builder::new().name(format!("{peer} on {flavor}"));
                named.spawn_scoped(scope, run).expect("a thread")
            })
            .collect();
        // Waits for all. A panic has already printed its message and its thread.
        let ended: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        ended.into_iter().try_for_each(|end| end.map_err(|_| Failed::without_message()))
    })
}

/// Provides the runtime of Leasehold's locks.
pub(crate) fn with_runtime<T>(work: impl FnOnce(&runtime::Handle) -> T) -> T {
    let runtime =
        runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime");
    work(runtime.handle())
}

impl Pair {
    pub(crate) fn on(flavor: Flavor, peer: Peer, runtime: &runtime::Handle) -> Self {
        let server = Server::start(flavor);
        let url = server.url();
        Self::over(vec![server], &url, peer, runtime)
    }

    /// The library on these servers, and Leasehold at this URL.
    pub(crate) fn over(servers: Vec<Server>, url: &str, peer: Peer, runtime: &runtime::Handle) -> Self {
        let urls: Vec<_> = servers.iter().map(Server::url).collect();
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        let mut driver = Driver::start(peer, &urls);
        // After this, the library has its connections and asks at once.
        took(driver.take("before", LONG, Duration::ZERO));
        driver.release();
        let locks = runtime.block_on(Locks::builder().ttl(LONG).connect(url)).unwrap();
        Self { peer, driver, locks, servers, key: peer.key(NAME) }
    }

    pub(crate) fn ours(&self) -> Mutex {
        self.locks.mutex(&self.key)
    }

    /// The library acquires the free lock. Returns the times before and after.
    #[track_caller]
    pub(crate) fn it_takes(&mut self, ttl: Duration) -> (u64, u64) {
        took(self.driver.take(NAME, ttl, Duration::ZERO))
    }

    /// The library tries once, and is refused.
    #[track_caller]
    pub(crate) fn it_is_refused(&mut self) {
        assert_eq!(self.driver.take(NAME, LONG, Duration::ZERO), Answer::Held);
    }

    /// The library waits for the lock in its own way, and still waits after a while.
    #[track_caller]
    pub(crate) fn it_waits(&mut self, patience: Duration) {
        self.driver.begin_to_take(NAME, LONG, patience);
        assert_eq!(self.driver.answer_within(A_WHILE), None);
    }

    /// The library releases the lock that it holds. Returns the time just before.
    #[track_caller]
    pub(crate) fn it_releases(&mut self) -> u64 {
        match self.driver.release() {
            Answer::Released { called } if self.peer.tells_a_late_release() => called,
            Answer::Untold { called } if !self.peer.tells_a_late_release() => called,
            other => panic!("{other:?}"),
        }
    }

    /// The library releases a lock that it no longer holds, and reports that if it ever does.
    #[track_caller]
    pub(crate) fn it_releases_too_late(&mut self) {
        match self.driver.release() {
            Answer::NotHeld if self.peer.tells_a_late_release() => {}
            Answer::Untold { .. } if !self.peer.tells_a_late_release() => {}
            other => panic!("{other:?}"),
        }
    }

    /// Leasehold waits for the lock; the task returns the guard and when it got it.
    #[track_caller]
    pub(crate) fn we_wait(&self, runtime: &runtime::Handle) -> JoinHandle<(Guard, u64)> {
        let lock = self.ours().lock().within(LONG);
        let waiting = runtime.spawn(async {
            let guard = lock.await.unwrap();
            (guard, now())
        });
        thread::sleep(A_WHILE);
        assert!(!waiting.is_finished(), "granted next to another holder");
        waiting
    }

    /// The holder that Leasehold reports.
    #[track_caller]
    pub(crate) fn we_are_refused(&self, runtime: &runtime::Handle) -> leasehold::HolderInfo {
        match runtime.block_on(async { self.ours().lock().within(Duration::ZERO).await }) {
            Err(LockError::TimedOut { held_by: Some(held_by), .. }) => *held_by,
            other => panic!("{other:?}"),
        }
    }

    /// The value that most servers have at the key, read directly. It must have an expiry.
    #[track_caller]
    pub(crate) fn value(&self) -> Vec<u8> {
        let values: Vec<_> =
            self.servers.iter().map(|server| (server, server.text(&["GET", &self.key]))).collect();
        let has_majority =
            |value: &Reply| 2 * values.iter().filter(|(_, other)| other == value).count() > values.len();
        let Some((server, Reply::Bulk(Some(value)))) = values.iter().find(|(_, value)| has_majority(value))
        else {
            panic!("no value at {}", self.key)
        };
        let left = server.text(&["PTTL", &self.key]).as_integer().unwrap_or_default();
        assert!(left > 0 && left <= 20_000, "{left}");
        value.clone()
    }

    pub(crate) fn server(&self) -> &Server {
        &self.servers[0]
    }

    /// Deletes the lock, as an operator or a server that lost its state would.
    #[track_caller]
    pub(crate) fn steal(&self) {
        assert_eq!(self.server().text(&["DEL", &self.key]), Reply::Integer(1));
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.peer, self.server().flavor())
    }
}

#[track_caller]
pub(crate) fn took(answer: Answer) -> (u64, u64) {
    match answer {
        Answer::Took { asked, answered } => (asked, answered),
        other => panic!("{other:?}"),
    }
}

/// A duration in the unit of [`now`].
pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("a short time")
}
