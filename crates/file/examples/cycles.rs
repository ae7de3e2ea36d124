//! Measures how many locks per second are acquired and released: `cargo run --release -p
//! leasehold-file --example cycles`.
//!
//! One key again and again, in a temporary directory; in one thread without async, and through the
//! store as an async program uses it, by one task and by many; compared with transactions of SQLite
//! alone.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold_core::{
    Answer, Attempt, BoxFuture, Claim, GrantAnswer, Holder, Instant, Key, Request, Runtime, Store, Ttl,
    WaitMode,
};
use leasehold_file::{FileStore, Ledger};
use rustix::time::{ClockId, clock_gettime};

const ROUND: Duration = Duration::from_secs(2);

fn main() {
    for held in [false, true] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let file = directory.path().join("leases.db");
        println!("{}", if held { "each key another one" } else { "one key" });
        println!(
            "  bare SQLite            {:>7} /s",
            by_bare_transactions(&directory.path().join("bare.db"))
        );
        println!("  ledger, one thread     {:>7} /s", through_the_ledger(&file, held));
        for tasks in [1, 16, 64] {
            println!("  store, {tasks:>2} task(s)      {:>7} /s", through_the_store(&file, tasks, held));
        }
    }
}

fn attempt(who: u64, task: u64, fresh: bool) -> Attempt {
    let name = if fresh { format!("job:{task}:{who}") } else { format!("job:{task}") };
    let claim = Claim::exclusive(Key::new(name).expect("a key"));
    Attempt::new(claim, Holder::from_bits((u128::from(task) << 64) + u128::from(who)), None, Ttl::DEFAULT)
}

/// A row that is written and one that is removed, in a transaction each, which is the least that a
/// lock can be.
fn by_bare_transactions(file: &Path) -> u64 {
    let connection = rusqlite::Connection::open(file).expect("a file");
    connection
        .execute_batch(
            "PRAGMA page_size = 1024; PRAGMA journal_mode = wal; PRAGMA synchronous = normal;
             CREATE TABLE t (key BLOB PRIMARY KEY, holder INTEGER) WITHOUT ROWID",
        )
        .expect("a table");
    let run =
        |sql: &str| connection.prepare_cached(sql).and_then(|mut sql| sql.execute([])).expect("it runs");
    per_second(|_| {
        for sql in ["INSERT INTO t VALUES ('a', 1)", "DELETE FROM t WHERE key = 'a' AND holder = 1"] {
            run("BEGIN IMMEDIATE");
            run(sql);
            run("COMMIT");
        }
    })
}

fn through_the_ledger(file: &Path, fresh: bool) -> u64 {
    let mut ledger = Ledger::at(file, Arc::new(OfTheMachine));
    per_second(|who| {
        let attempt = attempt(who, 99, fresh);
        let served = ledger
            .serve(Request::Grant { attempt: attempt.clone(), wait: None, not_after: None })
            .expect("a grant");
        assert!(matches!(served.answer, Answer::Grant(GrantAnswer::Granted { .. })));
        ledger.serve(Request::Release(attempt)).expect("a release");
    })
}

fn through_the_store(file: &Path, tasks: u64, fresh: bool) -> u64 {
    let store = Arc::new(FileStore::at(file, Arc::new(OfTheMachine)));
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let tasks: Vec<_> = (0..tasks)
            .map(|task| {
                let store = Arc::clone(&store);
                tokio::spawn(async move {
                    let (begun, mut cycles) = (std::time::Instant::now(), 0);
                    while begun.elapsed() < ROUND {
                        let attempt = attempt(cycles, task, fresh);
                        store.grant(&attempt, WaitMode::Wait { queue_limit: None }).await.expect("a grant");
                        store.release(&attempt).await.expect("a release");
                        cycles += 1;
                    }
                    cycles
                })
            })
            .collect();
        let mut cycles = 0;
        for task in tasks {
            cycles += task.await.expect("a task");
        }
        cycles / ROUND.as_secs()
    })
}

fn per_second(mut cycle: impl FnMut(u64)) -> u64 {
    let (begun, mut cycles) = (std::time::Instant::now(), 0);
    while begun.elapsed() < ROUND {
        cycle(cycles);
        cycles += 1;
    }
    cycles / ROUND.as_secs()
}

/// The clocks of this machine.
#[derive(Debug)]
struct OfTheMachine;

impl Runtime for OfTheMachine {
    fn now(&self) -> Instant {
        let time = clock_gettime(ClockId::Boottime);
        Instant::from_nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
    }

    fn since_epoch(&self) -> Duration {
        SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }

    fn spawn(&self, _: BoxFuture<'static, ()>) {}

    fn random(&self) -> u128 {
        RandomState::new().build_hasher().finish().into()
    }
}
