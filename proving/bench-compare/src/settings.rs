//! The extent of a comparison, and its libraries.

use bench::venue::Venue;

use crate::contenders::{ALL, Contender, FEW};

/// How much is measured, where, and of whom.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Settings {
    /// On which server.
    pub venue: Venue,
    /// Who takes part, ours first.
    pub contenders: Vec<Contender>,
    short: bool,
}

impl Settings {
    /// Ours, and those that are named, or all; the short form has a few of them.
    #[must_use]
    pub fn new(short: bool, venue: Venue, named: &[String]) -> Self {
        let wanted = |contender: &Contender| {
            let name = contender.name();
            match named {
                [] => !short || FEW.contains(&name),
                named => contender.is_ours() || named.iter().any(|wanted| wanted == name),
            }
        };
        Self { venue, contenders: ALL.into_iter().filter(wanted).collect(), short }
    }

    /// One of two: for the full form, or for the short one.
    #[must_use]
    pub const fn pick(&self, full: u64, short: u64) -> u64 {
        if self.short { short } else { full }
    }

    /// How often each measurement is repeated, in turns with those beside it. Odd, so that a median
    /// is one of them.
    #[must_use]
    pub const fn repetitions(&self) -> usize {
        if self.short { 3 } else { 5 }
    }

    /// How many ms of cycles are a repetition.
    #[must_use]
    pub const fn slice(&self) -> u64 {
        self.pick(250, 60)
    }

    /// For how many ms the contenders want one key in a repetition: whoever asks again after a
    /// fifth of a second has few turns in it.
    #[must_use]
    pub const fn contest(&self) -> u64 {
        self.pick(2_000, 500)
    }
}
