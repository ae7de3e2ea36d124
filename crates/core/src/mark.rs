//! What stays behind when something was done, or a lease was broken.

use std::time::Duration;

use crate::holder::Label;
use crate::{Fence, Key, Misuse, Stamp};

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
    /// How long after `at` it is to be done again, in whole microseconds; `None` if it is done once, ever.
    pub period: Option<Duration>,
}

impl Mark {
    /// The longest that a mark is kept: a hundred years stand for ever, so that nothing of ours is without an end.
    pub const FOR_EVER: Duration = Duration::from_hours(24 * 36_525);

    /// The shortest period in which something can be done once: below it, the clocks of the stores decide.
    pub const LEAST_PERIOD: Duration = Duration::from_secs(1);

    /// What was begun `at` this moment under that fence.
    #[must_use]
    pub const fn new(at: Stamp, fence: Fence, label: Option<Label>) -> Self {
        Self { at, fence, label, period: None }
    }

    /// The same of what is done once in each period. Less than a microsecond of it is left out.
    #[must_use]
    pub fn every(self, period: Duration) -> Self {
        let micros = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
        Self { period: Some(Duration::from_micros(micros)), ..self }
    }

    /// When it is due again, on the clock of `at`; `None` if it is done once, ever.
    #[must_use]
    pub fn due_at(&self) -> Option<Stamp> {
        self.period.map(|period| self.at + period)
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

/// Who breaks a lease and why, as they say: it is kept in the [record](BreakRecord) of the break.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "there is no more to it")]
pub struct BreakNote {
    /// What whoever breaks it says of itself.
    pub by: Option<Label>,
    /// Why.
    pub reason: Option<Label>,
}

impl BreakNote {
    /// The same for this reason: printable text of up to 256 bytes.
    ///
    /// # Errors
    ///
    /// [`Misuse::LabelTooLong`] and [`Misuse::LabelNotPrintable`].
    pub fn because(self, reason: &str) -> Result<Self, Misuse> {
        Ok(Self { reason: Some(Label::new(reason)?), ..self })
    }
}

/// What stays behind when a lease was broken, for [`KEPT_FOR`](Self::KEPT_FOR). A later break of the same key takes its place.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BreakRecord {
    /// Which key.
    pub key: Key,
    /// When, in microseconds since 1970 on the store's wall clock.
    pub at: Stamp,
    /// The fence of the lease that was broken.
    pub fence: Fence,
    /// What its holder said of itself.
    pub held_by: Option<Label>,
    /// Who broke it and why.
    pub note: BreakNote,
}

impl BreakRecord {
    /// How long a store remembers a break.
    pub const KEPT_FOR: Duration = Duration::from_hours(24);

    /// The lease with this fence was broken then. Labels without text count as none.
    #[must_use]
    pub fn new(key: Key, at: Stamp, fence: Fence, held_by: Option<Label>, note: BreakNote) -> Self {
        let said = |label: Option<Label>| label.filter(|label| !label.as_str().is_empty());
        let note = BreakNote { by: said(note.by), reason: said(note.reason) };
        Self { key, at, fence, held_by: said(held_by), note }
    }
}
