//! What the members of a quorum said: the facts of an error.

use std::fmt;
use std::sync::Arc;

use crate::{Fault, FaultKind, Tenancy};

/// What each member of a quorum said to a call, in their configured order, and how many had to agree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Tally {
    /// The members by name, each with what it said.
    pub members: Vec<(Arc<str>, Stance)>,
    /// How many had to agree.
    pub needed: usize,
    /// What those do that agree, as in "2 of 5 stores granted".
    pub verb: &'static str,
}

/// What one member of a quorum said.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stance {
    /// It agreed.
    Agreed,
    /// Somebody else holds the key there.
    Held(Tenancy),
    /// The attempt does not hold the key there, nor does anybody else.
    Gone,
    /// It was reached and refuses: it is quarantined, or somebody must mend it.
    Refused(Fault),
    /// It gave no answer, for this reason.
    Silent(Fault),
    /// It had not answered when the matter was decided.
    Undecided,
}

impl Stance {
    /// What a fault comes to.
    #[must_use]
    pub fn of(fault: Fault) -> Self {
        if fault.kind == FaultKind::Passing { Self::Silent(fault) } else { Self::Refused(fault) }
    }

    const fn is_refusal(&self) -> bool {
        matches!(self, Self::Held(_) | Self::Gone | Self::Refused(_))
    }
}

impl Tally {
    /// How the members stand to a call of which `needed` had to agree.
    #[must_use]
    pub const fn new(members: Vec<(Arc<str>, Stance)>, needed: usize, verb: &'static str) -> Self {
        Self { members, needed, verb }
    }

    /// The faults of its members, in their configured order.
    pub fn faults(&self) -> impl Iterator<Item = &Fault> {
        self.members.iter().filter_map(|(_, stance)| match stance {
            Stance::Refused(fault) | Stance::Silent(fault) => Some(fault),
            _ => None,
        })
    }

    fn list(&self, f: &mut fmt::Formatter<'_>, what: &str, which: impl Fn(&Stance) -> bool) -> fmt::Result {
        let mut some = self.members.iter().filter(|(_, stance)| which(stance)).peekable();
        if some.peek().is_none() {
            return Ok(());
        }
        write!(f, ", {} {what} (", some.clone().count())?;
        for (n, (name, stance)) in some.enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            write!(f, "{comma}{name}: {stance}")?;
        }
        write!(f, ")")
    }
}

impl std::error::Error for Tally {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.faults().next().map(|fault| fault as _)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let agreed = self.members.iter().filter(|(_, stance)| *stance == Stance::Agreed).count();
        write!(f, "{agreed} of {} stores {}", self.members.len(), self.verb)?;
        self.list(f, "refused", Stance::is_refusal)?;
        self.list(f, "did not answer", |stance| matches!(stance, Stance::Silent(_)))?;
        let open = self.members.iter().filter(|(_, stance)| *stance == Stance::Undecided);
        let open: Vec<&str> = open.map(|(name, _)| &**name).collect();
        if !open.is_empty() {
            write!(f, ", {} had not answered yet ({})", open.len(), open.join(", "))?;
        }
        write!(f, "; {} needed", self.needed)
    }
}

impl fmt::Display for Stance {
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
    use crate::{Holder, Key, Label, Tenant};

    #[test]
    fn a_tally_names_each_member_that_did_not_agree_with_its_reason() {
        let key = Key::new("k").unwrap();
        let label = Some(Label::new("web-3").unwrap());
        let tenant = Tenant::Holder { holder: Holder::from_bits(7 << 96), label };
        let held = Tenancy::exclusive(key, tenant, None, Some(Duration::from_secs(4)));
        let silent = |name, why| Stance::of(Fault::passing(name, why));
        let members = [
            ("redis-a", Stance::Agreed),
            ("redis-b", Stance::of(Fault::quarantined("redis-b", Duration::from_millis(42_100)))),
            ("redis-c", Stance::Held(held)),
            ("redis-d", silent("redis-d", "timed out")),
            ("redis-e", silent("redis-e", "connection refused")),
        ];
        let members = members.map(|(name, stance)| (name.into(), stance)).into();
        assert_eq!(
            Tally::new(members, 3, "granted").to_string(),
            "1 of 5 stores granted, 2 refused (redis-b: quarantined for 43 s more (first use, or restarted without its state), \
             redis-c: held by web-3 (00000007) for 4.0 s more unless renewed), 2 did not answer (redis-d: timed out, \
             redis-e: connection refused); 3 needed"
        );
    }

    /// With three of five members stopped and the other two held, the error named the two and the first of the three that was
    /// found to be silent: that decides it, and the last two were only counted. Whoever read it could not tell which to look at.
    #[test]
    fn who_had_not_answered_when_it_was_decided_is_named_too() {
        let open = ["b", "c"].map(|name| (name.into(), Stance::Undecided));
        let members = [("a".into(), Stance::Agreed)].into_iter().chain(open).collect();
        assert_eq!(
            Tally::new(members, 2, "renewed").to_string(),
            "1 of 3 stores renewed, 2 had not answered yet (b, c); 2 needed"
        );
    }
}
