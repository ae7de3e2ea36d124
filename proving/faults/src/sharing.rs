//! Processes that share locks, one or several at a time, each task in its own mode.

mod judge;

use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::{self, ExitCode},
    sync::Arc,
    time::Duration,
};

pub use judge::{Hold, Judge};
use leasehold::{Guard, Locks};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::JoinSet,
    time::sleep,
};

use crate::{
    history::now,
    wish::{Wanted, Wish},
};

/// The time between two checks of a lease.
const LOOK: Duration = Duration::from_millis(20);

/// The time limit for the last releases.
const CLOSES_WITHIN: Duration = Duration::from_secs(3);

/// The plan of a process: a task for each wish, round after round.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "a plan has no more to it")]
pub struct Plan {
    /// The store.
    pub url: String,
    /// The file of the history.
    pub history: PathBuf,
    /// The TTL.
    pub ttl: Duration,
    /// The duration of a hold.
    pub hold: Duration,
    /// The wishes, as [`Wish`] parses them.
    pub wishes: Vec<String>,
}

impl Plan {
    /// The plan as the arguments of a process.
    ///
    /// # Panics
    ///
    /// If the path of the history is not UTF-8.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let path = self.history.to_str().expect("a path of a test is text");
        let mut words = vec![self.url.clone(), path.to_owned()];
        words.extend([self.ttl, self.hold].map(|time| time.as_millis().to_string()));
        words.extend(self.wishes.iter().cloned());
        words
    }

    fn parse(words: &[String]) -> Option<Self> {
        let [url, history, ttl, hold, wishes @ ..] = words else { return None };
        let [ttl, hold] = [ttl, hold].map(|word| word.parse().map(Duration::from_millis).ok());
        let wishes = wishes.to_vec();
        Some(Self { url: url.clone(), history: history.into(), ttl: ttl?, hold: hold?, wishes })
    }
}

/// The main function of a process, which runs until SIGTERM, with its plan as arguments.
#[must_use]
pub fn run(words: &[String]) -> ExitCode {
    let Some(plan) = Plan::parse(words) else {
        eprintln!("a sharer is started with a plan");
        return ExitCode::FAILURE;
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut told_to_end = signal(SignalKind::terminate()).expect("signals can be heard");
        let connecting = Locks::builder().ttl(plan.ttl).connect(&plan.url);
        let ended = match connecting.await {
            Ok(locks) => {
                work(&plan, &locks, async {
                    let _ = told_to_end.recv().await;
                })
                .await
            }
            Err(error) => Err(error.to_string()),
        };
        match ended {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("sharer {}: {error}", process::id());
                ExitCode::FAILURE
            }
        }
    })
}

/// Follows the plan until `end`, and then releases everything.
///
/// # Errors
///
/// The first failure.
pub async fn work(plan: &Plan, locks: &Locks, end: impl Future<Output = ()>) -> Result<(), String> {
    let writer = Arc::new(HistoryWriter::at(&plan.history));
    let mut tasks = JoinSet::new();
    for (number, wish) in plan.wishes.iter().enumerate() {
        let wish: Wish = wish.parse()?;
        let (locks, writer, hold) = (locks.clone(), writer.clone(), plan.hold);
        tasks.spawn(async move {
            loop {
                writer.write(number, &wish, "asks", 0, 0);
                let guard = wish.request(&locks).await.map_err(|error| error.to_string())?;
                let tell = |what: &str, fence, until| writer.write(number, &wish, what, fence, until);
                hold_on(guard, hold, tell).await;
            }
        });
    }
    let failed: Option<Result<(), String>> = tokio::select! {
        () = end => None,
        ended = tasks.join_next() => ended.and_then(Result::ok),
    };
    // A task that is stopped halfway releases its guard without recording it.
    for (number, wish) in plan.wishes.iter().enumerate() {
        writer.write(number, &wish.parse()?, "ends", 0, 0);
    }
    tasks.shutdown().await;
    if let Some(failed) = failed {
        return failed;
    }
    locks.close(CLOSES_WITHIN).await.map_err(|error| error.to_string())
}

async fn hold_on(guard: Guard, hold: Duration, tell: impl Fn(&str, u64, u64)) {
    let believed = || now() + u64::try_from(guard.remaining().as_nanos()).unwrap_or(0);
    let fence = guard.fence().get();
    tell("in", fence, believed());
    let mut left = hold;
    while !left.is_zero() && guard.is_held() {
        let nap = left.min(LOOK);
        sleep(nap).await;
        left -= nap;
        if hold > LOOK {
            tell("on", fence, believed());
        }
    }
    tell("out", fence, 0);
    // A guard that was lost has nothing to release.
    let _ = guard.release().await;
}

/// One write per line, so that lines of several processes do not mix, and a process that dies has
/// recorded everything that it believed.
#[derive(Debug)]
struct HistoryWriter(File);

impl HistoryWriter {
    fn at(path: &Path) -> Self {
        let file = OpenOptions::new().append(true).create(true).open(path);
        Self(file.expect("the history can be written"))
    }

    fn write(&self, task: usize, wish: &Wish, what: &str, fence: u64, until: u64) {
        let mode = match wish.mode {
            Wanted::Alone => "alone".to_owned(),
            Wanted::Read => "read".to_owned(),
            Wanted::Permits(weight, of) => format!("{weight}/{of}"),
        };
        let (at, process, keys) = (now(), process::id(), wish.keys.join(","));
        let line = format!("{at} {process} {task} {what} {mode} {keys} {fence} {until}\n");
        (&self.0).write_all(line.as_bytes()).expect("the history can be written");
    }
}
