//! The invariants of every run, with the allowance for a busy machine.

use std::{env, time::Duration};

use servers::{Reply, Server};

use crate::{Account, Crowd, Handover};

/// What a machine that is busy with other things may add to any bound, also one that leaves nobody
/// without a turn for long.
pub(crate) const BUSY: Duration = Duration::from_millis(750);

/// What the machine may have added to any bound in this run.
#[must_use]
pub fn slack(crowd: &Crowd) -> Duration {
    // Of an exchange each of the two may have been left without a turn.
    BUSY + 2 * crowd.longest_stall()
}

/// The long form of a test, or the one of every day.
#[must_use]
pub fn lasts(every_day: Duration, long: Duration) -> Duration {
    if is_long() { long } else { every_day }
}

/// Whether it is the long form.
#[must_use]
pub fn is_long() -> bool {
    env::var_os("LEASEHOLD_FAULTS_LONG").is_some()
}

/// No two believed at once, and the fences rose.
///
/// # Panics
///
/// If that is not so, with who it was.
#[track_caller]
pub fn sound(account: &Account) {
    if let Some((one, other)) = account.two_at_once().first() {
        panic!("two at once:\n{one}\n{other}");
    }
    if let Some((one, other)) = account.fences_that_do_not_rise().first() {
        panic!("a fence that does not rise:\n{one}\n{other}");
    }
}

/// From one guard to the next in more than that, the longest first.
#[must_use]
pub fn longer_than(account: &Account, bound: Duration) -> Vec<Handover> {
    let mut long: Vec<_> = account.handovers().into_iter().filter(|handover| handover.gap > bound).collect();
    long.sort_by_key(|handover| std::cmp::Reverse(handover.gap));
    long
}

/// Says how a run went.
pub fn report(name: &str, crowd: &Crowd, account: &Account) {
    let mut gaps: Vec<_> = account.handovers().iter().map(|handover| handover.gap).collect();
    gaps.sort();
    let part = |of: usize| gaps.get(gaps.len() * of / 100).or(gaps.last()).copied().unwrap_or_default();
    println!(
        "{name}: {} holds, gaps: half {:?}, 99 of 100 {:?}, longest {:?}; the machine stalled for {:?}",
        gaps.len() + 1,
        part(50),
        part(99),
        part(100),
        crowd.longest_stall()
    );
}

/// What there is at a server that should have gone with its writer. The last fence of an unused key
/// stays, the mark of what was done, the record of a break, and of a member of a quorum the run
/// that vouches for it; none of them for ever.
///
/// # Panics
///
/// If the server does not answer.
#[must_use]
pub fn left_behind(server: &Server) -> Vec<String> {
    let Reply::Array(Some(keys)) = server.text(&["KEYS", "*"]) else { panic!("no keys") };
    let keys =
        keys.into_iter().map(|key| if let Reply::Bulk(Some(key)) = key { key } else { panic!("{key:?}") });
    let mut left = Vec::new();
    for key in keys {
        let name = String::from_utf8_lossy(&key).into_owned();
        let may_last =
            ["leasehold:f", "leasehold:m", "leasehold:b"].iter().any(|kind| name.starts_with(kind));
        match server.command(&[b"PTTL", &key]).as_integer() {
            Some(-1) => left.push(format!("{name} has no end")),
            Some(ends_in) if ends_in >= 0 && !may_last => left.push(format!("{name} ends in {ends_in} ms")),
            _ => {}
        }
    }
    left
}
