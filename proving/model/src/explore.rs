//! Explores every state that a world can reach, nearest states first.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Debug};

use foldhash::fast::FixedState;

/// A world in which one thing happens at a time, in any order.
pub trait World: Clone {
    /// One thing that can happen.
    type Step: Debug;

    /// Identifies the state: worlds with the same name have the same future.
    fn name(&self) -> u128;

    /// Every step that is possible next.
    fn steps(&self) -> Vec<Self::Step>;

    /// The world after the step.
    #[must_use]
    fn take(&self, step: &Self::Step) -> Self;

    /// Describes the step in a trace.
    fn tell(&self, step: &Self::Step) -> String {
        format!("{step:?}")
    }

    /// The broken rule, if this state, or the step that led here, breaks one.
    fn broken(&self) -> Option<String>;

    /// Returns true if this is a good end: every client got what it wanted. Such a state must be
    /// reachable from each state by [fair](Self::is_fair) steps.
    fn is_settled(&self) -> bool;

    /// Returns true if the step happens sooner or later. Faults and changes of mind are not fair.
    fn is_fair(_step: &Self::Step) -> bool {
        true
    }
}

/// The result of an exploration.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// No state breaks a rule.
    Sound {
        /// The number of states.
        states: usize,
    },
    /// A shortest trace to a state that breaks a rule.
    Broken(Trace),
}

/// A history, and the rule that its end breaks.
#[derive(Debug)]
#[non_exhaustive]
pub struct Trace {
    /// The broken rule.
    pub fault: String,
    /// The steps, in order.
    pub steps: Vec<String>,
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} after {} steps:", self.fault, self.steps.len())?;
        for (nth, step) in self.steps.iter().enumerate() {
            writeln!(f, "{:>3}. {step}", nth + 1)?;
        }
        Ok(())
    }
}

impl Finding {
    /// Returns the number of states of a sound world; panics with the trace otherwise.
    #[must_use]
    pub fn sound(self) -> usize {
        match self {
            Self::Sound { states } => states,
            Self::Broken(trace) => panic!("{trace}"),
        }
    }

    /// Returns the counterexample of an unsound world; panics if it is sound.
    #[must_use]
    pub fn broken(self) -> Trace {
        match self {
            Self::Sound { states } => panic!("none of {states} states breaks a rule"),
            Self::Broken(trace) => trace,
        }
    }
}

/// A state that was reached: by which step, and from which state.
struct Reached<S> {
    by: Option<(u32, S)>,
    is_settled: bool,
}

/// Visits every reachable state, breadth first, so that the trace to a wrong state is a shortest
/// one. Of a visited state, its name and the step to it are kept. Panics if there are more states
/// than `limit`.
pub fn explore<W: World>(start: W, limit: usize) -> Finding {
    let mut numbers = HashMap::with_hasher(FixedState::default());
    let mut states = vec![Reached { by: None, is_settled: start.is_settled() }];
    numbers.insert(start.name(), 0);
    let mut open = VecDeque::from([start.clone()]);
    // The fair steps, reversed: (to, from).
    let mut fair: Vec<(u32, u32)> = Vec::new();
    for at in 0.. {
        let Some(world) = open.pop_front() else { break };
        let from = usize::try_from(at).expect("the limit is far below");
        if let Some(fault) = world.broken() {
            return Finding::Broken(trace(start, &states, from, fault));
        }
        for step in world.steps() {
            let next = world.take(&step);
            let is_fair = W::is_fair(&step);
            let to = match numbers.entry(next.name()) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let number = u32::try_from(states.len()).expect("the limit is far below");
                    states.push(Reached { by: Some((at, step)), is_settled: next.is_settled() });
                    open.push_back(next);
                    *new.insert(number)
                }
            };
            if is_fair && to != at {
                fair.push((to, at));
            }
        }
        let found = states.len();
        assert!(found <= limit, "more than {limit} states: make the world smaller, or the limit larger");
    }
    match first_without_hope(&states, fair) {
        Some(lost) => {
            let fault = "from here on waiting helps nobody".to_owned();
            Finding::Broken(trace(start, &states, lost, fault))
        }
        None => Finding::Sound { states: states.len() },
    }
}

/// The nearest state from which no fair steps lead to a settled one.
fn first_without_hope<S>(states: &[Reached<S>], mut fair: Vec<(u32, u32)>) -> Option<usize> {
    let mut hopeful: Vec<bool> = states.iter().map(|state| state.is_settled).collect();
    fair.sort_unstable();
    let mut open: Vec<u32> = (0..).zip(&hopeful).filter(|(_, is)| **is).map(|(at, _)| at).collect();
    while let Some(to) = open.pop() {
        let first = fair.partition_point(|edge| edge.0 < to);
        for (_, from) in fair[first..].iter().take_while(|edge| edge.0 == to) {
            if !std::mem::replace(&mut hopeful[*from as usize], true) {
                open.push(*from);
            }
        }
    }
    hopeful.iter().position(|is| !is)
}

fn trace<W: World>(start: W, states: &[Reached<W::Step>], end: usize, fault: String) -> Trace {
    let mut way = Vec::new();
    let mut at = end;
    while let Some((from, step)) = &states[at].by {
        way.push(step);
        at = *from as usize;
    }
    let mut world = start;
    let told = way.into_iter().rev().map(|step| {
        let told = world.tell(step);
        world = world.take(step);
        told
    });
    Trace { fault, steps: told.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up to a limit, or stops before it.
    #[derive(Clone)]
    struct Count {
        to: u8,
        bad: Option<u8>,
        stuck: bool,
    }

    impl World for Count {
        type Step = bool;

        fn name(&self) -> u128 {
            u128::from(self.to) << 1 | u128::from(self.stuck)
        }

        fn steps(&self) -> Vec<bool> {
            if self.to < 5 && !self.stuck { vec![true, false] } else { Vec::new() }
        }

        fn take(&self, up: &bool) -> Self {
            Self { to: self.to + u8::from(*up), stuck: !up && self.bad.is_none(), ..*self }
        }

        fn broken(&self) -> Option<String> {
            (Some(self.to) == self.bad).then(|| "bad".to_owned())
        }

        fn is_settled(&self) -> bool {
            self.to == 5
        }
    }

    #[test]
    fn a_shortest_trace_leads_to_the_violation() {
        let trace = explore(Count { to: 0, bad: Some(3), stuck: false }, 100).broken();
        assert_eq!(trace.steps, ["true", "true", "true"]);
        assert_eq!(explore(Count { to: 0, bad: Some(9), stuck: false }, 100).sound(), 6);
    }

    #[test]
    fn a_state_without_a_way_to_the_end_is_found() {
        assert_eq!(explore(Count { to: 0, bad: None, stuck: false }, 100).broken().steps, ["false"]);
    }

    #[test]
    #[should_panic(expected = "more than 3 states")]
    fn a_search_that_is_cut_short_is_a_failure() {
        let _ = explore(Count { to: 0, bad: Some(9), stuck: false }, 3);
    }
}
