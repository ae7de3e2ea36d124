//! The votes of a quorum's members, as the facts of an error.

use std::fmt;
use std::sync::Arc;

use crate::{Fault, FaultKind, HolderInfo};

/// The vote of each member of a quorum, in configured order, and how many had to agree.
///
/// ```
/// # use leasehold_core::{MemberVote, QuorumReport};
/// fn silent(votes: &QuorumReport) -> Vec<&str> {
///     let silent = votes.members.iter().filter(|(_, vote)| matches!(vote, MemberVote::Silent(_)));
///     silent.map(|(name, _)| &**name).collect()
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct QuorumReport {
    /// The members' names and votes.
    pub members: Vec<(Arc<str>, MemberVote)>,
    /// How many had to agree.
    pub needed: usize,
    /// The verb for members that agree, as in "2 of 5 stores granted".
    pub verb: &'static str,
}

/// The vote of one member of a quorum.
///
/// ```
/// use leasehold_core::{MemberVote, QuorumReport};
///
/// /// The members that could not be reached, with the reasons.
/// fn unreachable(report: &QuorumReport) -> impl Iterator<Item = String> + '_ {
///     report.members.iter().filter_map(|(member, vote)| match vote {
///         MemberVote::Silent(fault) => Some(format!("{member}: {}", fault.reason)),
///         _ => None,
///     })
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MemberVote {
    /// It agreed.
    Agreed,
    /// Somebody else holds the key there.
    Held(HolderInfo),
    /// The attempt does not hold the key there, and nobody else does either.
    Gone,
    /// It was reached and refuses: it is quarantined, or needs a repair.
    Refused(Fault),
    /// It did not answer, for this reason.
    Silent(Fault),
    /// It had not answered when the result was decided.
    Undecided,
}

impl MemberVote {
    /// The vote that a fault amounts to.
    #[must_use]
    pub fn of(fault: Fault) -> Self {
        if fault.kind == FaultKind::Passing { Self::Silent(fault) } else { Self::Refused(fault) }
    }

    /// True if it refuses permanently.
    pub(crate) fn is_lasting(&self) -> bool {
        matches!(self, Self::Refused(fault) if fault.is_lasting())
    }

    const fn is_refusal(&self) -> bool {
        matches!(self, Self::Held(_) | Self::Gone | Self::Refused(_))
    }
}

impl QuorumReport {
    /// The votes on a call of which `needed` members had to agree.
    #[must_use]
    pub const fn new(members: Vec<(Arc<str>, MemberVote)>, needed: usize, verb: &'static str) -> Self {
        Self { members, needed, verb }
    }

    /// The number of members that agreed.
    #[must_use]
    pub fn agreed(&self) -> usize {
        self.members.iter().filter(|(_, vote)| *vote == MemberVote::Agreed).count()
    }

    /// The faults of the members, in configured order.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.members.iter().filter_map(|(_, vote)| match vote {
            MemberVote::Refused(fault) | MemberVote::Silent(fault) => Some(fault),
            _ => None,
        })
    }

    fn list(
        &self,
        f: &mut fmt::Formatter<'_>,
        what: &str,
        which: impl Fn(&MemberVote) -> bool,
    ) -> fmt::Result {
        let mut some = self.members.iter().filter(|(_, vote)| which(vote)).peekable();
        if some.peek().is_none() {
            return Ok(());
        }
        write!(f, ", {} {what} (", some.clone().count())?;
        for (n, (name, vote)) in some.enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{name}: {vote}")?;
        }
        write!(f, ")")
    }
}

impl std::error::Error for QuorumReport {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.faults().next().map(|fault| fault as _)
    }
}

impl fmt::Display for QuorumReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} stores {}", self.agreed(), self.members.len(), self.verb)?;
        self.list(f, "refused", MemberVote::is_refusal)?;
        self.list(f, "did not answer", |vote| matches!(vote, MemberVote::Silent(_)))?;
        let open = self.members.iter().filter(|(_, vote)| *vote == MemberVote::Undecided);
        let open: Vec<&str> = open.map(|(name, _)| &**name).collect();
        if !open.is_empty() {
            write!(f, ", {} had not answered yet ({})", open.len(), open.join(", "))?;
        }
        write!(f, "; {} needed", self.needed)
    }
}

impl fmt::Display for MemberVote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Agreed => write!(f, "agreed"),
            Self::Held(held_by) => write!(f, "held by {held_by}"),
            Self::Gone => write!(f, "not held there any more"),
            Self::Refused(fault) | Self::Silent(fault) => f.write_str(&fault.reason),
            Self::Undecided => write!(f, "had not answered yet"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Holder, Key, Label, Owner};

    #[test]
    fn a_report_names_each_member_that_did_not_agree_with_its_reason() {
        let key = Key::new("k").unwrap();
        let label = Some(Label::new("web-3").unwrap());
        let owner = Owner::Holder { holder: Holder::from_bits(7 << 96), label };
        let held = HolderInfo::exclusive(key, owner, None, Some(Duration::from_secs(4)));
        let silent = |name, why| MemberVote::of(Fault::passing(name, why));
        let members = [
            ("redis-a", MemberVote::Agreed),
            ("redis-b", MemberVote::of(Fault::quarantined("redis-b", Duration::from_millis(42_100)))),
            ("redis-c", MemberVote::Held(held)),
            ("redis-d", silent("redis-d", "timed out")),
            ("redis-e", silent("redis-e", "connection refused")),
        ];
        let members = members.map(|(name, vote)| (name.into(), vote)).into();
        assert_eq!(
            QuorumReport::new(members, 3, "granted").to_string(),
            "1 of 5 stores granted, 2 refused (redis-b: quarantined for 43 s more (first use, or restarted without its state), \
             redis-c: held by web-3 (00000007) for 4.0 s more unless renewed), 2 did not answer (redis-d: timed out, \
             redis-e: connection refused); 3 needed"
        );
    }

    /// Regression: three of five members were stopped and the other two held. The error named the
    /// two and the first of the three that was found to be silent, because that decided the result;
    /// it only counted the last two. So its reader could not tell which members to check.
    #[test]
    fn members_without_an_answer_at_the_decision_are_named_too() {
        let open = ["b", "c"].map(|name| (name.into(), MemberVote::Undecided));
        let members = [("a".into(), MemberVote::Agreed)].into_iter().chain(open).collect();
        assert_eq!(
            QuorumReport::new(members, 2, "renewed").to_string(),
            "1 of 3 stores renewed, 2 had not answered yet (b, c); 2 needed"
        );
    }
}
