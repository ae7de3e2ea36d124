//! Checks whether the sentinels would replace a failed master, and soon enough for a lock.

use std::collections::BTreeSet;
use std::sync::Arc;

use leasehold_core::{Finding, Severity, Ttl};

use crate::client::{Client, Source};
use crate::topology::sentinel::state::{SentinelReport, State};

const ABOUT: &str = "sentinels";

impl Client {
    /// The master is checked elsewhere; there may also be none to check.
    pub(super) async fn sentinels(&self, at: &Arc<str>) -> Vec<Finding> {
        let Source::Ours(link) = &self.source else { return Vec::new() };
        let Some(sentinels) = link.topology.sentinels() else { return Vec::new() };
        judge(at, sentinels.master(), &sentinels.reports().await)
    }
}

fn judge(at: &Arc<str>, master: &str, reports: &[SentinelReport]) -> Vec<Finding> {
    let mut findings: Vec<_> = reports.iter().filter_map(silent).collect();
    findings.extend(reports.iter().filter_map(unheard));
    let known: Vec<_> =
        reports.iter().filter_map(|report| Some((report, report.says.as_ref().ok()?))).collect();
    findings.extend(known.iter().filter_map(|(report, state)| slow(report, state, master)));
    let warning =
        |what: String, why, advice| Finding::new(Severity::Warning, ABOUT, at, what, why).advice(advice);
    let named: BTreeSet<_> = known.iter().map(|(_, state)| &*state.master).collect();
    if named.len() > 1 {
        let named: Vec<_> = named.into_iter().collect();
        let what = format!("they take different servers for the master: {}", named.join(", "));
        let why = "a failover is under way, or one of them missed one: clients that reach no majority of them may use the wrong server";
        let advice = "look again in a minute; if it stays so, restart the one that stands alone";
        findings.push(warning(what, why, advice));
    }
    let Some(total) = known.iter().map(|(_, state)| state.others + 1).max() else { return findings };
    let agree = known.iter().map(|(_, state)| state.quorum).max().unwrap_or_default();
    // The sentinels that must agree that it is down, and a majority of all, which elects one.
    let needed = agree.max(total / 2 + 1);
    if needed >= total {
        let what =
            format!("a failover takes {needed} of {total} sentinels, so there is none while one is down");
        let why = "if the master fails too, no lock is granted until somebody repairs it";
        let advice = "run three sentinels or five, on machines of their own, with a quorum of more than half";
        findings.push(warning(what, why, advice));
    }
    if let Some((host, count)) = on_one_host(reports).filter(|(_, count)| count + needed > total && total > 1)
    {
        let what = format!("{count} of {total} sentinels are at {host}, and a failover takes {needed}");
        let why = "when that machine fails, nobody replaces a master, and the master may be there too";
        findings.push(warning(what, why, "run each sentinel on a machine of its own"));
    }
    if reports.len() == 1 && total > 1 {
        let what = format!("the URL names one of {total} sentinels");
        let why = "while that one is down, nobody here finds the master";
        findings.push(warning(what, why, "name all of them in the URL"));
    }
    if findings.is_empty() {
        let note = format!("{total} watch over {master}, and {needed} of them replace it");
        findings.push(Finding::note(ABOUT, at, note));
    }
    findings
}

fn silent(report: &SentinelReport) -> Option<Finding> {
    let fault = report.says.as_ref().err()?;
    if fault.reason.contains("may not ask it") {
        let what = "its user may not ask it how it watches over the master (SENTINEL MASTER)";
        let finding = Finding::new(Severity::Unknown, ABOUT, &report.at, what, "locks work all the same");
        return Some(finding.advice("allow that user +sentinel|master, at each sentinel"));
    }
    let why = "fewer are left to find a master, and to replace it when it fails";
    let finding = Finding::new(Severity::Warning, ABOUT, &report.at, &fault.reason, why);
    Some(if fault.is_lasting() {
        finding
    } else {
        finding.advice("see that the sentinel runs and can be reached from here")
    })
}

/// One that answers, and refuses to report failovers.
fn unheard(report: &SentinelReport) -> Option<Finding> {
    let fault = report.unheard.as_ref().filter(|fault| fault.reason.contains("may not ask it"))?;
    let why = "it is only asked from time to time which server is the master: a failover is noticed some seconds later";
    Some(Finding::new(Severity::Warning, ABOUT, &report.at, &fault.reason, why))
}

/// Redis's own default is 30 s, which is as long as a default lease.
fn slow(report: &SentinelReport, state: &State, master: &str) -> Option<Finding> {
    let ttl = Ttl::DEFAULT.duration();
    if state.down_after < ttl {
        return None;
    }
    let what = format!("it misses a silent master after {:?} (down-after-milliseconds)", state.down_after);
    let why = format!("locks with the usual ttl of {ttl:?} are lost before another master renews them");
    let finding = Finding::new(Severity::Warning, ABOUT, &report.at, what, why);
    Some(finding.at_server(format_args!("SENTINEL SET {master} down-after-milliseconds 5000")))
}

/// The host with the most sentinels of the URL, and their number.
fn on_one_host(reports: &[SentinelReport]) -> Option<(&str, u64)> {
    let count = |host: &str| reports.iter().filter(|report| report.host == host).count() as u64;
    let hosts = reports.iter().map(|report| (&*report.host, count(&report.host)));
    hosts.max_by_key(|(_, count)| *count).filter(|(_, count)| *count > 1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_core::Fault;

    use super::*;

    fn report(host: &str, says: Result<State, Fault>) -> SentinelReport {
        SentinelReport { at: format!("{host}:26379").into(), host: host.into(), says, unheard: None }
    }

    fn state(others: u64, quorum: u64) -> State {
        State { master: "10.0.0.1:6379".into(), others, quorum, down_after: Duration::from_secs(5) }
    }

    fn judged(reports: &[SentinelReport]) -> Vec<Finding> {
        judge(&"redis+sentinel://a,b/locks".into(), "locks", reports)
    }

    #[track_caller]
    fn is_one(reports: &[SentinelReport], severity: Severity, words: &str) -> Finding {
        let findings = judged(reports);
        let [finding] = &findings[..] else { panic!("{findings:#?}") };
        assert!(finding.severity == severity && finding.what.contains(words), "{finding:#?}");
        finding.clone()
    }

    #[test]
    fn three_on_machines_of_their_own_are_as_they_should_be() {
        let three = ["a", "b", "c"].map(|host| report(host, Ok(state(2, 2))));
        is_one(&three, Severity::Note, "3 watch over locks, and 2 of them replace it");
        is_one(&three[..2], Severity::Note, "3 watch");
    }

    #[test]
    fn too_few_to_lose_one_are_named() {
        let two = ["a", "b"].map(|host| report(host, Ok(state(1, 1))));
        is_one(&two, Severity::Warning, "takes 2 of 2 sentinels");
        let strict = ["a", "b", "c"].map(|host| report(host, Ok(state(2, 3))));
        is_one(&strict, Severity::Warning, "takes 3 of 3 sentinels");
        is_one(&[report("a", Ok(state(2, 2)))], Severity::Warning, "names one of 3");
    }

    #[test]
    fn a_machine_without_which_there_is_no_failover_is_named() {
        let together = ["a", "a", "c"].map(|host| report(host, Ok(state(2, 2))));
        is_one(&together, Severity::Warning, "2 of 3 sentinels are at a");
        let five = ["a", "a", "c", "d", "e"].map(|host| report(host, Ok(state(4, 3))));
        is_one(&five, Severity::Note, "5 watch");
    }

    #[test]
    fn one_that_is_slow_silent_or_of_another_mind_is_named() {
        let mut three = ["a", "b", "c"].map(|host| report(host, Ok(state(2, 2))));
        three[1].says = Ok(State { down_after: Duration::from_secs(30), ..state(2, 2) });
        let slow = is_one(&three, Severity::Warning, "after 30s (down-after-milliseconds)");
        assert_eq!(&*slow.at, "b:26379");
        three[1].says = Ok(State { master: "10.0.0.2:6379".into(), ..state(2, 2) });
        is_one(&three, Severity::Warning, "10.0.0.1:6379, 10.0.0.2:6379");
        three[1].says = Err(Fault::passing("s", "no answer within 1s"));
        is_one(&three, Severity::Warning, "no answer within 1s");
        three[1].says = Err(Fault::lasting("s", "user looker may not ask it: allow it more"));
        is_one(&three, Severity::Unknown, "SENTINEL MASTER");
    }
}
