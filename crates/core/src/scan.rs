//! Scanning a store one part at a time, for observers that must not keep it busy.

use crate::{Fault, Key};

/// The position of a scan. The meaning of the numbers is up to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a store that is made of others reads and writes it")]
pub struct ScanPosition {
    /// The part of the store: a member of a quorum, or a node of a cluster.
    pub section: usize,
    /// The position in that part; 0 at its beginning.
    pub at: u64,
}

impl ScanPosition {
    /// The beginning of a section.
    #[must_use]
    pub const fn to_section(section: usize) -> Self {
        Self { section, at: 0 }
    }
}

/// A part of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanPage {
    /// Keys that may be held or waited for, and have to be inspected. A key may be listed twice;
    /// keys that were in use during the whole scan are listed at least once.
    pub keys: Vec<Key>,
    /// The position from which to continue; `None` at the end.
    pub next: Option<ScanPosition>,
    /// How much of the store has been scanned, in thousandths.
    pub scanned: u16,
    /// The number of commands to one server.
    pub commands: u32,
    /// Why this part could not be scanned, if so.
    pub fault: Option<Fault>,
}

impl ScanPage {
    /// The whole store.
    pub const WHOLE: u16 = 1000;

    /// A scan that consists of only one part.
    #[must_use]
    pub const fn whole(keys: Vec<Key>) -> Self {
        Self::part(keys, None, Self::WHOLE, 1)
    }

    /// A part that could not be scanned.
    #[must_use]
    pub fn missed(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::whole(Vec::new()) }
    }

    /// A part that ends at this progress, and that took this many commands.
    #[must_use]
    pub const fn part(keys: Vec<Key>, next: Option<ScanPosition>, scanned: u16, commands: u32) -> Self {
        Self { keys, next, scanned, commands, fault: None }
    }

    /// The same as one of several sections, each of which is a separate scan.
    #[must_use]
    pub fn in_section(self, section: usize, sections: usize) -> Self {
        let next = match self.next {
            Some(next) => Some(ScanPosition { section, at: next.at }),
            None => Some(section + 1).filter(|next| *next < sections).map(ScanPosition::to_section),
        };
        let behind = section * usize::from(Self::WHOLE) + usize::from(self.scanned);
        let scanned = u16::try_from(behind / sections.max(1)).unwrap_or(Self::WHOLE).min(Self::WHOLE);
        Self { next, scanned, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sections_of_a_walk_follow_each_other_and_the_last_is_its_end() {
        let begun = ScanPage::part(Vec::new(), Some(ScanPosition { section: 0, at: 77 }), 500, 1);
        let done = ScanPage::whole(Vec::new());
        let within = begun.in_section(1, 2);
        assert_eq!((within.next, within.scanned), (Some(ScanPosition { section: 1, at: 77 }), 750));
        let between = done.clone().in_section(0, 2);
        assert_eq!((between.next, between.scanned), (Some(ScanPosition::to_section(1)), 500));
        let end = done.in_section(1, 2);
        assert_eq!((end.next, end.scanned), (None, ScanPage::WHOLE));
    }
}
