//! Checks that the database can have the tables, that they are there, of the right version, and
//! logged, and that the user may do what the store does to them, and execute its functions.

use std::sync::Arc;

use leasehold_core::{Finding, Severity, StoreRole};

use super::facts::{Facts, PRIVILEGES};
use crate::sql::{TABLES, quoted};
use crate::version::{OLDER, VERSION};

/// The functions and the procedure without which requests take the general way.
const QUICK: [(&str, &str); 3] =
    [("FUNCTION", "quick_grant"), ("FUNCTION", "quick_renew"), ("PROCEDURE", "quick_release")];

pub(super) fn judge(at: &Arc<str>, init: &str, role: StoreRole, facts: &Facts) -> Vec<Finding> {
    let encoding = facts.setting("server_encoding");
    if encoding != "UTF8" {
        let what = format!("the database has encoding {encoding}, which cannot keep every label");
        let why = "`leasehold init` makes no tables here";
        return vec![
            Finding::new(Severity::Unsafe, "tables", at, what, why)
                .advice("name a database with encoding UTF8 in the store URL"),
        ];
    }
    let absent: Vec<_> =
        TABLES.into_iter().chain(["meta"]).filter(|name| !facts.tables.contains_key(*name)).collect();
    if !absent.is_empty() {
        let finding =
            |what: &str| Finding::new(Severity::Unsafe, "tables", at, what, "no lock can be taken here");
        return vec![match absent.len() > TABLES.len() {
            true => finding("Leasehold's tables are not in this database").in_shell(init),
            false => finding(&format!("of Leasehold's tables, {} are not there", absent.join(", ")))
                .advice("restore them, or drop the schema while no program uses it and create it again"),
        }];
    }
    let mut findings = vec![version(at, init, facts)];
    findings.extend(unlogged(at, facts));
    findings.push(grants(at, role, facts));
    findings.extend(hidden(at, facts));
    findings.extend(quick(at, init, facts));
    findings
}

fn quick(at: &Arc<str>, init: &str, facts: &Facts) -> Option<Finding> {
    let why =
        "each request takes two round trips more, and a lock passes to its next waiter several times later";
    let absent: Vec<_> =
        QUICK.iter().map(|(_, name)| *name).filter(|name| !facts.routines.contains_key(*name)).collect();
    if !absent.is_empty() {
        let what = format!("of the functions that serve most requests, {} are not there", absent.join(", "));
        let finding = Finding::new(Severity::Warning, "functions", at, what, why);
        return Some(finding.advice(format_args!("create them as in the output of `{init} --print-sql`")));
    }
    let (schema, user) = (quoted(&facts.schema), quoted(&facts.user));
    let lacking = QUICK.into_iter().filter(|(_, name)| facts.routines.get(*name) == Some(&false));
    let mend: Vec<_> =
        lacking.map(|(kind, name)| format!("GRANT EXECUTE ON {kind} {schema}.{name} TO {user}")).collect();
    if mend.is_empty() {
        return None;
    }
    let what = format!(
        "the user {} may not execute {} of the {} functions that serve most requests",
        facts.user,
        mend.len(),
        QUICK.len()
    );
    Some(Finding::new(Severity::Warning, "functions", at, what, why).in_database(mend.join("; ")))
}

fn version(at: &Arc<str>, init: &str, facts: &Facts) -> Finding {
    let why = "this program refuses them, so that no lock can be taken here";
    let unsafe_ = |what: String| Finding::new(Severity::Unsafe, "tables", at, what, why);
    match facts.version {
        None => {
            let what = "not checked: the version of the tables";
            Finding::new(
                Severity::Unknown,
                "tables",
                at,
                what,
                "the user may not read the table meta, or it is damaged",
            )
        }
        Some((version, _)) if version < VERSION => {
            unsafe_(format!("the tables are of version {version}, and this program needs {VERSION}"))
                .advice(format_args!("{OLDER} with `{init}`"))
        }
        Some((version, readable_by)) if readable_by > VERSION => unsafe_(format!(
            "the tables are of version {version}, which takes a program of version {readable_by}"
        ))
        .advice(format_args!("update this program, which is of version {VERSION}")),
        Some((version, _)) => Finding::note("tables", at, format_args!("they are of version {version}")),
    }
}

fn unlogged(at: &Arc<str>, facts: &Facts) -> Option<Finding> {
    let names: Vec<_> =
        facts.tables.iter().filter(|(_, table)| !table.is_logged).map(|(name, _)| name).collect();
    let schema = quoted(&facts.schema);
    let mend: Vec<_> =
        names.iter().map(|name| format!("ALTER TABLE {schema}.{} SET LOGGED", quoted(name))).collect();
    let first = names.first()?;
    let what = format!("{} of the tables are unlogged, {first} among them", names.len());
    let why =
        "a crash of the server empties them, and its replicas do not have them: two may then hold a lock";
    Some(Finding::new(Severity::Warning, "unlogged", at, what, why).in_database(mend.join("; ")))
}

fn hidden(at: &Arc<str>, facts: &Facts) -> Option<Finding> {
    let hidden = facts.tables.iter().filter(|(_, table)| table.hides_rows);
    let names: Vec<_> = hidden.map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    let schema = quoted(&facts.schema);
    let mend =
        names.iter().map(|name| format!("ALTER TABLE {schema}.{} DISABLE ROW LEVEL SECURITY", quoted(name)));
    let mend = mend.collect::<Vec<_>>().join("; ");
    let what = format!("row level security applies to the user {} on {}", facts.user, names.join(", "));
    let why = "requests for locks are refused, because others' leases may be hidden";
    Some(Finding::new(Severity::Unsafe, "permissions", at, what, why).in_database(mend))
}

fn grants(at: &Arc<str>, role: StoreRole, facts: &Facts) -> Finding {
    let meta: &[&str] = if role == StoreRole::Alone { &["SELECT"] } else { &["SELECT", "INSERT", "UPDATE"] };
    let schema = quoted(&facts.schema);
    let user = quoted(&facts.user);
    let mut mend = Vec::new();
    if facts.may_enter == Some(false) {
        mend.push(format!("GRANT USAGE ON SCHEMA {schema} TO {user}"));
    }
    let all = TABLES.into_iter().map(|name| (name, &PRIVILEGES[..])).chain([("meta", meta)]);
    for (name, needed) in all {
        let granted = facts.tables.get(name).map(|table| &table.granted);
        let lacks = |privilege: &&&str| granted.is_none_or(|granted| !granted.contains(**privilege));
        let lacking: Vec<_> = needed.iter().filter(lacks).copied().collect();
        if !lacking.is_empty() {
            mend.push(format!("GRANT {} ON {schema}.{name} TO {user}", lacking.join(", ")));
        }
    }
    if mend.is_empty() {
        return Finding::note("permissions", at, format_args!("{} may do all that locks need", facts.user));
    }
    let what = format!("the user {} lacks rights on the tables", facts.user);
    let why = "some or all requests for locks are refused";
    Finding::new(Severity::Unsafe, "permissions", at, what, why).in_database(mend.join("; "))
}

#[cfg(test)]
mod tests {
    use leasehold_core::Remedy;

    use super::super::facts::Table;
    use super::*;

    fn complete() -> Facts {
        let table = Table { is_logged: true, hides_rows: false, granted: PRIVILEGES.into() };
        let names = TABLES.into_iter().chain(["meta"]);
        Facts {
            user: "web".into(),
            schema: "leasehold".into(),
            may_enter: Some(true),
            tables: names.map(|name| (name.to_owned(), table.clone())).collect(),
            routines: QUICK.map(|(_, name)| (name.to_owned(), true)).into(),
            settings: [("server_encoding".to_owned(), "UTF8".to_owned())].into(),
            version: Some((VERSION, VERSION)),
            ..Facts::default()
        }
    }

    fn judged(facts: &Facts) -> Vec<Finding> {
        let findings = judge(&"postgres://h".into(), "leasehold init", StoreRole::Alone, facts);
        findings.into_iter().filter(|finding| finding.severity != Severity::Note).collect()
    }

    #[test]
    fn the_version_decides_whether_the_program_or_the_tables_need_an_update() {
        let of = |version, readable_by| {
            let finding = judged(&Facts { version: Some((version, readable_by)), ..complete() });
            finding.into_iter().next().map(|finding| finding.remedy)
        };
        let older = of(VERSION - 1, 0);
        assert!(
            matches!(&older, Some(Remedy::Advice(advice)) if advice.contains("leasehold init")),
            "{older:?}"
        );
        assert!(matches!(of(VERSION + 5, VERSION + 1), Some(Remedy::Advice(_))));
        assert_eq!(of(VERSION + 5, VERSION), None);
        let unread = judged(&Facts { version: None, ..complete() });
        assert_eq!(unread[0].severity, Severity::Unknown);
    }

    /// Regression: the remedy was a grant on a function that was not there.
    #[test]
    fn a_function_that_is_not_there_is_another_finding_than_one_that_may_not_be_executed() {
        let mut facts = complete();
        assert_eq!(judged(&facts), []);
        facts.routines.insert("quick_renew".into(), false);
        assert!(
            matches!(&judged(&facts)[0].remedy, Remedy::InDatabase(grant) if grant.contains("quick_renew"))
        );
        facts.routines.remove("quick_renew");
        let Remedy::Advice(advice) = &judged(&facts)[0].remedy else { panic!("no advice") };
        assert!(advice.contains("leasehold init --print-sql"), "{advice}");
    }

    #[test]
    fn no_table_is_another_finding_than_one_that_is_missing() {
        let mut facts = complete();
        facts.tables.remove("share");
        assert!(judged(&facts)[0].what.contains("share are not there"));
        facts.tables.clear();
        assert_eq!(judged(&facts)[0].remedy, Remedy::InShell("leasehold init".into()));
    }
}
