//! Diagnosis of a quorum: the findings of each member, and problems that only show when members are
//! compared.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{
    Ballot, Baseline, BaselineStore, ClockSeen, Diagnosis, Fence, Finding, HoldAnswer, Records, Severity,
    StoreFuture, StoreRole, Vote,
};

use super::QuorumStore;
use super::state::QuorumState;

/// The time limit for diagnosing one member: many small requests, each with a time limit.
const LIMIT: Duration = Duration::from_secs(30);

/// Clocks that are disciplined by NTP differ by less than this.
const APART: Duration = Duration::from_secs(1);

/// The subject of the finding about a member that cannot be reached.
const REACH: &str = "reach";

/// The subject of the finding that says whether a member abstains.
const QUARANTINE: &str = "quarantine";

/// Examines all members at once, so that one that hangs does not delay the others.
pub(super) async fn diagnose(quorum: &Arc<QuorumState>) -> Diagnosis {
    let role = StoreRole::Member { max_ttl: quorum.settings.max_ttl };
    let mut heard = quorum.in_tasks(|_, member| {
        let store = member.store.clone();
        async move { store.diagnose(role).await }
    });
    let end = quorum.runtime.now() + LIMIT;
    let mut brought: Vec<Option<Diagnosis>> = quorum.members.iter().map(|_| None).collect();
    loop {
        tokio::select! {
            biased;
            said = heard.recv() => match said {
                Some((nth, diagnosis)) => brought[nth] = Some(diagnosis),
                None => break,
            },
            () = quorum.runtime.sleep_until(end) => break,
        }
    }
    together(quorum, brought)
}

fn together(quorum: &QuorumState, brought: Vec<Option<Diagnosis>>) -> Diagnosis {
    let mut all = Diagnosis::default();
    let mut out_of_reach = 0;
    for (member, diagnosis) in quorum.members.iter().zip(brought) {
        let diagnosis = diagnosis.unwrap_or_else(|| silent(&member.name));
        let has = |about| diagnosis.findings.iter().any(|finding| finding.about == about);
        out_of_reach += usize::from(has(REACH));
        let is_unseen = !has(REACH) && !has(QUARANTINE);
        all.findings.extend(diagnosis.findings);
        if is_unseen {
            let whole = quorum.settings.max_ttl.duration() + Records::AFTER_MAX_TTL;
            let note = format!(
                "not looked at: it abstains for {whole:?} after its first use, and when it may have forgotten leases"
            );
            all.findings.push(Finding::note(QUARANTINE, &member.name, note));
        }
        all.clocks.extend(diagnosis.clocks);
    }
    let (count, at) = (quorum.members.len(), Arc::from(&*quorum.settings.name));
    let answer = count - out_of_reach;
    if answer >= quorum.majority() {
        // The members that answer form a majority, so the quorum works without the others.
        let reach = all.findings.iter_mut().filter(|finding| finding.about == REACH);
        reach.for_each(|finding| finding.severity = Severity::Warning);
        let may_fail = answer - quorum.majority();
        let note = format!("{answer} of {count} members answer: {may_fail} more may fail");
        all.findings.push(Finding::note("majority", &at, note));
    } else {
        let what = format!("{answer} of {count} members answer, and {} are needed", quorum.majority());
        let finding =
            Finding::new(Severity::Unsafe, "majority", &at, what, "no lock can be taken or renewed");
        all.findings.push(finding.advice("bring back those that are named as out of reach"));
    }
    if let Some(what) = quorum.one_for_nothing() {
        let finding = Finding::new(Severity::Warning, "members", &at, what, "one more to fail, for nothing");
        all.findings.push(finding.advice("use an odd number"));
    }
    if let Some(twice) = quorum.same_place_twice() {
        let finding = Finding::new(
            Severity::Unsafe,
            "members",
            &at,
            &twice.reason,
            "it has two votes, and a majority need be none",
        );
        all.findings.push(finding.advice("name each server once, by one name"));
    }
    let max_ttl = quorum.settings.max_ttl.duration();
    let note =
        format!("{max_ttl:?}: it must be the same for all who use these stores, and no lease is longer");
    all.findings.push(Finding::note("max-ttl", &at, note));
    all.findings.extend(clocks(&at, max_ttl, &all.clocks));
    all
}

fn silent(name: &Arc<str>) -> Diagnosis {
    let mut silent = Diagnosis::default();
    let what = format!("not diagnosed within {LIMIT:?}");
    silent.findings.push(
        Finding::new(Severity::Unsafe, REACH, name, what, "as long as it does not answer, it has no vote")
            .advice("see that it runs and can be reached from here"),
    );
    silent
}

fn clocks(at: &Arc<str>, max_ttl: Duration, clocks: &[ClockSeen]) -> Option<Finding> {
    let (ahead, behind, apart) = ClockSeen::furthest_apart(clocks)?;
    let apart_shown = format!("{:.3} s", apart.as_secs_f64());
    if apart < APART {
        let what = format!("the members' clocks are at most {apart_shown} apart, for all that can be seen");
        return Some(Finding::note("clocks", at, what));
    }
    let what = format!("the clock of {} is {apart_shown} ahead of that of {}", ahead.at, behind.at);
    // How long a member abstains, less what its fences may be ahead and a proposal behind: the limit
    // that the documentation of `QuorumStore` states.
    let bound = (max_ttl + Records::AFTER_MAX_TTL).saturating_sub(2 * Fence::MARGIN);
    let severity = if apart > bound { Severity::Unsafe } else { Severity::Warning };
    let why = format!(
        "beyond {bound:?} apart, members that lose their state may repeat a fence; and one that is wrong may go on drifting"
    );
    let finding = Finding::new(severity, "clocks", at, what, why);
    Some(finding.advice("have NTP keep the clocks of all members: timedatectl set-ntp true on each"))
}

impl BaselineStore for QuorumStore {
    /// Calls all members at once. It does not report members as down: a name that a slow member
    /// still has from the last time is not an outage.
    fn run_baseline<'a>(&'a self, what: &'a Baseline) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut heard = self.quorum.in_tasks(|_, member| {
                let (store, what) = (member.store.clone(), what.clone());
                async move { store.baseline()?.run_baseline(&what).await }
            });
            let mut ballot = Ballot::new(self.quorum.members.len());
            while let Some((nth, done)) = heard.recv().await {
                ballot.handle(nth, done.map(|()| HoldAnswer::Done));
                if ballot.vote() == Vote::Done {
                    break;
                }
            }
            self.quorum.verdict(&ballot, "answered").map(drop)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differing_clocks_are_named_and_a_greater_difference_is_worse() {
        let clock = |at: &str, ahead| ClockSeen { at: at.into(), ahead, doubt: Duration::ZERO };
        let judged = |ahead| {
            let seen = [clock("a", ahead), clock("b", 0), clock("c", 100)];
            clocks(&"q".into(), Duration::from_secs(60), &seen).unwrap()
        };
        assert_eq!(judged(500).severity, Severity::Note);
        let warning = judged(2_000_000);
        assert!(
            warning.severity == Severity::Warning && warning.what.contains("clock of a is 2.000 s ahead"),
            "{warning}"
        );
        // Regression: it was unsafe from 55 s on, and with the smallest longest ttl from a second on,
        // "beyond 0ns apart".
        assert_eq!(judged(57_000_000).severity, Severity::Warning);
        assert_eq!(judged(57_000_001).severity, Severity::Unsafe);
        assert!(clocks(&"q".into(), Duration::from_secs(60), &[clock("a", 9)]).is_none());
    }
}
