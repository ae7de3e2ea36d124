//! Checks whether the server may evict leases.

use leasehold_core::{Finding, Severity};

use super::diagnosis_run::Setting;
use super::facts::Facts;

/// The percentage of used memory above which the server counts as nearly full.
const NEARLY_FULL: u64 = 90;

pub(super) fn judge(setting: &Setting, facts: &Facts) -> Finding {
    let Some(policy) = facts.text("maxmemory_policy") else {
        let what =
            "not checked: which keys the server deletes when it is full (INFO has no maxmemory_policy)";
        let why = "if it deletes a lease, two may hold the lock";
        return setting
            .finding(Severity::Unknown, "eviction", what, why)
            .advice("see that maxmemory-policy is noeviction there");
    };
    let limit = facts.number("maxmemory").filter(|limit| *limit > 0);
    if policy != "noeviction" {
        let (severity, when) = match limit {
            Some(_) => (Severity::Unsafe, "when its memory is full"),
            None => (Severity::Warning, "as soon as somebody sets a maxmemory and that is full"),
        };
        let what = format!("maxmemory-policy is {policy}: the server deletes keys {when}, leases among them");
        let why = "a lock whose lease was deleted is granted to somebody else while its holder still works";
        let mend = "CONFIG SET maxmemory-policy noeviction";
        return setting.finding(severity, "eviction", &what, why).at_server(mend);
    }
    match (limit, facts.number("used_memory")) {
        (Some(limit), Some(used)) if used / (limit / 100).max(1) >= NEARLY_FULL => {
            let what = format!(
                "{used} of {limit} bytes (maxmemory) are in use, and nothing is deleted to make room"
            );
            // The server does not count the buffers of its replicas and of its append-only file.
            let counted = used.saturating_sub(facts.number("mem_not_counted_for_evict").unwrap_or(0));
            let (severity, why) = if counted > limit {
                (Severity::Unsafe, "the server is full, and so refuses new locks (OOM)")
            } else {
                (Severity::Warning, "a server that is full refuses new locks (OOM)")
            };
            let advice = "raise maxmemory, or free memory there";
            setting.finding(severity, "eviction", what, why).advice(advice)
        }
        _ => setting.note("eviction", "the server deletes no keys to make room (noeviction)"),
    }
}

#[cfg(test)]
mod tests {
    use leasehold_core::Remedy;

    use super::*;

    fn judged(info: &str) -> Finding {
        judge(&Setting::of_one_server(), &Facts::of(info))
    }

    #[test]
    fn a_policy_that_deletes_is_unsafe_once_there_is_a_limit() {
        let full = judged("maxmemory:100000\nmaxmemory_policy:volatile-ttl");
        assert_eq!(full.severity, Severity::Unsafe);
        assert_eq!(full.remedy, Remedy::AtServer("CONFIG SET maxmemory-policy noeviction".into()));
        assert_eq!(judged("maxmemory:0\nmaxmemory_policy:allkeys-lru").severity, Severity::Warning);
        assert_eq!(judged("maxmemory:0\nmaxmemory_policy:noeviction").severity, Severity::Note);
        assert_eq!(judged("redis_version:7").severity, Severity::Unknown);
    }

    #[test]
    fn a_server_that_is_nearly_full_is_a_warning() {
        let used = |used| judged(&format!("maxmemory:1000\nmaxmemory_policy:noeviction\nused_memory:{used}"));
        assert_eq!((used(900).severity, used(800).severity), (Severity::Warning, Severity::Note));
    }

    /// Regression: a server that was full, and refused every lock, was a warning like one that is nearly
    /// full, so the doctor exited with 1, which means that locks work.
    #[test]
    fn a_server_that_is_full_is_unsafe() {
        let used = |uncounted| {
            judged(&format!(
                "maxmemory:1000\nmaxmemory_policy:noeviction\nused_memory:1100\nmem_not_counted_for_evict:{uncounted}"
            ))
        };
        assert_eq!((used(0).severity, used(100).severity), (Severity::Unsafe, Severity::Warning));
    }
}
