//! The plan of a worker.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use leasehold::{AnyStore, ConnectError, Locks, LocksBuilder};

/// The actions of each task of a worker, round after round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The store, or several separated by spaces, which are a quorum.
    pub url: String,
    pub history: PathBuf,
    /// The number of tasks that wait concurrently.
    pub tasks: u32,
    pub ttl: Duration,
    /// The usual duration of a hold.
    pub hold: Duration,
    pub long_hold: Duration,
    pub long_percent: u32,
    /// The longest pause before the next request; each pause is random between zero and this.
    pub think: Duration,
    /// How long a request waits for stores that do not answer.
    pub outage_limit: Duration,
    /// The percentage of requests dropped at some await, and of guards dropped, not released.
    pub dropped_percent: u32,
    /// What each task wants, as [`Wish`](crate::wish::Wish); none: all want [`Plan::KEY`].
    pub wishes: Vec<String>,
}

impl Plan {
    /// The key that all workers want.
    pub const KEY: &str = "the lock";

    /// The longest TTL of a quorum: short, so that a member that forgot something soon counts again.
    pub const MAX_TTL: Duration = Duration::from_secs(5);

    /// Ten tasks that hold for a millisecond and ask again at once; leases of two seconds.
    pub fn new(url: &str, history: &Path) -> Self {
        Self {
            url: url.to_owned(),
            history: history.to_owned(),
            tasks: 10,
            ttl: Duration::from_secs(2),
            hold: Duration::from_millis(1),
            long_hold: Duration::ZERO,
            long_percent: 0,
            think: Duration::ZERO,
            outage_limit: Duration::from_secs(10),
            dropped_percent: 0,
            wishes: Vec::new(),
        }
    }

    /// The same with a task for each of these wishes.
    pub fn wanting(self, wishes: &[&str]) -> Self {
        let tasks = u32::try_from(wishes.len()).expect("few tasks");
        Self { tasks, wishes: wishes.iter().map(|&wish| wish.to_owned()).collect(), ..self }
    }

    pub(crate) async fn connect(&self, builder: LocksBuilder) -> Result<Locks, ConnectError> {
        let urls: Vec<&str> = self.url.split_whitespace().collect();
        if let [url] = *urls {
            return builder.connect(url).await;
        }
        let stores: Result<Vec<_>, _> = urls.into_iter().map(AnyStore::from_url).collect();
        builder.quorum(stores?, Self::MAX_TTL)
    }

    /// The plan as the arguments of a worker.
    pub(crate) fn words(&self) -> Vec<String> {
        let millis = |time: Duration| time.as_millis().to_string();
        let mut words = vec![
            self.url.clone(),
            self.history.to_str().expect("a path of a test is text").to_owned(),
            self.tasks.to_string(),
            millis(self.ttl),
            millis(self.hold),
            millis(self.long_hold),
            self.long_percent.to_string(),
            millis(self.think),
            millis(self.outage_limit),
            self.dropped_percent.to_string(),
        ];
        words.extend(self.wishes.iter().cloned());
        words
    }

    /// Parses the output of [`Plan::words`].
    pub(crate) fn parse(words: &[String]) -> Option<Self> {
        let ([url, history, tasks, ttl, hold, long_hold, long_percent, think, outage_limit, dropped], wishes) =
            words.split_first_chunk()?;
        let millis = |word: &String| word.parse().map(Duration::from_millis).ok();
        Some(Self {
            url: url.clone(),
            history: history.into(),
            tasks: tasks.parse().ok()?,
            ttl: millis(ttl)?,
            hold: millis(hold)?,
            long_hold: millis(long_hold)?,
            long_percent: long_percent.parse().ok()?,
            think: millis(think)?,
            outage_limit: millis(outage_limit)?,
            dropped_percent: dropped.parse().ok()?,
            wishes: wishes.to_vec(),
        })
    }
}
