//! `leasehold doctor`: what would endanger the locks of a store.

use std::fmt::Write as _;

use leasehold::{Finding, Remedy, Severity};
use serde::Serialize;

use crate::args::DoctorArgs;
use crate::exit::{End, Failure};
use crate::place::Place;
use crate::print::{plain, print};

/// Prints it, and says how to end: how bad the worst of it is.
///
/// # Errors
///
/// [`Failure`], when what was typed names no store.
pub(crate) async fn examine(args: DoctorArgs) -> Result<End, Failure> {
    let place = Place::of(args.place)?;
    let locks = place.unopened(place.to_look_at(), args.quiet)?;
    let findings = locks.examine().await;
    let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Note);
    if args.json {
        print(&object(locks.store(), worst, &findings))?;
    } else if !args.quiet {
        print(&text(locks.store(), &findings, args.verbose))?;
    }
    Ok(match worst {
        Severity::Note => End::SUCCESS,
        Severity::Unsafe => End::UNSAFE,
        _ => End::DOUBTFUL,
    })
}

/// For people: what there is to mend, and how it all stands in a line.
fn text(store: &str, findings: &[Finding], verbose: bool) -> String {
    let mut text = String::new();
    let mut line = |words: &str| {
        writeln!(text, "{}", plain(words)).expect("a String takes all that is written to it");
    };
    for finding in findings.iter().filter(|finding| verbose || finding.severity != Severity::Note) {
        line(&format!("{:7}  {}: {} ({})", finding.severity, finding.about, finding.what, finding.at));
        if !finding.why.is_empty() {
            line(&format!("    why   {}", finding.why));
        }
        match &finding.remedy {
            Remedy::Advice(advice) => line(&format!("    mend  {advice}")),
            Remedy::AtServer(command) => line(&format!("    mend  redis-cli> {command}")),
            Remedy::InShell(command) => line(&format!("    mend  $ {command}")),
            _ => {}
        }
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    line(&format!(
        "{store}: {} unsafe, {} warnings, {} could not be seen, {} as they should be",
        count(Severity::Unsafe),
        count(Severity::Warning),
        count(Severity::Unseen),
        count(Severity::Note)
    ));
    text
}

#[derive(Serialize)]
struct Examined<'a> {
    store: &'a str,
    worst: String,
    findings: Vec<Found<'a>>,
}

#[derive(Serialize)]
struct Found<'a> {
    severity: String,
    about: &'a str,
    at: &'a str,
    what: &'a str,
    why: &'a str,
    remedy: Option<Mend<'a>>,
}

#[derive(Serialize)]
struct Mend<'a> {
    kind: &'static str,
    text: &'a str,
}

fn object(store: &str, worst: Severity, findings: &[Finding]) -> String {
    let findings = findings.iter().map(|finding| Found {
        severity: finding.severity.to_string(),
        about: finding.about,
        at: &finding.at,
        what: &finding.what,
        why: &finding.why,
        remedy: match &finding.remedy {
            Remedy::Advice(text) => Some(Mend { kind: "advice", text }),
            Remedy::AtServer(text) => Some(Mend { kind: "redis-cli", text }),
            Remedy::InShell(text) => Some(Mend { kind: "shell", text }),
            _ => None,
        },
    });
    let object = Examined { store, worst: worst.to_string(), findings: findings.collect() };
    serde_json::to_string(&object).expect("text can be written as JSON") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings() -> Vec<Finding> {
        let at = "redis://h".into();
        let bad = Finding::new(Severity::Unsafe, "eviction", &at, "leases are\u{202e} deleted", "two hold");
        vec![bad.at_server("CONFIG SET a b"), Finding::note("version", &at, "Redis 8")]
    }

    #[test]
    fn people_are_shown_what_is_wrong_and_how_to_mend_it() {
        let shown = text("redis://h", &findings(), false);
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(
            lines,
            [
                "unsafe   eviction: leases are\\u{202e} deleted (redis://h)",
                "    why   two hold",
                "    mend  redis-cli> CONFIG SET a b",
                "redis://h: 1 unsafe, 0 warnings, 0 could not be seen, 1 as they should be",
            ]
        );
        assert!(text("redis://h", &findings(), true).contains("note     version: Redis 8"));
    }

    #[test]
    fn programs_are_told_whether_a_remedy_is_a_command() {
        let object: serde_json::Value =
            serde_json::from_str(&object("redis://h", Severity::Unsafe, &findings())).unwrap();
        assert_eq!(object["worst"], "unsafe");
        assert_eq!(object["findings"][0]["remedy"]["kind"], "redis-cli");
        assert!(object["findings"][1]["remedy"].is_null());
    }
}
