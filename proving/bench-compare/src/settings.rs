//! The extent of a comparison, and its libraries.

use bench::backend::Backend;

use crate::competitors::{ALL, Competitor, FEW};

#[derive(Clone, Debug)]
pub struct Settings {
    pub backend: Backend,
    /// The competitors, Leasehold first.
    pub competitors: Vec<Competitor>,
    short: bool,
}

impl Settings {
    /// Leasehold and the named libraries, or all of them; the short form has only a few.
    pub fn new(short: bool, backend: Backend, named: &[String]) -> Self {
        let wanted = |competitor: &Competitor| {
            let name = competitor.name();
            let is_named = match named {
                [] => !short || FEW.contains(&name),
                named => competitor.is_ours() || named.iter().any(|wanted| wanted == name),
            };
            is_named && competitor.locks_on(backend)
        };
        Self { backend, competitors: ALL.into_iter().filter(wanted).collect(), short }
    }

    /// The value for the full form, or the one for the short form.
    pub const fn pick(&self, full: u64, short: u64) -> u64 {
        if self.short { short } else { full }
    }

    /// How often each measurement is repeated, in turns. Odd, so that the median is one of them.
    pub const fn repetitions(&self) -> usize {
        if self.short { 3 } else { 5 }
    }

    /// The length of a repetition of cycles, in ms.
    pub const fn slice(&self) -> u64 {
        self.pick(250, 60)
    }

    /// How long competitors contend for one key, in ms. Libraries that poll have few turns in it.
    pub const fn contest(&self) -> u64 {
        self.pick(2_000, 500)
    }
}
