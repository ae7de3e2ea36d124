//! The invariants of every run, with the allowance for a busy machine.

use std::{
    env, thread,
    time::{Duration, Instant},
};

use servers::Server;

use crate::{Crowd, Handover, ParsedHistory, crowd::LOOK};

/// The delay that a busy machine may add to any bound, even if it delays no process for long.
const BUSY: Duration = Duration::from_millis(750);

/// The delay that the machine may have added to any bound in this run.
pub fn slack(crowd: &Crowd) -> Duration {
    slack_of(crowd.longest_stall())
}

/// The same, by the longest time for which the machine gave a process no processor.
pub(crate) fn slack_of(longest_stall: Duration) -> Duration {
    // In an exchange, each of the two sides may have been delayed.
    BUSY + 2 * longest_stall
}

pub fn lasts(every_day: Duration, long: Duration) -> Duration {
    if is_long() { long } else { every_day }
}

pub fn is_long() -> bool {
    env::var_os("LEASEHOLD_FAULTS_LONG").is_some()
}

/// Checks that no two guards were valid at once, and that fences rose.
#[track_caller]
pub fn sound(parsed_history: &ParsedHistory) {
    sound_but_for(parsed_history, &[]);
}

/// The same, but where a store forgot leases, their holders relied on them until two seconds later.
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

/// Checks that no transition between guards took longer than this.
#[track_caller]
pub fn no_gap_is_longer_than(parsed_history: &ParsedHistory, bound: Duration) {
    let long = longer_than(parsed_history, bound);
    assert!(long.is_empty(), "longer than {bound:?}: {}", long[0]);
}

/// Checks that no holder relied on a guard that its store did not know.
#[track_caller]
pub fn nobody_was_deceived(parsed_history: &ParsedHistory) {
    let deceived = parsed_history.spans.iter().find(|span| span.deceived.is_some());
    assert!(deceived.is_none(), "{}: {:?}", deceived.unwrap(), deceived.unwrap().deceived);
}

/// Checks that waiters were served in the order in which they came.
#[track_caller]
pub fn in_order(parsed_history: &ParsedHistory) {
    if let Some((one, other)) = parsed_history.overtaken().first() {
        panic!("overtaken:\n{one}\n{other}");
    }
}

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
#[must_use]
pub fn left_behind(server: &Server) -> Vec<String> {
    let mut left = Vec::new();
    for name in server.keys("*") {
        let may_last = ["leasehold:c", "leasehold:f", "leasehold:m", "leasehold:b"]
            .iter()
            .any(|kind| name.starts_with(kind));
        match server.text(&["PTTL", &name]).as_integer() {
            Some(-1) => left.push(format!("{name} has no end")),
            Some(ends_in) if ends_in >= 0 && !may_last => left.push(format!("{name} ends in {ends_in} ms")),
            _ => {}
        }
    }
    left
}

#[track_caller]
pub fn until_nothing_is_left<'a>(servers: impl Iterator<Item = &'a Server> + Clone, limit: Duration) {
    let begun = Instant::now();
    loop {
        let left: Vec<_> = servers
            .clone()
            .flat_map(|server| left_behind(server).into_iter().map(move |what| (server.port(), what)))
            .collect();
        if left.is_empty() {
            return;
        }
        assert!(begun.elapsed() < limit, "left behind, by port: {left:?}");
        thread::sleep(LOOK);
    }
}

/// True if a member of a quorum vouches for its leases again after it may have forgotten something.
#[must_use]
pub fn vouches(server: &Server) -> bool {
    server.text(&["GET", "leasehold:member"]).as_text().is_some_and(|run| !run.contains(' '))
}
