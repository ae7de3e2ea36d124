//! Findings of a diagnosis: what users of a store should know.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Ttl;

/// A fact about a store that its users should know, and its remedy.
///
/// ```
/// use leasehold_core::{Finding, Remedy, Severity};
///
/// /// A line for each finding that is worth an alarm.
/// fn alarms(findings: &[Finding]) -> Vec<String> {
///     let alarming = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
///     let line = |finding: &Finding| match &finding.remedy {
///         Remedy::AtServer(command) => format!("{}: {}; run {command}", finding.at, finding.what),
///         _ => format!("{}: {}", finding.at, finding.what),
///     };
///     alarming.map(line).collect()
/// }
/// # let memory = Finding::note("memory", &"redis://127.0.0.1".into(), "it has 1 GiB");
/// # assert!(alarms(&[memory]).is_empty());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// How serious it is.
    pub severity: Severity,
    /// The subject, in one word that stays the same: `eviction`, `persistence`, …
    pub about: &'static str,
    /// The server, file or store with the finding, without any password.
    pub at: Arc<str>,
    /// The fact.
    pub what: String,
    /// Why it matters for a lock; empty if that is obvious.
    pub why: String,
    /// How to repair it.
    pub remedy: Remedy,
}

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// Nothing is wrong; this is information.
    Note,
    /// It could not be checked, so it is unknown.
    Unknown,
    /// Locks work, but a named failure would break their guarantees.
    Warning,
    /// A lock may be granted twice or not at all, even without a failure.
    Unsafe,
}

/// How to repair a finding.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// There is nothing to repair.
    Nothing,
    /// Instructions that are more than one command.
    Advice(String),
    /// A command for the server, to be typed at `redis-cli` by somebody with the permission.
    AtServer(String),
    /// SQL for the database, to be typed at `psql` by somebody with the permission.
    InDatabase(String),
    /// A command for a shell on this machine.
    InShell(String),
}

/// The role of the diagnosed store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreRole {
    /// It is used alone.
    Alone,
    /// It is a member of a quorum.
    Member {
        /// The longest TTL of the quorum, for which a store that may have forgotten leases
        /// abstains.
        max_ttl: Ttl,
    },
}

/// The result of a diagnosis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// In the order of the checks.
    pub findings: Vec<Finding>,
    /// The clocks that were read.
    pub clocks: Vec<ClockSeen>,
}

/// The difference between a store's clock and this machine's.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_structs,
    reason = "stores outside this crate make it, and it is all there is to say"
)]
pub struct ClockSeen {
    /// The store, without any password.
    pub at: Arc<str>,
    /// How many µs its clock is ahead; negative if it is behind.
    pub ahead: i64,
    /// The possible error of that number.
    pub doubt: Duration,
}

impl Finding {
    /// A finding without a remedy so far.
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

    /// A finding that something is correct, or mere information.
    pub fn note(about: &'static str, at: &Arc<str>, what: impl fmt::Display) -> Self {
        Self::new(Severity::Note, about, at, what, "")
    }

    /// The same finding with this advice as its remedy.
    #[must_use]
    pub fn advice(mut self, advice: impl fmt::Display) -> Self {
        self.remedy = Remedy::Advice(advice.to_string());
        self
    }

    /// The same finding with this server command as its remedy.
    #[must_use]
    pub fn at_server(mut self, command: impl fmt::Display) -> Self {
        self.remedy = Remedy::AtServer(command.to_string());
        self
    }

    /// The same finding with this SQL as its remedy.
    #[must_use]
    pub fn in_database(mut self, sql: impl fmt::Display) -> Self {
        self.remedy = Remedy::InDatabase(sql.to_string());
        self
    }

    /// The same finding with this shell command as its remedy.
    #[must_use]
    pub fn in_shell(mut self, command: impl fmt::Display) -> Self {
        self.remedy = Remedy::InShell(command.to_string());
        self
    }
}

impl ClockSeen {
    /// The two clocks that differ most, and their smallest certain difference. `None` for fewer
    /// than two clocks.
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

/// `note`, `unknown`, `warning` or `unsafe`.
impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Note => "note",
            Self::Unknown => "unknown",
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
    fn clocks_differ_only_beyond_the_uncertainty_of_the_measurement() {
        let clocks = [clock("a", 500, 20), clock("b", -1500, 30), clock("c", 0, 0)];
        let (ahead, behind, apart) = ClockSeen::furthest_apart(&clocks).unwrap();
        assert_eq!((&*ahead.at, &*behind.at, apart), ("a", "b", Duration::from_micros(1950)));
        let close = [clock("a", 10, 20), clock("b", 0, 0)];
        assert_eq!(ClockSeen::furthest_apart(&close).unwrap().2, Duration::ZERO);
        assert_eq!(ClockSeen::furthest_apart(&close[..1]), None);
    }

    #[test]
    fn a_worse_severity_is_greater() {
        assert!(Severity::Note < Severity::Unknown && Severity::Unknown < Severity::Warning);
        assert!(Severity::Warning < Severity::Unsafe);
    }
}
