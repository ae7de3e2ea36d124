//! A continuous watch of all locks of a store that puts little load on it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, InspectStore, Instant, Key, KeyState, ScanPage, ScanPosition};

use crate::error::InspectError;
use crate::locks::Locks;
use crate::store_handle::Askers;

impl Locks {
    /// The same as [`list`](Self::list), for a program that watches for a long time: locks that
    /// were found are remembered, and refreshed about once a second.
    ///
    /// It sends a server at most fourteen commands a second, however many keys there are. With a
    /// million keys it takes about twenty seconds to find all locks, and as long to find a new one.
    /// With more than a thousand locks at once, each is refreshed less often than once a second.
    ///
    /// On a cluster each command inspects one lock, so that limit is seven locks. There the scan
    /// reads the beginning of each string by itself: a thousand of these reads, which are sent
    /// together, count as one command, and a million keys take about a minute and a half.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let locks = leasehold::Locks::in_memory();
    /// let _guard = locks.mutex("invoice:42").lock().await?;
    /// let mut watch = locks.watch("invoice:");
    /// while watch.found().next().is_none() {
    ///     watch.step().await?;
    /// }
    /// assert_eq!(watch.found().next().unwrap().state.key.to_string(), "invoice:42");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn watch(&self, prefix: impl AsRef<[u8]>) -> Watch {
        Watch {
            askers: Arc::clone(&self.askers),
            prefix: self.full_prefix(prefix.as_ref()),
            known: BTreeMap::new(),
            uninspected: BTreeMap::new(),
            chosen: None,
            from: Some(ScanPosition::default()),
            scanned: 0,
            passes: 0,
            misses: false,
            pass_began: None,
            inspected: None,
            walks_next: false,
            next_at: None,
        }
    }
}

/// A continuous watch of all locks of a store, from [`Locks::watch`].
pub struct Watch {
    askers: Arc<Askers>,
    prefix: Vec<u8>,
    known: BTreeMap<Key, Seen>,
    /// Keys that the scan found and that were not inspected yet, and when they were asked for in vain.
    uninspected: BTreeMap<Key, Option<Instant>>,
    /// The key that is refreshed first.
    chosen: Option<Key>,
    /// The position at which the scan continues; `None` after its end.
    from: Option<ScanPosition>,
    scanned: u16,
    passes: u64,
    /// True if a part of the store could not be scanned in this pass.
    misses: bool,
    pass_began: Option<Instant>,
    inspected: Option<Instant>,
    /// True if the scan is next, if both the scan and the inspection have work to do.
    walks_next: bool,
    /// No request is sent before this time.
    next_at: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Seen {
    state: Arc<KeyState>,
    at: Instant,
    /// When it was last asked for, perhaps in vain.
    asked: Instant,
}

/// A lock as it was when it was last inspected.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The state of the lock.
    pub state: Arc<KeyState>,
    /// The age of the state.
    pub ago: Duration,
}

/// The progress of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// The share of the store that was scanned in this pass, in thousandths.
    pub scanned: u16,
    /// The number of finished passes over the whole store. Until the first has ended, there may be
    /// locks that were not found yet.
    pub passes: u64,
    /// The number of names that were found but not inspected yet: locks may be among them.
    pub uninspected: usize,
}

impl Watch {
    /// The interval per command: fourteen commands a second leave room, below twenty, for
    /// connecting, keeping the connection alive and breaking a lease.
    const PER_COMMAND: Duration = Duration::from_micros(71_500);

    /// How old a shown state may become, unless there are too many locks to refresh.
    const FRESH: Duration = Duration::from_millis(900);

    /// How long found keys are gathered, so that one command inspects more of them.
    const GATHER: Duration = Duration::from_millis(250);

    /// The time between the starts of two scans: if a scan takes less, the store rests for the
    /// remaining time.
    const BETWEEN_WALKS: Duration = Duration::from_secs(1);

    /// The pause after a fault.
    const REST: Duration = Duration::from_secs(1);

    /// Takes one step when it is due: continues the scan for locks, or refreshes those that are
    /// known.
    ///
    /// # Errors
    ///
    /// [`InspectError`] if the store does not answer or refuses. Known locks stay known; the
    /// next step waits for a second and asks again. If only a part of a cluster does not answer, the
    /// steps in between go on with the others.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. A request that was dropped is sent again, so drop this seldom: a separate task
    /// keeps to the limit.
    pub async fn step(&mut self) -> Result<(), InspectError> {
        self.due().await;
        let store = self.askers.handle.store.clone();
        let began = self.askers.handle.runtime.now();
        let job = self.next_job(began, self.at_once()).1;
        // Set even if this future is dropped, because a request that was sent counts.
        self.next_at = Some(began + Self::PER_COMMAND);
        let done = match job {
            Job::Inspect(keys) => {
                let states = async { store.inspector()?.inspect_all(&keys).await }.await;
                self.inspected = Some(began);
                self.walks_next = true;
                match states {
                    Ok(states) => {
                        self.note(states, began);
                        Ok(1)
                    }
                    Err(fault) => {
                        self.defer(&keys, began);
                        Err(fault)
                    }
                }
            }
            Job::Scan(from) => {
                if from == ScanPosition::default() {
                    self.pass_began = Some(began);
                    self.misses = false;
                }
                self.walks_next = false;
                let page = async { store.inspector()?.scan(&self.prefix, from).await }.await;
                page.and_then(|page| self.came_by(page))
            }
        };
        self.askers.handle.report.answered(&done);
        let rest = done.as_ref().map_or(Self::REST, |commands: &u32| Self::PER_COMMAND * *commands);
        self.next_at = Some(began + rest);
        done.map(drop).map_err(InspectError::Store)
    }

    /// Resolves when there is a request to send and it may be sent. The next step then starts at
    /// once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, and costs nothing.
    pub async fn due(&self) {
        let runtime = self.askers.handle.runtime.clone();
        loop {
            let now = runtime.now();
            let (at, _) = self.next_job(now, self.at_once());
            let at = self.next_at.map_or(at, |free_at| at.max(free_at));
            if at <= now {
                return;
            }
            runtime.sleep_until(at).await;
        }
    }

    fn at_once(&self) -> usize {
        self.askers.handle.store.parts().inspect.map_or(1, InspectStore::inspected_at_once).max(1)
    }

    /// The locks found so far that are held or waited for, in byte order.
    pub fn found(&self) -> impl Iterator<Item = Snapshot> + '_ {
        let now = self.askers.handle.runtime.now();
        let snapshot =
            move |seen: &Seen| Snapshot { state: seen.state.clone(), ago: now.saturating_since(seen.at) };
        self.known.values().map(snapshot)
    }

    /// The progress of the watch.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { scanned: self.scanned, passes: self.passes, uninspected: self.uninspected.len() }
    }

    /// Refreshes this lock before the others.
    pub fn choose(&mut self, key: Option<Key>) {
        self.chosen = key;
    }

    /// Refreshes this lock next, whatever is known of it, because it may just have been changed.
    pub fn look_again(&mut self, key: Key) {
        self.inspected = None;
        self.uninspected.insert(key.clone(), None);
        self.chosen = Some(key);
    }

    /// The next request and its time.
    fn next_job(&self, now: Instant, at_once: usize) -> (Instant, Job) {
        let (scan_at, from) = match (self.from, self.pass_began) {
            (Some(from), Some(_)) if from != ScanPosition::default() => (now, from),
            // The last pass may have taken longer than that.
            (_, Some(began)) => ((began + Self::BETWEEN_WALKS).max(now), ScanPosition::default()),
            (_, None) => (now, ScanPosition::default()),
        };
        // What a pass has found is inspected before the next pass begins.
        let scan_is_next = self.walks_next
            && (from != ScanPosition::default() || self.uninspected.values().all(Option::is_some));
        match self.inspection(now, at_once) {
            Some((at, keys)) if at <= scan_at && !(scan_at <= now && scan_is_next) => {
                (at, Job::Inspect(keys))
            }
            _ => (scan_at, Job::Scan(from)),
        }
    }

    /// The keys to inspect next, and when: new keys soon, and known ones when they are no longer
    /// fresh.
    fn inspection(&self, now: Instant, at_once: usize) -> Option<(Instant, Vec<Key>)> {
        let gathered = self.inspected.map_or(now, |at| at + Self::GATHER);
        let due_at = |asked: Option<Instant>| asked.map_or(Instant::from_nanos(0), |at| at + Self::FRESH);
        let known = self.known.iter().filter(|(key, _)| !self.uninspected.contains_key(*key));
        let mut due: Vec<(Instant, &Key)> =
            known.map(|(key, seen)| (due_at(Some(seen.asked)), key)).collect();
        due.extend(self.uninspected.iter().map(|(key, asked)| (due_at(*asked), key)));
        due.sort_unstable();
        let first = self.chosen.as_ref().filter(|key| due.iter().any(|(at, one)| one == key && *at <= now));
        let others = due.iter().map(|(_, key)| *key).filter(|key| Some(*key) != first);
        let keys = first.into_iter().chain(others).take(at_once).cloned().collect();
        let is_full = due.partition_point(|(at, _)| *at <= now) >= at_once;
        let (earliest, _) = due.first()?;
        let at = if is_full { now } else { gathered.max(*earliest) };
        Some((at, keys))
    }

    fn came_by(&mut self, page: ScanPage) -> Result<u32, Fault> {
        for key in page.keys {
            if !self.known.contains_key(&key) {
                self.uninspected.entry(key).or_default();
            }
        }
        self.from = page.next;
        self.scanned = page.scanned;
        self.misses |= page.fault.is_some();
        if self.from.is_none() && !self.misses {
            self.passes += 1;
        }
        page.fault.map_or(Ok(page.commands.max(1)), Err)
    }

    /// Lets other keys go first after these could not be inspected.
    fn defer(&mut self, keys: &[Key], at: Instant) {
        for key in keys {
            if let Some(asked) = self.uninspected.get_mut(key) {
                *asked = Some(at);
            } else if let Some(seen) = self.known.get_mut(key) {
                seen.asked = at;
            }
        }
    }

    fn note(&mut self, states: Vec<KeyState>, at: Instant) {
        for state in states {
            let key = state.key.clone();
            self.uninspected.remove(&key);
            if state.is_in_use() {
                self.known.insert(key, Seen { state: Arc::new(state), at, asked: at });
            } else {
                self.known.remove(&key);
            }
        }
    }
}

/// The next request.
#[derive(Debug)]
enum Job {
    Inspect(Vec<Key>),
    Scan(ScanPosition),
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("progress", &self.progress()).finish_non_exhaustive()
    }
}
