//! `leasehold watch`: reports changes of the locks of a store, found by polling.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io::{self, ErrorKind, Write as _};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use leasehold::{Fence, HolderInfo, InspectError, Key, KeyState, Locks, Progress, Waiter, Watch};
use serde::Serialize;
use tokio::time::{Instant, sleep_until};

use crate::args::PrefixArgs;
use crate::exit::{End, Failure};
use crate::hold::reader_is_gone;
use crate::json::{self, KeyText, millis};
use crate::lock_json::{HolderJson, WaiterJson, name_of};
use crate::mark::{self, BreakJson};
use crate::say::plain;
use crate::status::VERSION;
use crate::time;

/// Print what happens to locks, one line per event
///
/// For all locks, or those whose names begin with PREFIX: first who holds them and who waits, and
/// from then on who acquires or releases one, starts or stops waiting, and which leases are broken.
///
/// It polls, as `leasehold top` does: each lock about once a second, with at most twenty commands a
/// second, so more than a thousand locks (seven in a cluster) are each polled less often. Whatever
/// begins and ends between two polls is not reported: of a store with thousands of changes a second,
/// most are missing. To miss nothing of one run, let the run write its own events: `leasehold help
/// events`.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold watch [OPTIONS] [PREFIX]",
    after_help = "Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct WatchArgs {
    /// Print JSON, one object per line
    ///
    /// Each has event, at (milliseconds since 1970 by this machine's clock) and v (1): watching
    /// (store), caught_up (everything that was there before has been reported), held, ended,
    /// waiting, left (it stopped waiting and was not seen to hold the lock), broken, fault
    /// (reason), back (the store answers again). docs/json.md describes their fields.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) which: PrefixArgs,
}

const EXAMPLE: &str = "\
It continues until a signal ends it or nobody reads its lines any more. While the store does not answer, it keeps asking.

Example: write down who deploys:
  leasehold watch --json deploy >>deploys.jsonl";

pub(crate) async fn follow(args: WatchArgs) -> Result<End, Failure> {
    let (prefix, place) = args.which.resolve()?;
    let locks = place.look(false).await?;
    let watch = locks.watch(&prefix);
    let follower = Follower::of(locks, args.json);
    let error = tokio::select! {
        Err(error) = follower.go_on(watch) => error,
        () = reader_is_gone() => return Ok(End::SUCCESS),
    };
    match error.kind() {
        // The reader has closed the pipe.
        ErrorKind::BrokenPipe => Ok(End::SUCCESS),
        _ => Err(Failure::new(
            End::CANNOT_EXECUTE,
            format!("the events cannot be written: {error}: check stdout"),
        )),
    }
}

struct Follower {
    locks: Locks,
    json: bool,
    seen: BTreeMap<Key, Arc<KeyState>>,
    /// Holdings that have ended, possibly because somebody broke them.
    ended: VecDeque<(Key, Fence)>,
    ask_at: Instant,
    caught_up: bool,
    faulty: bool,
}

/// The interval between two questions why a holding ended, for which the watch's limit leaves room.
const BETWEEN_QUESTIONS: Duration = Duration::from_millis(250);

/// The most open questions; if more locks change hands, breaks of the oldest are not reported.
const QUESTIONS: usize = 1000;

impl Follower {
    fn of(locks: Locks, json: bool) -> Self {
        let (seen, ended) = (BTreeMap::new(), VecDeque::new());
        Self { locks, json, seen, ended, ask_at: Instant::now(), caught_up: false, faulty: false }
    }

    /// Runs until a line could not be written.
    async fn go_on(mut self, mut watch: Watch) -> io::Result<Infallible> {
        let store = self.locks.store();
        self.tell("watching", None, BTreeMap::from([("store", store)]), format!("watching {store}"))?;
        loop {
            tokio::select! {
                () = sleep_until(self.ask_at), if !self.ended.is_empty() => self.ask().await?,
                () = watch.due() => {
                    let fault = watch.step().await.err().map(|error| error.to_string());
                    self.learn(&watch, fault)?;
                }
            }
        }
    }

    fn learn(&mut self, watch: &Watch, fault: Option<String>) -> io::Result<()> {
        if let Some(reason) = fault {
            if std::mem::replace(&mut self.faulty, true) {
                return Ok(());
            }
            let words = format!("fault    {reason}; asking again");
            return self.tell("fault", None, BTreeMap::from([("reason", &reason)]), words);
        }
        if std::mem::take(&mut self.faulty) {
            self.tell("back", None, (), format!("{} answers again", self.locks.store()))?;
        }
        let now: BTreeMap<_, _> = watch.found().map(|found| (found.state.key.clone(), found.state)).collect();
        let before = std::mem::replace(&mut self.seen, now.clone());
        for (key, old) in &before {
            let free = KeyState::new(key.clone(), Vec::new(), Vec::new());
            match now.get(key) {
                Some(new) if Arc::ptr_eq(old, new) => {}
                new => self.compare(old, new.map_or(&free, |new| &**new))?,
            }
        }
        for (key, new) in now.iter().filter(|(key, _)| !before.contains_key(*key)) {
            self.compare(&KeyState::new(key.clone(), Vec::new(), Vec::new()), new)?;
        }
        let Progress { passes, uninspected, .. } = watch.progress();
        if passes > 0 && uninspected == 0 && !std::mem::replace(&mut self.caught_up, true) {
            let words = "all locks that existed before have been read".into();
            self.tell("caught_up", None, (), words)?;
        }
        Ok(())
    }

    /// Reports the end of a holding before the next holding.
    fn compare(&mut self, old: &KeyState, new: &KeyState) -> io::Result<()> {
        for ended in old.holders.iter().filter(|old| !new.holders.iter().any(|new| is_same(old, new))) {
            let held_for = old.held_for(ended).map(time::shown);
            let held_for = held_for.map_or_else(String::new, |held_for| format!(", after {held_for}"));
            let fields = HolderJson::of(ended, old.held_for(ended));
            self.tell("ended", Some(&old.key), fields, format!("held {}{held_for}", by(ended)))?;
            if let Some(fence) = ended.fence {
                if self.ended.len() == QUESTIONS {
                    self.ended.pop_front();
                }
                self.ended.push_back((old.key.clone(), fence));
            }
        }
        for held in new.holders.iter().filter(|new| !old.holders.iter().any(|old| is_same(old, new))) {
            self.tell("held", Some(&new.key), HolderJson::of(held, new.held_for(held)), by(held))?;
        }
        let waits = |state: &KeyState, waiter: &Waiter| {
            state.waiters.iter().any(|other| other.holder.is_same_attempt(waiter.holder))
        };
        let holds = |waiter: &Waiter| {
            let mut holders = new.holders.iter().filter_map(|held| held.owner.holder());
            holders.any(|holder| holder.is_same_attempt(waiter.holder))
        };
        for (place, waiter) in
            (1..).zip(&old.waiters).filter(|(_, waiter)| !waits(new, waiter) && !holds(waiter))
        {
            let words = format!("{}, after {}", name_of(waiter), time::shown(waiter.waited));
            self.tell("left", Some(&old.key), WaiterJson::of((waiter, place)), words)?;
        }
        for (place, waiter) in (1..).zip(&new.waiters).filter(|(_, waiter)| !waits(old, waiter)) {
            let words = format!("{}, place {place}", name_of(waiter));
            self.tell("waiting", Some(&new.key), WaiterJson::of((waiter, place)), words)?;
        }
        Ok(())
    }

    /// Asks whether the oldest ended holding was broken.
    async fn ask(&mut self) -> io::Result<()> {
        self.ask_at = Instant::now() + BETWEEN_QUESTIONS;
        let Some((key, fence)) = self.ended.front().cloned() else { return Ok(()) };
        let broken = match self.locks.last_break(key.as_bytes()).await {
            // A store that does not answer is asked again once it does.
            Err(InspectError::Store(fault)) if !fault.is_lasting() => return Ok(()),
            broken => broken.ok().flatten(),
        };
        self.ended.pop_front();
        let Some(record) = broken.filter(|broken| broken.fence == fence) else { return Ok(()) };
        self.tell("broken", Some(&record.key), BreakJson::from(&record), mark::broken(&record))
    }

    /// Reports an event, with these fields to programs and in these words to people.
    fn tell(
        &self,
        event: &'static str,
        key: Option<&Key>,
        fields: impl Serialize,
        words: String,
    ) -> io::Result<()> {
        let at = millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        let line = match key {
            _ if self.json => {
                json::line(&Line { event, key: key.map(KeyText::from), fields, at, v: VERSION })
            }
            Some(key) => {
                let (at, key, words) = (time::moment(at), plain(&key.to_string()), plain(&words));
                format!("{at}  {event:7}  {key}  {words}\n")
            }
            None => format!("{}  {}\n", time::moment(at), plain(&words)),
        };
        let mut stdout = io::stdout();
        stdout.write_all(line.as_bytes()).and_then(|()| stdout.flush())
    }
}

/// The fence does not count: a quorum shows another one while the member with the agreed one is down.
fn is_same(one: &HolderInfo, other: &HolderInfo) -> bool {
    one.owner.is_same(&other.owner)
}

fn by(held: &HolderInfo) -> String {
    let fence = held.fence.map_or_else(String::new, |fence| format!(", fence {fence}"));
    format!("by {}{fence}", held.owner)
}

/// The output in JSON.
#[derive(Serialize)]
struct Line<F> {
    event: &'static str,
    #[serde(flatten)]
    key: Option<KeyText>,
    #[serde(flatten)]
    fields: F,
    at: u64,
    v: u32,
}

#[cfg(test)]
mod tests {
    use leasehold::{Holder, Owner};

    use super::*;

    /// Regression: when a member of a quorum went down, a lease was reported to have ended and to be
    /// held again, with its fence at another member; and once more when the member was back.
    #[test]
    fn a_holding_is_the_same_whatever_fence_a_quorum_shows() {
        let held = |holder: u128, number| {
            let owner = Owner::Holder { holder: Holder::from_bits(holder << 32), label: None };
            HolderInfo::exclusive(Key::new("k").unwrap(), owner, Fence::new(number), None)
        };
        assert!(is_same(&held(1, 7), &held(1, 9)));
        assert!(!is_same(&held(1, 7), &held(2, 7)));
    }
}
