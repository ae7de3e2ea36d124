//! The history of a run: which process considered itself the holder, and when.

use std::fmt;

/// From when a process had the answer until just before it requested the release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Belief {
    pub who: String,
    /// The start, on the clock of [`now`](crate::now).
    pub from: u64,
    pub until: u64,
}

impl Belief {
    pub fn new(who: impl Into<String>, from: u64, until: u64) -> Self {
        Self { who: who.into(), from, until }
    }
}

impl fmt::Display for Belief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} from {} to {}", self.who, self.from, self.until)
    }
}

/// Two periods that overlap, if there are any.
pub fn overlap(beliefs: &mut [Belief]) -> Option<(Belief, Belief)> {
    beliefs.sort_by_key(|belief| belief.from);
    let at_once = beliefs.windows(2).find(|pair| pair[1].from < pair[0].until)?;
    Some((at_once[0].clone(), at_once[1].clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beliefs_one_after_the_other_do_not_overlap() {
        let mut beliefs = [Belief::new("b", 20, 30), Belief::new("a", 10, 20), Belief::new("c", 31, 31)];
        assert_eq!(overlap(&mut beliefs), None);
    }

    #[test]
    fn two_holders_at_once_are_named() {
        let [a, b, c] = [Belief::new("a", 10, 50), Belief::new("b", 50, 60), Belief::new("c", 59, 61)];
        assert_eq!(overlap(&mut [c.clone(), b.clone(), a]), Some((b, c)));
    }
}
