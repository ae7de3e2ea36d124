//! Checks which server is running, and its version.

use leasehold_core::{Finding, Severity};

use super::diagnosis_run::Setting;
use super::facts::Facts;

/// The oldest version that the scripts are tested on.
const OLDEST: (u64, u64) = (5, 0);

pub(super) fn judge(setting: &Setting, facts: &Facts) -> Finding {
    let valkey = facts.text("valkey_version");
    let Some(version) = valkey.or_else(|| facts.text("redis_version")) else {
        let what = "not checked: the version (INFO has none)";
        let finding =
            setting.finding(Severity::Unknown, "version", what, "older servers than 5.0 are not tested");
        return finding.advice("name the server itself, and no proxy");
    };
    let name = if valkey.is_some() { "Valkey" } else { "Redis" };
    let number = numbered(version);
    if number < OLDEST {
        let what = format!("{name} {version}: Leasehold is tested on 5.0 and later");
        let finding = setting.finding(Severity::Warning, "version", what, "scripts may fail there");
        return finding.advice("use a later version");
    }
    // Up to 6.2.
    if facts.text("lua-replicate-commands") == Some("no") {
        let what = "lua-replicate-commands is no: the server refuses each script that reads the time and then writes";
        let finding = setting.finding(Severity::Unsafe, "version", what, "nobody takes a lock here");
        return finding.at_server("CONFIG SET lua-replicate-commands yes");
    }
    let on_disk = if number >= (7, 2) { "WAITAOF" } else { "no WAITAOF (fsync=yes)" };
    setting.note("version", format_args!("{name} {version}; {on_disk}"))
}

fn numbered(version: &str) -> (u64, u64) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_recognised_by_name_and_number() {
        let setting = Setting::of_one_server();
        let judged = |info: &str| judge(&setting, &Facts::of(info));
        assert_eq!(judged("redis_version:4.0.14").severity, Severity::Warning);
        let valkey = judged("redis_version:7.2.4\nvalkey_version:9.1.0");
        assert!(valkey.what.contains("Valkey 9.1.0"), "{valkey}");
        assert!(judged("redis_version:6.2.0").what.contains("no WAITAOF"));
    }
}
