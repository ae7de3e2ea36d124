//! What is to be known of a store by those who rely on its locks.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Ttl;

/// Something about a store that its users should know, and what is to be done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// What it is about, in one word that stays the same: `eviction`, `persistence`, …
    pub about: &'static str,
    /// The server, file or store that it was found at, without any password.
    pub at: Arc<str>,
    /// What was found.
    pub what: String,
    /// Why that matters for a lock; empty where it goes without saying.
    pub why: String,
    /// What mends it.
    pub remedy: Remedy,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is wrong: it is said to be known.
    Note,
    /// It could not be looked at, so nobody can say.
    Unseen,
    /// Locks work, and a failure that is named would break what they promise.
    Warning,
    /// A lock may be given twice or not at all, without any failure.
    Unsafe,
}

/// What mends a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// There is nothing to mend.
    Nothing,
    /// Something to do that is no single command.
    Advice(String),
    /// A command for the server, as it is typed at `redis-cli` by whoever may.
    AtServer(String),
    /// A command for a shell on this machine.
    InShell(String),
}

/// Which part the store that is diagnosed has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreRole {
    /// It decides alone.
    Alone,
    /// It is a member of a quorum.
    Member {
        /// The longest ttl of the quorum, for which a store that may have forgotten leases abstains.
        max_ttl: Ttl,
    },
}

/// What a diagnosis brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// In the order in which it was looked at.
    pub findings: Vec<Finding>,
    /// The clocks that were read.
    pub clocks: Vec<ClockSeen>,
}

/// How a store's clock stands to this machine's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "stores outside this crate make it, and it is all there is to say"
)]
pub struct ClockSeen {
    /// Whose clock, without any password.
    pub at: Arc<str>,
    /// How many µs it is ahead; less than zero: it is behind.
    pub ahead: i64,
    /// How far off that may be.
    pub doubt: Duration,
}

impl Finding {
    /// Something that was found; nothing mends it yet.
    pub fn new(
        severity: Severity,
        about: &'static str,
        at: &Arc<str>,
        what: impl fmt::Display,
        why: impl fmt::Display,
    ) -> Self {
        let (what, why) = (what.to_string(), why.to_string());
        Self { severity, about, at: Arc::clone(at), what, why, remedy: Remedy::Nothing }
    }

    /// Something that is as it should be, or that only is to be known.
    pub fn note(about: &'static str, at: &Arc<str>, what: impl fmt::Display) -> Self {
        Self::new(Severity::Note, about, at, what, "")
    }

    /// Mended by doing this.
    #[must_use]
    pub fn advice(mut self, advice: impl fmt::Display) -> Self {
        self.remedy = Remedy::Advice(advice.to_string());
        self
    }

    /// Mended by this command to the server.
    #[must_use]
    pub fn at_server(mut self, command: impl fmt::Display) -> Self {
        self.remedy = Remedy::AtServer(command.to_string());
        self
    }

    /// Mended by this command to a shell.
    #[must_use]
    pub fn in_shell(mut self, command: impl fmt::Display) -> Self {
        self.remedy = Remedy::InShell(command.to_string());
        self
    }
}

impl ClockSeen {
    /// The clock, and how far apart the two that are furthest apart stand for certain. `None` for fewer than two.
    #[must_use]
    pub fn furthest_apart(clocks: &[Self]) -> Option<(&Self, &Self, Duration)> {
        let ahead = clocks.iter().max_by_key(|clock| clock.ahead)?;
        let behind = clocks.iter().min_by_key(|clock| clock.ahead)?;
        if clocks.len() < 2 {
            return None;
        }
        let apart = Duration::from_micros(ahead.ahead.abs_diff(behind.ahead));
        Some((ahead, behind, apart.saturating_sub(ahead.doubt + behind.doubt)))
    }
}

/// `note`, `unseen`, `warning` or `unsafe`.
impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Unseen => "unseen",
            Self::Warning => "warning",
            Self::Unsafe => "unsafe",
        })
    }
}

/// On one line, without the reason and the remedy.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}: {}", self.at, self.severity, self.about, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(at: &str, ahead: i64, doubt: u64) -> ClockSeen {
        ClockSeen { at: at.into(), ahead, doubt: Duration::from_micros(doubt) }
    }

    #[test]
    fn clocks_are_apart_by_what_no_doubt_explains() {
        let clocks = [clock("a", 500, 20), clock("b", -1500, 30), clock("c", 0, 0)];
        let (ahead, behind, apart) = ClockSeen::furthest_apart(&clocks).unwrap();
        assert_eq!((&*ahead.at, &*behind.at, apart), ("a", "b", Duration::from_micros(1950)));
        let close = [clock("a", 10, 20), clock("b", 0, 0)];
        assert_eq!(ClockSeen::furthest_apart(&close).unwrap().2, Duration::ZERO);
        assert_eq!(ClockSeen::furthest_apart(&close[..1]), None);
    }

    #[test]
    fn what_is_worse_is_greater() {
        assert!(Severity::Note < Severity::Unseen && Severity::Unseen < Severity::Warning);
        assert!(Severity::Warning < Severity::Unsafe);
    }
}
