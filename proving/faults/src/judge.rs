//! The invariants of every run, with the allowance for a busy machine.

use std::{env, time::Duration};

use servers::{Reply, Server};

use crate::{Crowd, Handover, ParsedHistory};

/// The delay that a busy machine may add to any bound, even if it delays no process for long.
pub(crate) const BUSY: Duration = Duration::from_millis(750);

/// The delay that the machine may have added to any bound in this run.
#[must_use]
pub fn slack(crowd: &Crowd) -> Duration {
    // In an exchange, each of the two sides may have been delayed.
    BUSY + 2 * crowd.longest_stall()
}

/// The duration of the test: in the everyday form, or in the long one.
#[must_use]
pub fn lasts(every_day: Duration, long: Duration) -> Duration {
    if is_long() { long } else { every_day }
}

/// True for the long form.
#[must_use]
pub fn is_long() -> bool {
    env::var_os("LEASEHOLD_FAULTS_LONG").is_some()
}

/// Checks that no two guards were valid at once, and that fences rose.
///
/// # Panics
///
/// With the guards that break this.
#[track_caller]
pub fn sound(parsed_history: &ParsedHistory) {
    sound_but_for(parsed_history, &[]);
}

/// The same, where a store forgot leases in these periods, whose holders relied on them until two
/// seconds later.
///
/// # Panics
///
/// With the guards that break this.
#[track_caller]
pub fn sound_but_for(parsed_history: &ParsedHistory, forgot: &[(u64, u64)]) {
    for (one, other) in parsed_history.two_at_once() {
        let state_was_lost = forgot.iter().any(|(begins, ends)| {
            one.believed_until >= *begins && other.granted.is_some_and(|(at, _)| at <= *ends + 2_000_000_000)
        });
        assert!(state_was_lost, "two at once:\n{one}\n{other}");
    }
    if let Some((one, other)) = parsed_history.fences_that_do_not_rise().first() {
        panic!("a fence that does not rise:\n{one}\n{other}");
    }
}

/// The transitions between guards that took longer than this, longest first.
#[must_use]
pub fn longer_than(parsed_history: &ParsedHistory, bound: Duration) -> Vec<Handover> {
    let mut long: Vec<_> =
        parsed_history.handovers().into_iter().filter(|handover| handover.gap > bound).collect();
    long.sort_by_key(|handover| std::cmp::Reverse(handover.gap));
    long
}

/// Prints how a run went.
pub fn report(name: &str, crowd: &Crowd, parsed_history: &ParsedHistory) {
    let mut gaps: Vec<_> = parsed_history.handovers().iter().map(|handover| handover.gap).collect();
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

/// Entries on a server that should be gone with their writer. The last fence of an unused key
/// stays, as do the mark of a job, the record of a break, and at a member of a quorum the run id
/// that vouches for it; none of them forever.
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
        let may_last = ["leasehold:c", "leasehold:f", "leasehold:m", "leasehold:b"]
            .iter()
            .any(|kind| name.starts_with(kind));
        match server.command(&[b"PTTL", &key]).as_integer() {
            Some(-1) => left.push(format!("{name} has no end")),
            Some(ends_in) if ends_in >= 0 && !may_last => left.push(format!("{name} ends in {ends_in} ms")),
            _ => {}
        }
    }
    left
}
