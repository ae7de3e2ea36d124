//! Explores every state that a world can reach, nearest first.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::fmt::{self, Debug};

use foldhash::fast::FixedState;

/// A world in which things happen one at a time, in any order.
pub trait World: Clone {
    /// One thing that can happen.
    type Step: Debug;

    /// What tells it from worlds that go on otherwise.
    fn name(&self) -> u128;

    /// Everything that can happen next.
    fn steps(&self) -> Vec<Self::Step>;

    /// The world after it.
    #[must_use]
    fn take(&self, step: &Self::Step) -> Self;

    /// The step as a trace shows it.
    fn tell(&self, step: &Self::Step) -> String {
        format!("{step:?}")
    }

    /// What is wrong with this state, or with the step that led here.
    fn broken(&self) -> Option<String>;

    /// Whether this is as good as an end: what everybody hoped for has come. From each state such a one must be reachable by
    /// [fair](Self::is_fair) steps.
    fn is_settled(&self) -> bool {
        true
    }

    /// Whether a step comes sooner or later of itself. Faults and changes of mind do not; nobody may have to hope for them.
    fn is_fair(_step: &Self::Step) -> bool {
        true
    }
}

/// What an exploration found.
#[derive(Debug)]
#[non_exhaustive]
pub enum Finding {
    /// Nothing is wrong with any state.
    Sound {
        /// How many there are.
        states: usize,
    },
    /// A shortest way to a state that is wrong.
    Broken(Trace),
}

/// A history, and what is wrong at its end.
#[derive(Debug)]
#[non_exhaustive]
pub struct Trace {
    /// What is wrong.
    pub fault: String,
    /// What happened, first things first.
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
    /// The number of states of a sound world.
    ///
    /// # Panics
    ///
    /// With the trace, if it is not sound.
    #[must_use]
    pub fn sound(self) -> usize {
        match self {
            Self::Sound { states } => states,
            Self::Broken(trace) => panic!("{trace}"),
        }
    }

    /// The counterexample of an unsound one.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn broken(self) -> Trace {
        match self {
            Self::Sound { states } => panic!("none of {states} states is wrong"),
            Self::Broken(trace) => trace,
        }
    }
}

/// A state that was reached: by which step, from which other.
struct Reached<S> {
    by: Option<(u32, S)>,
    is_settled: bool,
}

/// Visits every state that can be reached, breadth first, so that the trace to a wrong one is as short as any. What is kept of a state
/// that was visited is its name and the step that led there.
///
/// # Panics
///
/// If there are more states than `limit`: a search that was cut short proves nothing.
pub fn explore<W: World>(start: W, limit: usize) -> Finding {
    let mut numbers = HashMap::with_hasher(FixedState::default());
    let mut states = vec![Reached { by: None, is_settled: start.is_settled() }];
    numbers.insert(start.name(), 0);
    let mut open = VecDeque::from([start.clone()]);
    // Fair steps, backwards: (to, from).
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
    if hopeful.iter().all(|is| *is) {
        return None;
    }
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

    /// Counts up to a limit, or stops early.
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
    fn a_shortest_trace_leads_to_what_is_wrong() {
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
