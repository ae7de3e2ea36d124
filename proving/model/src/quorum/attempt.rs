//! An attempt, as its client knows it.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// Has asked all members.
    Asking,
    /// Has released the others, and waits where the line is.
    Waiting,
    /// Has the answers of a majority, and lifts them to one fence.
    Raising,
    /// Believes that it holds.
    Holding,
    /// Given up, released or lost: it is undone everywhere.
    Gone,
    Dead,
}

/// Calls go to all members at once and have a number. A lease that rests on a call ends no later than a ttl after its sending, which
/// is before the lease of any member that served it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Attempt {
    pub(super) phase: Phase,
    /// The lowest fence that it would have.
    pub(super) t: u8,
    /// The fence that it raises to, or has.
    pub(super) fence: u8,
    /// How many calls were sent.
    pub(super) calls: u8,
    /// The first call whose answers count; once it holds, the call that its lease rests on.
    pub(super) since: u8,
    /// The latest renewal, or 0.
    pub(super) renewal: u8,
    /// How many of its calls are a ttl ago.
    pub(super) over: u8,
    /// The highest fence that was granted when it began.
    pub(super) low: u8,
}

impl Attempt {
    pub(super) fn begin(t: u8, low: u8) -> Self {
        Self { phase: Phase::Asking, t, low, calls: 1, ..Self::default() }
    }

    pub(super) fn is_live(&self) -> bool {
        use Phase::{Asking, Holding, Raising, Waiting};
        matches!(self.phase, Asking | Waiting | Raising | Holding)
    }

    pub(super) fn is_over(&self) -> bool {
        self.since < self.over
    }

    pub(super) fn believes(&self) -> bool {
        self.phase == Phase::Holding && !self.is_over()
    }

    /// The number of a new call.
    pub(super) fn call(&mut self) -> u8 {
        self.calls += 1;
        self.calls - 1
    }
}
