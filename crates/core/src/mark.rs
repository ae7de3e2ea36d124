//! What stays behind when something was done.

use std::time::Duration;

use crate::holder::Label;
use crate::{Fence, Stamp};

/// What says that something was done: when, and by whom. It is no lease: it keeps nobody out, and outlasts its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Mark {
    /// When it was begun, in microseconds since 1970 on the store's wall clock.
    pub at: Stamp,
    /// The fence that it was done under.
    pub fence: Fence,
    /// What whoever did it says of itself.
    pub label: Option<Label>,
}

impl Mark {
    /// The longest that a mark is kept: a hundred years stand for ever, so that nothing of ours is without an end.
    pub const FOR_EVER: Duration = Duration::from_hours(24 * 36_525);

    /// The shortest period in which something can be done once: below it, the clocks of the stores decide.
    pub const LEAST_PERIOD: Duration = Duration::from_secs(1);

    /// What was begun `at` this moment under that fence.
    #[must_use]
    pub const fn new(at: Stamp, fence: Fence, label: Option<Label>) -> Self {
        Self { at, fence, label }
    }
}

/// Whether something was done, and the time at the store.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "whoever reads a mark must compare it with the clock it was written by"
)]
pub struct Marked {
    /// The mark, if there is one.
    pub mark: Option<Mark>,
    /// The store's wall clock, in microseconds since 1970.
    pub now: Stamp,
}
