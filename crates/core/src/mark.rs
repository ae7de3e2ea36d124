//! Records that something was done, or that a lease was broken.

use std::time::Duration;

use crate::holder::Label;
use crate::{Fence, Key, Misuse, Stamp};

/// The record that a job was done: when, and by whom. It is not a lease: it excludes nobody, and
/// outlives its holder.
///
/// ```
/// use leasehold_core::{Fence, Mark, Stamp};
/// use std::time::Duration;
///
/// let once = Mark::new(Stamp::from_micros(5), Fence::new(7).unwrap(), None);
/// assert_eq!(once.due_at(), None);
/// let hourly = once.every(Duration::from_secs(3600));
/// assert_eq!(hourly.due_at(), Some(hourly.at + Duration::from_secs(3600)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Mark {
    /// When the job was started, in microseconds since 1970 on the store's wall clock.
    pub at: Stamp,
    /// The fence under which it was done.
    pub fence: Fence,
    /// The holder's description of itself.
    pub label: Option<Label>,
    /// How long after `at` the job is due again, in whole microseconds; `None` for once, ever.
    pub period: Option<Duration>,
}

impl Mark {
    /// The longest time that a mark is kept. A hundred years stand for "forever", so that every
    /// entry of ours expires.
    pub const FOR_EVER: Duration = Duration::from_secs(36_525 * 24 * 60 * 60);

    /// The shortest period of a job: with a shorter one, the clocks of the stores would decide.
    pub const LEAST_PERIOD: Duration = Duration::from_secs(1);

    /// The mark of a job that was started at this time under this fence.
    #[must_use]
    pub const fn new(at: Stamp, fence: Fence, label: Option<Label>) -> Self {
        Self { at, fence, label, period: None }
    }

    /// The same for a job that is done once in each period. Fractions of a microsecond are dropped.
    #[must_use]
    pub fn every(self, period: Duration) -> Self {
        let micros = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
        Self { period: Some(Duration::from_micros(micros)), ..self }
    }

    /// When the job is due again, on the clock of `at`; `None` if it is done only once, ever.
    #[must_use]
    pub fn due_at(&self) -> Option<Stamp> {
        self.period.map(|period| self.at + period)
    }
}

/// The mark of a job, if it was done, and the store's time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::exhaustive_structs,
    reason = "readers must compare a mark with the clock that it was written by"
)]
pub struct Marked {
    /// The mark, if there is one.
    pub mark: Option<Mark>,
    /// The store's wall clock, in microseconds since 1970.
    pub now: Stamp,
}

impl Marked {
    /// When the job is due again, with the period of its mark; `None` if it was never done, or is done
    /// only once, ever.
    ///
    /// A mark from the future was made by a clock that has been set back since. It delays the job by a
    /// period at most: one from further ahead does not count, and the job is due now.
    #[must_use]
    pub fn due_at(&self) -> Option<Stamp> {
        let mark = self.mark.as_ref()?;
        let counts = |period| mark.at < self.now + period;
        Some(if counts(mark.period?) { mark.due_at()? } else { self.now })
    }
}

/// The operator who breaks a lease, and the reason, in their own words; kept in the
/// [record](BreakRecord) of the break.
///
/// ```
/// use leasehold_core::{BreakNote, Label};
///
/// let note = BreakNote { by: Some(Label::new("ana")?), ..BreakNote::default() };
/// let note = note.because("the host of web-3 is gone")?;
/// assert_eq!(note.reason.unwrap().as_str(), "the host of web-3 is gone");
/// # Ok::<(), leasehold_core::Misuse>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "there is no more to it")]
pub struct BreakNote {
    /// The description of the person or program that breaks it.
    pub by: Option<Label>,
    /// The reason.
    pub reason: Option<Label>,
}

impl BreakNote {
    /// The same with this reason: printable text of up to 256 bytes.
    ///
    /// # Errors
    ///
    /// [`Misuse::LabelTooLong`] and [`Misuse::LabelNotPrintable`].
    pub fn because(self, reason: &str) -> Result<Self, Misuse> {
        Ok(Self { reason: Some(Label::new(reason)?), ..self })
    }
}

/// Which lease is broken, and what the record of the break says.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "stores must handle every field")]
pub struct LeaseBreak {
    /// The fence of the lease at this store.
    pub fence: Fence,
    /// The fence in the record. For a member of a quorum it is the agreed one, by which all members
    /// know the lease; the lease may have another fence at the member.
    pub recorded: Fence,
    /// The person or program that breaks it, and the reason.
    pub note: BreakNote,
}

impl LeaseBreak {
    /// A break of the lease with this fence, recorded with the same fence.
    #[must_use]
    pub const fn new(fence: Fence, note: BreakNote) -> Self {
        Self { fence, recorded: fence, note }
    }
}

/// The record of a broken lease, kept for [`KEPT_FOR`](Self::KEPT_FOR). A later break of the same
/// key replaces it.
///
/// ```
/// use leasehold_core::BreakRecord;
///
/// fn line(record: &BreakRecord) -> String {
///     let by = record.note.by.as_ref().map_or("somebody", |by| by.as_str());
///     let reason = record.note.reason.as_ref().map_or("no reason given", |reason| reason.as_str());
///     format!("{by} broke the lease on {} with fence {}: {reason}", record.key, record.fence)
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct BreakRecord {
    /// The key.
    pub key: Key,
    /// When it was broken, in microseconds since 1970 on the store's wall clock.
    pub at: Stamp,
    /// The fence of the lease that was broken; of a quorum's lease, the agreed one.
    pub fence: Fence,
    /// The holder's description of itself.
    pub held_by: Option<Label>,
    /// The person or program that broke it, and the reason.
    pub note: BreakNote,
}

impl BreakRecord {
    /// How long a store remembers a break.
    pub const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

    /// The record of a break of the lease with this fence. Labels without text count as none.
    #[must_use]
    pub fn new(key: Key, at: Stamp, fence: Fence, held_by: Option<Label>, note: BreakNote) -> Self {
        let said = |label: Option<Label>| label.filter(|label| !label.as_str().is_empty());
        let note = BreakNote { by: said(note.by), reason: said(note.reason) };
        Self { key, at, fence, held_by: said(held_by), note }
    }
}
