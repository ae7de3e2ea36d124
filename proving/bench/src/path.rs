//! A hot path: a process that runs only one kind of cycle, a given number of times, and is counted
//! from outside.

use std::fmt;
use std::ops::Range;
use std::time::Duration;
use std::{env, process};

use leasehold::{AnyStore, Locks, Mutex};

use crate::bare::{Bare, Strategy};
use crate::crew::Trouble;
use crate::transactions::Transactions;

/// The first argument of a process that walks a path.
pub const WALKS: &str = "--walks-a-path";

/// How much was allocated so far: how often, and how many bytes.
pub type Allocated = fn() -> [usize; 2];

/// What is done in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "both sides are in this crate")]
pub enum Path {
    /// Takes and releases, through the library.
    Cycle,
    /// The same in a bare loop.
    Bare(Strategy),
    /// Renews a guard that is held.
    Renewal,
    /// One script, in a bare loop.
    BareRenewal,
    /// Takes and releases in a majority of all places.
    Quorum,
    /// Takes and releases at all places, in a bare loop.
    RawQuorum,
    /// Two transactions on the file store's database library.
    Transactions,
}

/// All of them, with the names that are told to a process.
const ALL: [(&str, Path); 10] = [
    ("cycle", Path::Cycle),
    ("pair", Path::Bare(Strategy::Pair)),
    ("fenced-pair", Path::Bare(Strategy::FencedPair)),
    ("fenced-native", Path::Bare(Strategy::FencedNative)),
    ("scripts", Path::Bare(Strategy::Scripts)),
    ("renewal", Path::Renewal),
    ("bare-renewal", Path::BareRenewal),
    ("quorum", Path::Quorum),
    ("raw-quorum", Path::RawQuorum),
    ("transactions", Path::Transactions),
];

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ALL.iter().find_map(|(name, path)| (path == self).then_some(*name));
        f.write_str(name.unwrap_or_default())
    }
}

/// So many cycles of a path, by so many tasks at once, at these places.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "workloads spell it out")]
pub struct Walk {
    /// The path.
    pub path: Path,
    /// Cycles of each task.
    pub cycles: u32,
    /// Tasks, on one thread and one connection.
    pub tasks: u32,
    /// URLs; of a path in a majority several. Of bare transactions, a directory.
    pub places: Vec<String>,
}

impl Walk {
    /// The arguments of a process that walks it.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut words = vec![WALKS.to_owned(), self.path.to_string()];
        words.extend([self.cycles.to_string(), self.tasks.to_string()]);
        words.extend(self.places.iter().cloned());
        words
    }

    /// Whether another process that walks there is in its way, whatever the key.
    #[must_use]
    pub fn shares_a_file(&self) -> bool {
        self.path == Path::Transactions || self.places.iter().any(|place| place.starts_with("file:"))
    }

    fn of(words: &[String]) -> Result<Self, Trouble> {
        let [path, cycles, tasks, places @ ..] = words else { return Err("a walk has three words".into()) };
        let path = ALL.iter().find(|(name, _)| name == path).ok_or_else(|| format!("no path {path}"))?.1;
        Ok(Self { path, cycles: cycles.parse()?, tasks: tasks.parse()?, places: places.to_vec() })
    }
}

/// Walks, if this process was started to: then it does not return. Where allocations are counted it says how many one cycle takes,
/// and their bytes.
pub fn walk_if_told_to(allocated: Option<Allocated>) {
    let words: Vec<String> = env::args().skip(1).collect();
    let Some((WALKS, rest)) = words.split_first().map(|(first, rest)| (first.as_str(), rest)) else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let walked = runtime.block_on(async { walk(Walk::of(rest)?, allocated).await });
    match walked {
        Ok(Some([times, bytes])) => println!("{times} {bytes}"),
        Ok(None) => {}
        Err(why) => {
            eprintln!("bench: {why}");
            process::exit(1);
        }
    }
    process::exit(0);
}

/// Long enough that nothing is renewed meanwhile, however slow the walk.
const TTL: Duration = Duration::from_secs(3_600);

/// What is done once and kept, as pools and caches, is done by then.
const WARM_UP: u32 = 8;

async fn walk(walk: Walk, allocated: Option<Allocated>) -> Result<Option<[f64; 2]>, Trouble> {
    let Walk { path, cycles, tasks, places } = walk;
    if path == Path::Transactions {
        let mut ledger = Transactions::open(places[0].as_ref())?;
        ledger.pairs(cycles)?;
        return Ok(None);
    }
    let ground = Ground::of(path, &places).await?;
    // So that a shorter and a longer walk do not meet.
    let name = format!("walk of {cycles}");
    ground.at_once(path, tasks, &name, 0..WARM_UP).await?;
    let before = allocated.map(|allocated| allocated());
    ground.at_once(path, tasks, &name, WARM_UP..WARM_UP + cycles).await?;
    let per_cycle = |after: usize, before: usize| (after - before) as f64 / f64::from(cycles * tasks);
    Ok(allocated.zip(before).map(|(allocated, [times, bytes])| {
        let after = allocated();
        [per_cycle(after[0], times), per_cycle(after[1], bytes)]
    }))
}

/// What a path is walked on.
#[derive(Clone)]
enum Ground {
    Locks(Locks),
    Bare(Vec<Bare>),
}

impl Ground {
    async fn of(path: Path, places: &[String]) -> Result<Self, Trouble> {
        Ok(match path {
            Path::Cycle | Path::Renewal => Self::Locks(Locks::connect(&places[0]).await?),
            Path::Quorum => {
                let members: Result<Vec<_>, _> = places
                    .iter()
                    .map(|place| AnyStore::from_url(&format!("{place}?quarantine=no")))
                    .collect();
                Self::Locks(Locks::builder().quorum(members?, TTL)?)
            }
            Path::Bare(_) | Path::BareRenewal | Path::RawQuorum | Path::Transactions => {
                let mut members = Vec::new();
                for place in places {
                    members.push(Bare::at(place).await?);
                }
                Self::Bare(members)
            }
        })
    }

    /// Each task on a key of its own.
    async fn at_once(&self, path: Path, tasks: u32, name: &str, serials: Range<u32>) -> Result<(), Trouble> {
        let walking: Vec<_> = (0..tasks)
            .map(|task| tokio::spawn(self.clone().alone(path, format!("{name}:{task}"), serials.clone())))
            .collect();
        for task in walking {
            task.await??;
        }
        Ok(())
    }

    async fn alone(self, path: Path, key: String, serials: Range<u32>) -> Result<(), Trouble> {
        match (self, path) {
            (Self::Locks(locks), Path::Renewal) => renewals(&locks.mutex(key).ttl(TTL), serials.len()).await,
            (Self::Locks(locks), _) => {
                for _ in serials {
                    // Made anew each time, as a request handler makes it.
                    locks.mutex(&*key).ttl(TTL).lock().await?.release().await?;
                }
                Ok(())
            }
            (Self::Bare(members), Path::BareRenewal) => {
                let key = [key];
                for _ in serials {
                    members[0].renew(&key).await?;
                }
                Ok(())
            }
            (Self::Bare(members), Path::Bare(strategy)) => {
                for serial in serials {
                    members[0].cycle(strategy, &key, serial.into()).await?;
                }
                Ok(())
            }
            (Self::Bare(members), _) => {
                for serial in serials {
                    Bare::cycle_at_all(&members, false, &key, serial.into()).await?;
                }
                Ok(())
            }
        }
    }
}

async fn renewals(mutex: &Mutex, count: usize) -> Result<(), Trouble> {
    let guard = mutex.lock().await?;
    for _ in 0..count {
        guard.renew(TTL).await?;
    }
    Ok(guard.release().await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_is_told_is_what_was_meant() {
        for (_, path) in ALL {
            let walk = Walk { path, cycles: 7, tasks: 3, places: vec!["memory:".into(), "b".into()] };
            let told = Walk::of(&walk.words()[1..]).unwrap();
            assert_eq!((told.path, told.cycles, told.tasks, told.places), (path, 7, 3, walk.places));
        }
    }
}
