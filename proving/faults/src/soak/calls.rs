//! The calls that were in flight, to tell which faults affected one.

use std::collections::HashMap;

use crate::history::{Entry, EventKind};

/// The time from a request, a release or a break to its first answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Call {
    process: u32,
    from: u64,
    until: u64,
}

/// All calls that a history shows: not the exchanges between the first answer and the grant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls(Vec<Call>);

impl Calls {
    pub(crate) fn of(history: &[Entry]) -> Self {
        let mut calls = Vec::new();
        let mut open = HashMap::new();
        for Entry { at, process, task, what } in history {
            let who = (*process, *task);
            match what {
                EventKind::Asks
                | EventKind::AsksFor(_)
                | EventKind::LetsGo { .. }
                | EventKind::Breaks { .. } => {
                    open.insert(who, *at);
                }
                // Whatever else a task does, it does after its call was answered.
                _ => {
                    if let Some(from) = open.remove(&who) {
                        calls.push(Call { process: *process, from, until: *at });
                    }
                }
            }
        }
        // Calls of killed processes, which were never answered.
        calls.extend(open.into_iter().map(|((process, _), from)| Call { process, from, until: u64::MAX }));
        Self(calls)
    }

    /// True if any call was in flight in this period.
    pub(crate) fn any_in(&self, from: u64, until: u64) -> bool {
        self.0.iter().any(|call| call.from <= until && from <= call.until)
    }

    /// The same for one process.
    pub(crate) fn any_of(&self, process: u32, at: u64) -> bool {
        self.0.iter().any(|call| call.process == process && call.from <= at && at <= call.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_under_way_until_its_first_answer() {
        let lines =
            ["1 7 1 asks", "3 7 1 stands", "5 7 1 granted 8 90", "7 7 1 lets-go true", "9 7 1 released"];
        let calls = Calls::of(&lines.map(|line| line.parse().unwrap()));
        for (from, until, met) in [(0, 0, false), (0, 2, true), (2, 2, true), (4, 6, false), (6, 8, true)] {
            assert_eq!(calls.any_in(from, until), met, "{from} to {until}");
        }
        assert!(calls.any_of(7, 2) && !calls.any_of(8, 2) && !calls.any_of(7, 4));
    }
}
