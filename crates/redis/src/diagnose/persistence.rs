//! Checks what the server still knows after a restart.

use std::time::Duration;

use leasehold_core::{Finding, Severity, StoreRole};

use super::diagnosis_run::Setting;
use super::facts::Facts;
use crate::address::parameters::Confirmation;

const ABOUT: &str = "persistence";

const APPEND: &str = "CONFIG SET appendonly yes";

const ALWAYS: &str = "CONFIG SET appendfsync always";

/// With `appendfsync everysec`, a write is on disk after a second and the time that the disk takes.
const ONCE_A_SECOND: Duration = Duration::from_millis(1_500);

pub(super) fn judge(setting: &Setting, facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![kept(setting, facts)];
    findings.extend(failed(setting, facts));
    findings
}

fn kept(setting: &Setting, facts: &Facts) -> Finding {
    let appends = facts.text("aof_enabled") == Some("1");
    let fsync = facts.text("appendfsync");
    let on_disk = setting.confirmation.filter(|confirmation| confirmation.on_disk);
    if on_disk.is_some() && !appends {
        let what = "appendonly is no, and the URL says fsync=yes";
        let why = "a lease counts only when it is on disk, so no lock is ever granted";
        return setting.finding(Severity::Unsafe, ABOUT, what, why).at_server(APPEND);
    }
    if let (Some(Confirmation { limit, .. }), Some(fsync)) = (on_disk, fsync)
        && (fsync == "no" || fsync == "everysec" && limit < ONCE_A_SECOND)
    {
        let what = format!("appendfsync is {fsync}, and the URL says fsync=yes and allows {limit:?} for it");
        let why = "a lease counts only when it is on disk: it is granted late or never, or lost for want of a renewal";
        return setting.finding(Severity::Unsafe, ABOUT, what, why).at_server(ALWAYS);
    }
    if setting.quarantine && setting.role != StoreRole::Alone {
        let what =
            "as a member of a quorum it abstains after a restart until what it may have forgotten has ended";
        return setting.note(ABOUT, what);
    }
    if setting.role != StoreRole::Alone && (!appends || fsync.is_some_and(|fsync| fsync != "always")) {
        let what = "quarantine=no, and the server forgets: that needs appendonly yes and appendfsync always";
        let why = "after a restart it votes for a second holder while the first still holds";
        let mend = if appends { ALWAYS } else { APPEND };
        return setting.finding(Severity::Unsafe, ABOUT, what, why).at_server(mend);
    }
    if !appends {
        return forgets(setting, facts.text("save"));
    }
    match fsync {
        Some("no") => {
            let what = "appendfsync is no: the server leaves it to the system when leases are on disk, often for 30 s";
            let why =
                "a crash of its machine forgets them while they are held, and others are granted the locks";
            let mend = "CONFIG SET appendfsync everysec";
            setting.finding(Severity::Warning, ABOUT, what, why).at_server(mend)
        }
        Some("always") => setting.note(ABOUT, "every lease is on disk before it counts (appendfsync always)"),
        _ => {
            let what = "leases are kept in a file (appendonly yes): a crash of the machine may forget the last second of them";
            setting.note(ABOUT, what)
        }
    }
}

fn forgets(setting: &Setting, save: Option<&str>) -> Finding {
    let why = "the locks that it forgets are granted again while their holders still consider them valid";
    match save {
        Some("") => {
            let what = "appendonly is no, and there are no snapshots (save): any restart forgets all leases";
            setting.finding(Severity::Unsafe, ABOUT, what, why).at_server(APPEND)
        }
        _ => {
            let what = "appendonly is no: a crash forgets all leases since the last snapshot, which may be an hour old";
            setting.finding(Severity::Warning, ABOUT, what, why).at_server(APPEND)
        }
    }
}

fn failed(setting: &Setting, facts: &Facts) -> Vec<Finding> {
    let ways =
        [("aof_last_write_status", "the append-only file"), ("rdb_last_bgsave_status", "its last snapshot")];
    let failed = ways.into_iter().filter(|(field, _)| facts.text(field).is_some_and(|status| status != "ok"));
    let finding = |(_, file)| {
        let what = format!("the server could not write {file}");
        let why = "until it can, it may refuse every write (MISCONF), and a restart forgets leases";
        let advice = "see its log, and whether its disk is full";
        setting.finding(Severity::Unsafe, "disk", what, why).advice(advice)
    };
    failed.map(finding).collect()
}

#[cfg(test)]
mod tests {
    use leasehold_core::{Remedy, Ttl};

    use super::*;

    fn judged(role: StoreRole, quarantine: bool, info: &str) -> Finding {
        let setting = Setting { role, quarantine, ..Setting::of_one_server() };
        judge(&setting, &Facts::of(info)).remove(0)
    }

    #[test]
    fn losing_data_at_a_restart_is_worse_than_at_a_crash() {
        let alone = |info| judged(StoreRole::Alone, true, info);
        assert_eq!(alone("aof_enabled:0\nsave:").severity, Severity::Unsafe);
        assert_eq!(alone("aof_enabled:0\nsave:3600 1").severity, Severity::Warning);
        assert_eq!(alone("aof_enabled:0").severity, Severity::Warning);
        assert_eq!(alone("aof_enabled:1\nappendfsync:no").severity, Severity::Warning);
        assert_eq!(alone("aof_enabled:1\nappendfsync:everysec").severity, Severity::Note);
        assert_eq!(alone("aof_enabled:0\nsave:").remedy, Remedy::AtServer(APPEND.into()));
    }

    #[test]
    fn a_member_that_abstains_may_forget_and_one_that_does_not_may_not() {
        let role = StoreRole::Member { max_ttl: Ttl::new(Duration::from_secs(60)).unwrap() };
        assert_eq!(judged(role, true, "aof_enabled:0\nsave:").severity, Severity::Note);
        assert_eq!(judged(role, false, "aof_enabled:0").severity, Severity::Unsafe);
        let everysec = judged(role, false, "aof_enabled:1\nappendfsync:everysec");
        assert_eq!(everysec.remedy, Remedy::AtServer("CONFIG SET appendfsync always".into()));
        assert_eq!(judged(role, false, "aof_enabled:1\nappendfsync:always").severity, Severity::Note);
    }

    /// Regression: everything was well, and the remedy for `appendfsync no` was `everysec`. With that, a
    /// grant took some seconds, and a lease of two seconds was lost.
    #[test]
    fn leases_that_count_only_on_disk_need_a_server_that_writes_them_at_once() {
        let judged = |limit, fsync: &str| {
            let limit = Duration::from_millis(limit);
            let confirmation = Some(Confirmation { replicas: 0, on_disk: true, limit });
            let setting = Setting { confirmation, ..Setting::of_one_server() };
            judge(&setting, &Facts::of(&format!("aof_enabled:1\nappendfsync:{fsync}"))).remove(0)
        };
        for (limit, fsync) in [(250, "everysec"), (250, "no"), (5_000, "no")] {
            let finding = judged(limit, fsync);
            assert_eq!(finding.severity, Severity::Unsafe, "{fsync}");
            assert_eq!(finding.remedy, Remedy::AtServer(ALWAYS.into()));
        }
        for (limit, fsync) in [(250, "always"), (2_000, "everysec")] {
            assert_eq!(judged(limit, fsync).severity, Severity::Note, "{fsync}");
        }
    }

    #[test]
    fn a_disk_that_refuses_is_said() {
        let info = "aof_enabled:1\nappendfsync:always\naof_last_write_status:err\nrdb_last_bgsave_status:ok";
        let findings = judge(&Setting::of_one_server(), &Facts::of(info));
        assert_eq!((findings.len(), findings[1].severity), (2, Severity::Unsafe));
    }
}
