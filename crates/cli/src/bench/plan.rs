//! The validated settings of a benchmark: the store, the time and the names.

use std::time::Duration;

use leasehold::{Key, Locks, LocksBuilder, Runtime as _, TokioRuntime, Ttl};

use super::BenchArgs;
use crate::exit::Failure;
use crate::options::{digits, time_of};
use crate::store_location::StoreLocation;

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) place: StoreLocation,
    pub(crate) time: Duration,
    pub(crate) tasks: usize,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    names: String,
}

/// Enough rounds for a median, each long enough for some hundred pairs on a near server.
const TIME: Duration = Duration::from_secs(5);
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(600);

/// The number of concurrent requests of a small service.
const TASKS: usize = 16;
/// With more tasks, the result would measure the single thread that measures.
const MOST_TASKS: usize = 1000;

/// Leftovers of a killed benchmark expire soon, and every measured step is far shorter.
const TTL: Duration = Duration::from_secs(10);

/// A store that is silent for longer cannot be measured.
pub(super) const OUTAGE_LIMIT: Duration = Duration::from_secs(3);

const PREFIX: &str = "leasehold-bench:";

impl Plan {
    pub(crate) fn of(args: BenchArgs) -> Result<Self, Failure> {
        let BenchArgs { seconds, tasks, prefix, json, mut store, quiet, urls } = args;
        if !urls.is_empty() && !store.store.is_empty() {
            return Err(Failure::usage(
                "stores are named with --store and without it: name all of them in one way",
            ));
        }
        let argument = if urls.is_empty() { "--store" } else { "URL" };
        store.store.extend(urls);
        let time = time_of("--seconds", seconds)?.unwrap_or(TIME);
        if !(LEAST..=MOST).contains(&time) {
            return Err(Failure::usage(format!(
                "--seconds: {time:?} is not a valid time to measure: name one from {LEAST:?} to {MOST:?}"
            )));
        }
        let tasks = tasks.map_or(Ok(TASKS), |text| number_of_tasks(&text))?;
        let prefix = prefix.unwrap_or_else(|| PREFIX.into());
        let random = TokioRuntime::current().map_or(0, |runtime| runtime.random());
        let names = format!("{prefix}{:08x}:", random as u32);
        // Each name is this plus a few digits.
        Key::new(format!("{names}hand-off")).map_err(|misuse| Failure::from(misuse).about("--prefix"))?;
        Ok(Self { place: StoreLocation::named_in(argument, store)?, time, tasks, json, quiet, names })
    }

    pub(crate) fn name(&self, what: impl std::fmt::Display) -> String {
        format!("{}{what}", self.names)
    }

    pub(crate) fn builder(&self) -> LocksBuilder {
        let ttl = TTL.min(self.place.store.max_ttl).max(Ttl::MIN.duration());
        Locks::builder().ttl(ttl).outage_limit(OUTAGE_LIMIT)
    }

    pub(crate) fn announcement(&self, store: &str) -> String {
        format!(
            "measuring {store} for {:?} with up to {} tasks, on names that begin with {} (others are slower there meanwhile)",
            self.time, self.tasks, self.names
        )
    }
}

fn number_of_tasks(text: &str) -> Result<usize, Failure> {
    digits(text).filter(|number| (2..=MOST_TASKS).contains(number)).ok_or_else(|| {
        Failure::usage(format!(
            "--tasks: {text:?} is not a number of tasks: write one from 2 to {MOST_TASKS}; one alone is measured anyway"
        ))
    })
}
