//! A server with tables, processes that use its locks, and a crowd that competes for one of them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::postgres::{PostgresStore, init};
use leasehold::{Acquire, Fence, Guard, Locks, TokioRuntime};
use leasehold_core::{Attempt, Claim, Holder, Key, Ttl};
use rustix::process::{Pid, Signal, kill_process};
use servers::Postgres;
use tokio::task::{JoinHandle, block_in_place};
use tokio::time::Instant;
use tokio_postgres::{Client, NoTls};

/// The delay that a busy machine may add to any wait.
pub(crate) const BUSY: Duration = Duration::from_secs(20);

pub(crate) async fn server(settings: &[&str]) -> Postgres {
    let server = block_in_place(|| Postgres::with(settings));
    init(&server.url()).await.unwrap();
    server
}

pub(crate) async fn served() -> (Postgres, Client) {
    let server = server(&[]).await;
    let db = db(&server).await;
    (server, db)
}

pub(crate) async fn db(server: &Postgres) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.config(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Creates a role with its own settings that may use the locks; returns its store URL.
pub(crate) async fn role(db: &Client, server: &Postgres, settings: &[&str]) -> String {
    db.batch_execute("CREATE ROLE web LOGIN; GRANT USAGE ON SCHEMA leasehold TO web").await.unwrap();
    let tables = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA leasehold TO web";
    db.batch_execute(tables).await.unwrap();
    for setting in settings {
        db.batch_execute(&format!("ALTER ROLE web SET {setting}")).await.unwrap();
    }
    server.url().replace("postgres@", "web@")
}

/// Ends the sessions of the stores that fulfil a condition.
pub(crate) async fn terminate(db: &Client, condition: &str) {
    for session in sessions(db, condition).await {
        db.execute("SELECT pg_terminate_backend($1)", &[&session]).await.unwrap();
    }
}

pub(crate) async fn two(url: &str, ttl: Duration) -> [Locks; 2] {
    [process(url, ttl).await, process(url, ttl).await]
}

/// Another process, with leases that end while a test waits.
pub(crate) async fn process(url: &str, ttl: Duration) -> Locks {
    Locks::builder().ttl(ttl).connect(url).await.unwrap()
}

pub(crate) fn store(url: &str) -> PostgresStore {
    PostgresStore::from_url(url, Arc::new(TokioRuntime::current().unwrap())).unwrap()
}

/// An attempt on the key `k`.
pub(crate) fn attempt(who: u128, ttl: Duration) -> Attempt {
    let claim = Claim::exclusive(Key::new("k").unwrap());
    Attempt::new(claim, Holder::from_bits(who), None, Ttl::new(ttl).unwrap())
}

pub(crate) fn request(locks: &Locks, name: &str) -> Acquire {
    locks.mutex(name).lock().within(BUSY)
}

pub(crate) async fn take(locks: &Locks, name: &str) -> Guard {
    request(locks, name).await.unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !condition().await {
        assert!(began.elapsed() < BUSY, "not within {BUSY:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Waits until a query has a row.
pub(crate) async fn until_found(what: &str, db: &Client, query: &str) {
    until(what, async || !db.query(query, &[]).await.unwrap().is_empty()).await;
}

/// Waits until there is a waiter that is told of its turn.
pub(crate) async fn until_told(db: &Client) {
    until_found("a process that listens waits", db, "SELECT FROM leasehold.waiter WHERE channel > 0").await;
}

/// The sessions of the stores that fulfil a condition.
pub(crate) async fn sessions(db: &Client, condition: &str) -> Vec<i32> {
    let sql =
        format!("SELECT pid FROM pg_stat_activity WHERE application_name = 'leasehold' AND {condition}");
    db.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
}

pub(crate) async fn until_session(db: &Client, condition: &str) {
    until(condition, async || !sessions(db, condition).await.is_empty()).await;
}

pub(crate) fn signal(sessions: &[i32], signal: Signal) {
    for session in sessions.iter().filter_map(|pid| Pid::from_raw(*pid)) {
        // It may have ended.
        let _ = kill_process(session, signal);
    }
}

/// Tasks of several processes that acquire one lock repeatedly, and check that no other believes in it.
pub(crate) struct Crowd {
    scene: Arc<Scene>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Scene {
    /// The guards that consider themselves valid, and the greatest fence so far.
    held: Mutex<(Vec<Arc<Guard>>, Option<Fence>)>,
    grants: AtomicU64,
    ends: AtomicBool,
}

impl Crowd {
    pub(crate) fn start(processes: &[Locks], name: &'static str) -> Self {
        let scene = Arc::new(Scene::default());
        let mut tasks = Vec::new();
        for locks in processes {
            for _ in 0..3 {
                let (locks, scene) = (locks.clone(), Arc::clone(&scene));
                tasks.push(tokio::spawn(async move {
                    while !scene.ends.load(Ordering::Relaxed) {
                        // An error means that the server is away.
                        if let Ok(guard) = locks.mutex(name).lock().within(BUSY).await {
                            scene.enter(guard).await;
                        }
                    }
                }));
            }
        }
        Self { scene, tasks }
    }

    /// Waits for this many more grants.
    pub(crate) async fn goes_on(&self, for_grants: u64) {
        let wanted = self.grants() + for_grants;
        until("more grants", async || {
            assert!(self.tasks.iter().all(|task| !task.is_finished()), "one of the crowd has panicked");
            self.grants() >= wanted
        })
        .await;
    }

    pub(crate) fn grants(&self) -> u64 {
        self.scene.grants.load(Ordering::Relaxed)
    }

    pub(crate) async fn end(self) {
        self.scene.ends.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

impl Scene {
    async fn enter(&self, guard: Guard) {
        let guard = Arc::new(guard);
        {
            let mut held = self.held.lock().unwrap();
            let (others, last) = &mut *held;
            for other in others.iter().filter(|other| other.is_held()) {
                assert!(!guard.is_held(), "{other:?} and {guard:?} hold it both");
            }
            assert!(last.is_none_or(|last| guard.fence() > last), "{} after {last:?}", guard.fence());
            *last = Some(guard.fence());
            others.push(Arc::clone(&guard));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.held.lock().unwrap().0.retain(|other| !Arc::ptr_eq(other, &guard));
        if let Some(guard) = Arc::into_inner(guard) {
            // A lost lease is not a failure of this test.
            let _ = guard.release().await;
        }
        self.grants.fetch_add(1, Ordering::Relaxed);
    }
}
