//! Checks the settings of the server, as they apply to this user.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Escaped, Finding, Severity};

use super::facts::Facts;
use crate::sql::quoted;

/// The oldest version that Leasehold's tables need, as the server writes it.
const OLDEST: i64 = 130_000;

/// The connections for notifications are checked at intervals up to this.
const IDLE: i64 = 60_000;

/// From so many seconds on, a transaction is long.
const LONG: i64 = 600;

pub(super) fn judge(at: &Arc<str>, call_limit: Duration, facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![version(at, facts), standby(at, facts)];
    findings.extend(disk(at, facts));
    findings.extend(replication(at, facts));
    findings.extend(timeouts(at, call_limit, facts));
    findings.extend(room(at, facts));
    findings.extend(oldest(at, facts));
    findings
}

fn version(at: &Arc<str>, facts: &Facts) -> Finding {
    let number = facts.number("server_version_num").unwrap_or(0);
    let what = format!("PostgreSQL {}.{}", number / 10_000, number % 10_000);
    if number >= OLDEST {
        return Finding::note("version", at, what);
    }
    Finding::new(
        Severity::Warning,
        "version",
        at,
        what,
        "Leasehold is tested on 15 and later, and its tables need 13",
    )
    .advice("upgrade the server")
}

fn standby(at: &Arc<str>, facts: &Facts) -> Finding {
    if !facts.is_standby {
        return Finding::note("standby", at, "the server takes writes");
    }
    let what = "the server is a standby and takes no writes";
    Finding::new(Severity::Unsafe, "standby", at, what, "no lock can be taken here")
        .advice("name the primary in the store URL, or all hosts: postgres://HOST,HOST/DATABASE")
}

fn disk(at: &Arc<str>, facts: &Facts) -> Vec<Finding> {
    let off = |name: &str| facts.setting(name) == "off";
    let mut findings = Vec::new();
    for (name, why) in [
        (
            "fsync",
            "a crash of the machine may lose grants that were answered, or the whole database: two may then hold a lock",
        ),
        ("full_page_writes", "a crash of the machine may leave pages half written, and leases damaged"),
    ] {
        if off(name) {
            findings.push(
                Finding::new(Severity::Warning, "disk", at, format_args!("{name} is off"), why)
                    .in_database(format_args!("ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf()")),
            );
        }
    }
    if findings.is_empty() {
        findings.push(Finding::note("disk", at, "grants are on the server's disk before they are answered"));
    }
    findings
}

fn replication(at: &Arc<str>, facts: &Facts) -> Option<Finding> {
    let is_awaited = !facts.setting("synchronous_standby_names").is_empty();
    match (is_awaited, facts.replicas.is_empty()) {
        (true, true) if !facts.is_standby => {
            let what = "synchronous_standby_names is set, and no replica is connected";
            let why = "nothing is committed before one is, so that no lock can be taken or renewed here";
            let advice = "see why the replicas are not connected, or empty synchronous_standby_names";
            let finding = Finding::new(Severity::Unsafe, "replication", at, what, why);
            return Some(finding.advice(advice));
        }
        (false, false) => {}
        _ => return None,
    }
    let what = format!("replicas: {}, none of them synchronous", facts.replicas.len());
    let why = "a failover may lose the last grants, and two then hold a lock; leasehold.check still refuses the former holder";
    // Not all names: a client that decodes changes may confirm them late, or alone.
    let names: BTreeSet<_> = facts.replicas.iter().map(|name| quoted(name).replace('\'', "''")).collect();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    Some(Finding::new(Severity::Warning, "replication", at, what, why).in_database(format_args!(
        "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 ({names})'; SELECT pg_reload_conf()"
    )))
}

fn timeouts(at: &Arc<str>, call_limit: Duration, facts: &Facts) -> Vec<Finding> {
    let call = i64::try_from(call_limit.as_millis()).unwrap_or(i64::MAX);
    let user = quoted(&facts.user);
    // A list may take ten calls.
    let rules = [
        ("statement_timeout", 10 * call, "long lists of locks fail, and so does connecting at a slow moment"),
        (
            "transaction_timeout",
            2 * call,
            "the server ends the connection at a slow moment, and renewals are tried again",
        ),
        (
            "idle_session_timeout",
            IDLE,
            "the server ends the connections again and again, and notifications are lost",
        ),
    ];
    let short = |(name, least, why): (&'static str, i64, &str)| {
        let limit = facts.number(name).filter(|limit| *limit < least)?;
        let what = format!("{name} is {limit} ms for the user {}", facts.user);
        let mend = format!("ALTER ROLE {user} SET {name} = '{least}ms'");
        Some(Finding::new(Severity::Warning, "timeouts", at, what, why).in_database(mend))
    };
    rules.into_iter().filter_map(short).collect()
}

fn oldest(at: &Arc<str>, facts: &Facts) -> Option<Finding> {
    let (what, seconds) = facts.oldest.as_ref().filter(|(_, seconds)| *seconds >= LONG)?;
    let what = format!(
        "{} has had a transaction open for {} min in this database",
        Escaped(what.as_bytes()),
        seconds / 60
    );
    let why = "the server keeps all versions of rows that change meanwhile, so locks that change hands often become slower and slower";
    let advice = "end it if it was forgotten, as idle_in_transaction_session_timeout does; keep busy locks in a database without long \
        transactions";
    Some(Finding::new(Severity::Warning, "transactions", at, what, why).advice(advice))
}

fn room(at: &Arc<str>, facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let most = facts.number("max_connections").unwrap_or(i64::MAX);
    if facts.sessions.saturating_mul(10) > most.saturating_mul(9) {
        let what = format!("{} of {most} connections (max_connections) are in use", facts.sessions);
        let why = "a process that loses its connection may get no other, and then loses its locks";
        findings.push(
            Finding::new(Severity::Warning, "connections", at, what, why)
                .advice("raise max_connections, or put a connection pooler before the other programs"),
        );
    }
    if facts.setting("autovacuum") == "off" {
        let what = "autovacuum is off";
        let why = "each renewal leaves a dead row, and requests become slower and slower";
        findings.push(
            Finding::new(Severity::Warning, "autovacuum", at, what, why)
                .in_database("ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf()"),
        );
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(settings: &[(&str, &str)], change: fn(&mut Facts)) -> Vec<&'static str> {
        let good = [("server_version_num", "150018"), ("max_connections", "100"), ("fsync", "on")];
        let settings = good.iter().chain(settings).map(|(name, value)| ((*name).into(), (*value).into()));
        let mut facts = Facts { user: "web".into(), settings: settings.collect(), ..Facts::default() };
        change(&mut facts);
        let findings = judge(&"postgres://h".into(), Duration::from_millis(500), &facts);
        findings.iter().filter(|it| it.severity != Severity::Note).map(|it| it.about).collect()
    }

    #[test]
    fn replicas_are_a_danger_only_while_none_is_waited_for() {
        let behind: fn(&mut Facts) = |facts| facts.replicas = vec!["walreceiver".into()];
        assert_eq!(warned(&[], behind), ["replication"]);
        let awaited = [("synchronous_standby_names", "ANY 1 (*)")];
        assert_eq!(warned(&awaited, behind), [""; 0]);
        // Regression: nothing was found, while each request waited for a replica in vain.
        assert_eq!(warned(&awaited, |_| {}), ["replication"]);
    }

    #[test]
    fn a_transaction_of_ten_minutes_is_a_warning() {
        assert_eq!(warned(&[], |facts| facts.oldest = Some(("process 7".into(), LONG - 1))), [""; 0]);
        assert_eq!(warned(&[], |facts| facts.oldest = Some(("process 7".into(), LONG))), ["transactions"]);
    }

    #[test]
    fn an_old_server_a_full_one_and_short_limits_are_warnings() {
        assert_eq!(warned(&[("server_version_num", "120004")], |_| {}), ["version"]);
        assert_eq!(warned(&[], |facts| facts.sessions = 91), ["connections"]);
        assert_eq!(warned(&[("max_connections", "8")], |facts| facts.sessions = 1), [""; 0]);
        let limits = [("transaction_timeout", "900"), ("idle_session_timeout", "59999")];
        assert_eq!(warned(&limits, |_| {}), ["timeouts", "timeouts"]);
    }
}
