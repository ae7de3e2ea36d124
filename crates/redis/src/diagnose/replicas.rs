//! Judges the replicas of a server, and compares its clock and theirs with ours.

use std::sync::Arc;

use leasehold_core::{Fault, Finding, RoundTrips, Severity, StoreRole};
use redis::cmd;

use super::diagnosis_run::{DiagnosisRun, Setting};
use super::facts::{Facts, Replica};
use crate::client::Source;
use crate::reply::time_of;

const ABOUT: &str = "replicas";

/// Replicas report their progress each second; one that is late by this much has another problem.
const LATE: u64 = 3;

/// The number of bytes that a healthy replica may lag behind.
const MUCH: u64 = 1 << 20;

pub(super) fn judge(setting: &Setting, facts: &Facts) -> Vec<Finding> {
    if facts.text("role") == Some("slave") {
        let master = facts.text("master_host").zip(facts.text("master_port"));
        let what = match master {
            Some((host, port)) => format!("the server is a replica of {host}:{port}, and takes no writes"),
            None => "the server is a replica, and takes no writes".into(),
        };
        let advice = "name its master, or sentinels that know it: redis+sentinel://HOST,HOST/MASTER";
        let why = "no lock can be taken here";
        return vec![setting.finding(Severity::Unsafe, ABOUT, what, why).advice(advice)];
    }
    let replicas = facts.replicas();
    let online = replicas.iter().filter(|replica| replica.is_online).count();
    // A replica that hangs stays online until `repl-timeout` has passed, and confirms nothing.
    let in_touch = replicas.iter().filter(|replica| replica.is_online && replica.lag < LATE).count();
    let asked = setting.confirmation.map_or(0, |confirmation| confirmation.replicas);
    let mut findings = Vec::new();
    if usize::try_from(asked).unwrap_or(usize::MAX) > in_touch {
        let what = format!("{in_touch} replicas are in touch, and the URL says replicas={asked}");
        let why = "a lease counts only when so many have it, so no lock is granted";
        let advice = "start more replicas, or ask for fewer in the URL";
        findings.push(setting.finding(Severity::Unsafe, ABOUT, what, why).advice(advice));
    }
    let least = facts.number("min-replicas-to-write").unwrap_or(0);
    // As the server counts them: without those that it last heard of before `min-replicas-max-lag`.
    let good = facts.number("min_slaves_good_slaves").unwrap_or(online as u64);
    if least > good {
        let what =
            format!("{good} replicas are in touch, and the server wants {least} (min-replicas-to-write)");
        let why = "until they are, it refuses every write, and so every lock";
        let mend = format!("CONFIG SET min-replicas-to-write {good}");
        findings.push(setting.finding(Severity::Unsafe, ABOUT, what, why).at_server(mend));
    }
    if replicas.is_empty() {
        findings.push(setting.note(ABOUT, "none: what this server forgets, nobody else knows"));
        return findings;
    }
    findings.extend(replicas.iter().filter_map(|replica| late(setting, replica)));
    if asked == 0 && setting.role == StoreRole::Alone {
        let what =
            format!("{} replicas copy what was granted some time later (asynchronously)", replicas.len());
        let why = "a failover loses the last grants: the new master grants those locks again";
        let advice = "let a lease count only when a replica has it: ?replicas=1 in the URL";
        findings.push(setting.finding(Severity::Warning, "replication", what, why).advice(advice));
    }
    if facts.text("min-replicas-to-write") == Some("0") && online > 0 && setting.role == StoreRole::Alone {
        let what = "min-replicas-to-write is 0: a master that is cut off from its replicas goes on granting";
        let why = "when one of them takes its place, locks are held on both sides of the cut";
        let mend = "CONFIG SET min-replicas-to-write 1";
        findings.push(setting.finding(Severity::Warning, "min-replicas", what, why).at_server(mend));
    } else if let (1.., Some(lag)) = (least, facts.text("min-replicas-max-lag")) {
        let what = format!(
            "cut off from its replicas, the server stops granting after {lag} s (min-replicas-to-write {least})"
        );
        findings.push(setting.note("min-replicas", what));
    }
    if findings.is_empty() {
        findings.push(setting.note(ABOUT, format_args!("{online} in touch")));
    }
    findings
}

fn late(setting: &Setting, replica: &Replica) -> Option<Finding> {
    let Replica { place, is_online, lag, behind } = replica;
    let what = if !is_online {
        format!("the replica {place} is not in touch yet")
    } else if *lag >= LATE || *behind >= MUCH {
        format!("the replica {place} last answered {lag} s ago, and lacks {behind} bytes")
    } else {
        return None;
    };
    let why = "should it take the master's place now, it would not know the locks that are held";
    let advice = "see its log, its load, and the network between the two";
    Some(setting.finding(Severity::Warning, "lag", what, why).advice(advice))
}

impl DiagnosisRun<'_> {
    pub(super) async fn times(&mut self) -> Result<(), Fault> {
        let (at, client) = (Arc::clone(&self.setting.at), self.client);
        let mut trips = RoundTrips::to(&at, &*client.runtime);
        for _ in 0..RoundTrips::COUNT {
            let sent = trips.asks();
            let heard = self.ask(vec![cmd("TIME")]).await?.pop();
            trips.hears(sent, heard.and_then(Result::ok).and_then(|value| time_of(&value)));
        }
        let why = "fences are counted on from the server's clock, and `every` goes by it: if it is wrong, setting it right may repeat \
                   a fence after a loss of the server's state, or shift a period";
        trips.tell(client.call_limit, why, &mut self.brought);
        Ok(())
    }

    /// A replica that takes the place of its master ends leases by its own clock. One that serves a
    /// quorum abstains then.
    pub(super) async fn times_of_replicas(&mut self, facts: &Facts) {
        let (Source::Ours(link), StoreRole::Alone) = (&self.client.source, self.setting.role) else { return };
        for replica in facts.replicas() {
            let at = format!("{} (replica at {})", self.client.faults.place(), replica.place).into();
            let mut trips = RoundTrips::to(&at, &*self.client.runtime);
            let sent = trips.asks();
            match link.topology.connector.time_at(&replica.place).await {
                Ok(time) => trips.hears(sent, Some(time)),
                Err(fault) => {
                    let what = format!("not compared: {}", fault.reason);
                    self.brought.findings.push(Finding::note("clock", &at, what));
                }
            }
            let why = "if it takes the place of its master and its clock is ahead, leases end before their holders expect it";
            self.brought.findings.extend(trips.clock(why));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use leasehold_core::Remedy;

    use super::*;
    use crate::address::parameters::Confirmation;

    const PAIR: &str = "role:master\nmaster_repl_offset:9\nslave0:ip=h,port=1,state=online,offset=9,lag=0";

    fn judged(info: &str) -> Vec<Finding> {
        judge(&Setting::of_one_server(), &Facts::of(info))
    }

    /// Regression: a replica that was stopped is still connected, so the doctor only warned that it lags,
    /// and exited with 1, while the server refused every write (NOREPLICAS), or with `replicas=1` no
    /// grant was confirmed.
    #[test]
    fn a_replica_that_hangs_is_not_in_touch() {
        let slave = "role:master\nslave0:ip=h,port=1,state=online,offset=9,lag=9";
        let refuses = |good| {
            let info = format!("{slave}\nmin-replicas-to-write:1\nmin_slaves_good_slaves:{good}");
            has(&judged(&info), ABOUT, Severity::Unsafe)
        };
        assert!(refuses(0) && !refuses(1));
        let confirmation =
            Some(Confirmation { replicas: 1, on_disk: false, limit: Duration::from_millis(250) });
        let confirms = |info: &str| {
            let setting = Setting { confirmation, ..Setting::of_one_server() };
            !has(&judge(&setting, &Facts::of(info)), ABOUT, Severity::Unsafe)
        };
        assert!(!confirms(slave) && confirms(PAIR));
    }

    fn has(findings: &[Finding], about: &str, severity: Severity) -> bool {
        findings.iter().any(|finding| finding.about == about && finding.severity == severity)
    }

    #[test]
    fn a_pair_that_does_not_wait_for_its_replica_is_a_warning() {
        let findings = judged(&format!("{PAIR}\nmin-replicas-to-write:0"));
        assert!(has(&findings, "replication", Severity::Warning));
        let cut = findings.iter().find(|finding| finding.about == "min-replicas").unwrap();
        assert_eq!(cut.remedy, Remedy::AtServer("CONFIG SET min-replicas-to-write 1".into()));
        let findings = judged(&format!("{PAIR}\nmin-replicas-to-write:1\nmin-replicas-max-lag:10"));
        assert!(has(&findings, "min-replicas", Severity::Note));
    }

    #[test]
    fn a_replica_that_lags_or_is_missing_is_named() {
        for line in ["state=online,offset=9,lag=5", "state=wait_bgsave,offset=0,lag=0"] {
            let findings = judged(&format!("role:master\nslave0:ip=h,port=1,{line}"));
            assert!(has(&findings, "lag", Severity::Warning), "{line}");
        }
        let findings = judged("role:master\nmin-replicas-to-write:1");
        assert!(has(&findings, ABOUT, Severity::Unsafe));
    }
}
