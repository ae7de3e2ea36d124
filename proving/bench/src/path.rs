//! A hot path: a process that runs one kind of cycle a given number of times, counted from outside.

use std::ops::Range;
use std::time::Duration;
use std::{env, process};

use leasehold::Locks;
use serde::{Deserialize, Serialize};

use crate::AnyError;
use crate::backend::quorum_url;
use crate::bare::{self, Bare};
use crate::transactions::Transactions;

/// The first argument of a process that walks a path.
pub const WALKS: &str = "--walks-a-path";

/// The number of allocations so far.
pub type Allocated = fn() -> usize;

/// The work of one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Path {
    /// Acquires and releases a lock through the library.
    Cycle,
    /// Acquires a lock, each time another one, and keeps it.
    Lock,
    /// The same in a bare loop.
    Bare,
    Renewal,
    /// Runs one renewal script, in a bare loop.
    BareRenewal,
    /// Acquires and releases a lock in a quorum of all places.
    Quorum,
    /// Acquires and releases a key at all places, in a bare loop.
    RawQuorum,
    /// Runs two transactions on the file store's database library.
    Transactions,
}

/// `cycles` cycles of a path by each of `tasks` concurrent tasks, at these places.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Walk {
    pub path: Path,
    pub cycles: u32,
    /// The number of tasks, on one thread and one connection.
    pub tasks: u32,
    /// URLs, several for a quorum; for bare transactions, a directory.
    pub places: Vec<String>,
}

impl Walk {
    /// The arguments that tell a process to walk it.
    pub fn words(&self) -> [String; 2] {
        [WALKS.to_owned(), serde_json::to_string(self).expect("a walk is plain data")]
    }

    /// True if another process at the same place would disturb this one, whatever the key.
    pub fn shares_a_file(&self) -> bool {
        self.path == Path::Transactions || self.places.iter().any(|place| place.starts_with("file:"))
    }
}

/// Walks and exits if this process was started for that. Prints a cycle's allocations if counted.
pub fn walk_if_told_to(allocated: Option<Allocated>) {
    let words: Result<[String; 2], _> = env::args().skip(1).collect::<Vec<_>>().try_into();
    let Ok(words) = words else { return };
    let [WALKS, told] = words.each_ref().map(String::as_str) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let walked = runtime.block_on(async { walk(serde_json::from_str(told)?, allocated).await });
    match walked {
        Ok(Some(allocations)) => println!("{allocations}"),
        Ok(None) => {}
        Err(why) => {
            eprintln!("bench: {why}");
            process::exit(1);
        }
    }
    process::exit(0);
}

/// So long that nothing is renewed during a walk, however slow it is.
const TTL: Duration = Duration::from_secs(3_600);

/// After this many cycles, everything that is made once and kept (pools, caches) exists.
const WARM_UP: u32 = 8;

async fn walk(walk: Walk, allocated: Option<Allocated>) -> Result<Option<f64>, AnyError> {
    let Walk { path, cycles, tasks, places } = walk;
    if path == Path::Transactions {
        let mut ledger = Transactions::open(places[0].as_ref())?;
        ledger.pairs(cycles)?;
        return Ok(None);
    }
    let ground = Ground::of(path, &places).await?;
    // A shorter and a longer walk use different keys.
    let name = format!("walk of {cycles}");
    ground.at_once(path, tasks, &name, 0..WARM_UP).await?;
    let before = allocated.map(|allocated| allocated());
    ground.at_once(path, tasks, &name, WARM_UP..WARM_UP + cycles).await?;
    Ok(allocated
        .zip(before)
        .map(|(allocated, before)| (allocated() - before) as f64 / f64::from(cycles * tasks)))
}

#[derive(Clone)]
enum Ground {
    Locks(Locks),
    Bare(Vec<Bare>),
}

impl Ground {
    async fn of(path: Path, places: &[String]) -> Result<Self, AnyError> {
        Ok(match path {
            Path::Cycle | Path::Lock | Path::Renewal => Self::Locks(Locks::connect(&places[0]).await?),
            Path::Quorum => {
                let url = quorum_url(places.iter().map(String::as_str), TTL);
                Self::Locks(Locks::connect(&url).await?)
            }
            Path::Bare | Path::BareRenewal | Path::RawQuorum | Path::Transactions => {
                let mut members = Vec::new();
                for place in places {
                    members.push(Bare::connect(place).await?);
                }
                Self::Bare(members)
            }
        })
    }

    /// Runs the tasks concurrently, each on its own key.
    async fn at_once(&self, path: Path, tasks: u32, name: &str, serials: Range<u32>) -> Result<(), AnyError> {
        let walking: Vec<_> = (0..tasks)
            .map(|task| tokio::spawn(self.clone().alone(path, format!("{name}:{task}"), serials.clone())))
            .collect();
        for task in walking {
            task.await??;
        }
        Ok(())
    }

    async fn alone(self, path: Path, key: String, serials: Range<u32>) -> Result<(), AnyError> {
        match &self {
            Self::Locks(locks) if path == Path::Renewal => {
                let guard = locks.mutex(key).ttl(TTL).lock().await?;
                for _ in serials {
                    guard.renew(TTL).await?;
                }
                guard.release().await?;
            }
            Self::Locks(locks) if path == Path::Lock => {
                let mut guards = Vec::new();
                for serial in serials {
                    guards.push(locks.mutex(format!("{key}:{serial}")).ttl(TTL).lock().await?);
                }
                // Nothing is released, also at the end.
                guards.leak();
            }
            Self::Locks(locks) => {
                for _ in serials {
                    // A new mutex each time, as a request handler would make it.
                    locks.mutex(&*key).ttl(TTL).lock().await?.release().await?;
                }
            }
            Self::Bare(members) => {
                for serial in serials {
                    match path {
                        Path::BareRenewal => bare::renew(&members[0], &key).await?,
                        Path::Bare => members[0].cycle(&key, serial.into()).await?,
                        _ => bare::cycle_at_all(members, &key, serial.into()).await?,
                    }
                }
            }
        }
        Ok(())
    }
}
