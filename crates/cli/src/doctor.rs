//! `leasehold doctor`: diagnoses a store.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use clap::Args;
use leasehold::{Fault, Finding, InspectError, Key, KeyState, Locks, Owner, Remedy, Severity};
use serde::Serialize;

use crate::args::PlaceArgs;
use crate::exit::{End, Failure};
use crate::json;
use crate::keys::{key, naming};
use crate::print::print;
use crate::say::plain;
use crate::store_location::StoreLocation;
use crate::terminal::is_dumb;

/// Find settings of a store that endanger its locks
///
/// Checks eviction, persistence, replicas, clocks, permissions, push messages, leftovers, and
/// whether others can write a store's file. Each finding says what is wrong, why it matters for a
/// lock, and which command fixes it. Changes nothing. On a server, it checks a sample of the keys
/// and says how many.
///
/// It sees only what the store's user may see: use one who may also run INFO and CONFIG GET.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold doctor [OPTIONS]",
    after_help = "Exit codes: 0 good, 1 warnings, 2 unsafe; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object
    ///
    /// store, worst, and findings: each with severity ("note", "unknown", "warning" or
    /// "unsafe"), about, at, what, why and remedy: null, or an object with kind ("advice",
    /// "redis-cli", "psql" or "shell": where the text is a command) and text.
    #[arg(long)]
    pub(crate) json: bool,

    /// Also check that this user may lock this key
    ///
    /// For a user who may use certain keys only. It reads the key, its side keys, its mark and its
    /// last break, and acquires nothing.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<OsString>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Print nothing, only set the exit code
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Also print what is as it should be
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

const EXAMPLE: &str = "\
Exit codes: 0 nothing endangers locks; 1 a failure would, or something could not be checked; 2 they are unsafe, or do not work.

Changes by CONFIG SET and ACL SETUSER are lost with a restart of the server, unless CONFIG REWRITE
and ACL SAVE write them to its configuration.

Example: is this server safe for locks, and may this user lock the application's keys?
  leasehold doctor --store redis://app@10.0.0.5 --key app:invoices";

/// The subject of the findings about the key of `--key`.
const KEY: &str = "key";

pub(crate) async fn diagnose(args: DoctorArgs) -> Result<End, Failure> {
    let naming = naming(args.place.naming)?;
    let key =
        args.key.map(|name| key(name, &naming).map_err(|failure| failure.about("--key"))).transpose()?;
    let place = StoreLocation::of(args.place.store)?;
    let locks = place.unopened(place.to_look_at(), args.quiet)?;
    let mut findings = locks.diagnose().await;
    // A user who may use a file may use all of it, and the file must not be created.
    if let Some(key) = key.filter(|_| !place.store.is_a_file()) {
        // The check of push names the channels of a tenant.
        let all_channels = !place.store.reveal().any(|url| url.contains("channels="));
        findings.extend(try_key(&locks, &key, if all_channels { " &leasehold:*" } else { "" }).await);
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    }
    in_one_go(&mut findings);
    let worst = findings.iter().map(|finding| finding.severity).max().unwrap_or(Severity::Note);
    if args.json {
        print(&object(locks.store(), worst, &findings))?;
    } else if !args.quiet {
        print(&text(locks.store(), &findings, args.verbose, has_colours()))?;
    }
    Ok(match worst {
        Severity::Note => End::SUCCESS,
        Severity::Unsafe => End::UNSAFE,
        _ => End::DOUBTFUL,
    })
}

/// Checks whether this user can lock this key. On a server, inspecting a lock needs the same keys
/// as acquiring it, and permission to write them.
async fn try_key(locks: &Locks, key: &Key, channels: &str) -> Vec<Finding> {
    let at = Arc::from(locks.store());
    let looked = async {
        let state = locks.inspect(key.as_bytes()).await?;
        locks.marked(key.as_bytes()).await?;
        locks.last_break(key.as_bytes()).await?;
        Ok(state)
    };
    vec![match looked.await {
        Ok(KeyState { damage: Some(damage), .. }) => {
            let why = "its holders and waiters, or some of them, cannot be read";
            Finding::new(Severity::Unsafe, KEY, &at, format!("{key}: {damage}"), why)
        }
        Ok(state) if state.holders.iter().any(|holding| holding.owner == Owner::NotALock) => {
            let what = format!("{key} holds something that is not a lock");
            let finding = Finding::new(Severity::Unsafe, KEY, &at, what, "nobody can lock it");
            finding.advice("name another key, or delete what is there")
        }
        Ok(_) => {
            let what = format!("{key} can be locked, with all the server's keys that belong to it");
            Finding::note(KEY, &at, what)
        }
        Err(InspectError::Store(Fault { quorum_report: Some(votes), .. })) => {
            return votes.faults().map(|fault| untried(key, fault, 'f', channels)).collect();
        }
        Err(InspectError::Store(fault)) => untried(key, &fault, 'c', channels),
        Err(error) => Finding::new(Severity::Unsafe, KEY, &at, error, "it cannot be locked"),
    }]
}

/// The finding that this store refused to show the key, or did not answer. Its fences are in keys of
/// this letter.
fn untried(key: &Key, fault: &Fault, fences: char, channels: &str) -> Finding {
    let user =
        fault.reason.split_once(" may not ").map(|(who, _)| who.rsplit(' ').next().unwrap_or_default());
    let name = key.to_string();
    // The last fence of all keys with the same beginning, up to the first colon.
    let beginning = name.split_once(':').map_or_else(String::new, |(beginning, _)| pattern(beginning) + ":");
    let text = pattern(&name);
    let patterns = format!("~{text} ~leasehold:*}}{text} ~leasehold:{fences}{{*}}{beginning}{channels}");
    let (severity, what, why) = if fault.reason.contains(" may not use a key: ") {
        let what = format!("{key}: {}", fault.reason);
        (Severity::Unsafe, what, "locks of this name cannot be acquired, renewed or released")
    } else {
        let what = format!("{key} could not be tried: {}", fault.reason);
        (Severity::Unknown, what, "it is unknown if it can be locked")
    };
    let finding = Finding::new(severity, KEY, &fault.store, what, why);
    // A missing permission that has nothing to do with a key hides whether the user may use the
    // key.
    match user {
        Some(user) => finding.at_server(format_args!("ACL SETUSER {user} {patterns}")),
        None => finding,
    }
}

/// A key as a pattern in an ACL rule.
fn pattern(name: &str) -> String {
    let escape = |c| matches!(c, '*' | '?' | '[' | ']' | '\\').then_some('\\');
    name.chars().flat_map(|c| escape(c).into_iter().chain([c])).collect()
}

/// Combines all rules that a user of a server lacks into one line instead of one per finding: an
/// administrator who may add one may add all.
fn in_one_go(findings: &mut [Finding]) {
    let rules = |finding: &Finding| match &finding.remedy {
        Remedy::AtServer(command) => {
            let (user, rules) = command.strip_prefix("ACL SETUSER ")?.split_once(' ')?;
            Some((user.to_owned(), rules.to_owned()))
        }
        _ => None,
    };
    // A master that sentinels report has the location of its sentinels behind its name.
    let store = |at: &str| at.split(" (").next().unwrap_or_default().to_owned();
    let all: Vec<_> = findings.iter().map(|finding| Some((finding.at.clone(), rules(finding)?))).collect();
    for (finding, one) in findings.iter_mut().zip(&all) {
        let Some((at, (user, _))) = one else { continue };
        let of_user =
            all.iter().flatten().filter(|(other, (name, _))| store(other) == store(at) && name == user);
        let mut line = Vec::new();
        for rule in of_user.flat_map(|(_, (_, rules))| rules.split(' ')) {
            if !line.contains(&rule) {
                line.push(rule);
            }
        }
        finding.remedy = Remedy::AtServer(format!("ACL SETUSER {user} {}", line.join(" ")));
    }
}

fn has_colours() -> bool {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|unwanted| unwanted.is_empty());
    io::stdout().is_terminal() && !is_dumb() && wanted
}

/// The output for people: the problems, and a one-line summary.
fn text(store: &str, findings: &[Finding], verbose: bool, coloured: bool) -> String {
    let mut text = String::new();
    let mut line = |words: &str| text += &(plain(words) + "\n");
    let mut said: Vec<&Remedy> = Vec::new();
    for finding in findings.iter().filter(|finding| verbose || finding.severity != Severity::Note) {
        line(&format!("{:7}  {}: {} ({})", finding.severity, finding.about, finding.what, finding.at));
        let again = said.contains(&&finding.remedy);
        said.push(&finding.remedy);
        if !finding.why.is_empty() {
            line(&format!("    why   {}", finding.why));
        }
        match remedy(&finding.remedy) {
            Some(_) if again && matches!(finding.remedy, Remedy::AtServer(_)) => {
                line("    fix   by the same command as above");
            }
            Some(RemedyJson { prompt, text, .. }) => line(&format!("    fix   {prompt}{text}")),
            None => {}
        }
    }
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    line(&format!(
        "{store}: {} unsafe, {} warnings, {} unknown, {} good",
        count(Severity::Unsafe),
        count(Severity::Warning),
        count(Severity::Unknown),
        count(Severity::Note)
    ));
    if coloured { in_colours(&text) } else { text }
}

/// Colours the severity of a finding red, yellow or cyan.
fn in_colours(text: &str) -> String {
    let coloured = |line: &str| {
        for (severity, colour) in
            [(Severity::Unsafe, "31;1"), (Severity::Warning, "33"), (Severity::Unknown, "36")]
        {
            let word = severity.to_string();
            if let Some(rest) = line.strip_prefix(&*word) {
                return format!("\x1b[{colour}m{word}\x1b[0m{rest}\n");
            }
        }
        format!("{line}\n")
    };
    text.lines().map(coloured).collect()
}

#[derive(Serialize)]
struct JsonDiagnosis<'a> {
    store: &'a str,
    worst: String,
    findings: Vec<FindingJson<'a>>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    severity: String,
    about: &'a str,
    at: &'a str,
    what: &'a str,
    why: &'a str,
    remedy: Option<RemedyJson<'a>>,
}

#[derive(Serialize)]
struct RemedyJson<'a> {
    kind: &'static str,
    text: &'a str,
    /// Before a command in the output for people: where it is typed.
    #[serde(skip)]
    prompt: &'static str,
}

fn remedy(remedy: &Remedy) -> Option<RemedyJson<'_>> {
    let (kind, prompt, text) = match remedy {
        Remedy::Advice(text) => ("advice", "", text),
        Remedy::AtServer(text) => ("redis-cli", "redis-cli> ", text),
        Remedy::InDatabase(text) => ("psql", "psql> ", text),
        Remedy::InShell(text) => ("shell", "$ ", text),
        _ => return None,
    };
    Some(RemedyJson { kind, text, prompt })
}

fn object(store: &str, worst: Severity, findings: &[Finding]) -> String {
    let findings = findings.iter().map(|finding| FindingJson {
        severity: finding.severity.to_string(),
        about: finding.about,
        at: &finding.at,
        what: &finding.what,
        why: &finding.why,
        remedy: remedy(&finding.remedy),
    });
    json::line(&JsonDiagnosis { store, worst: worst.to_string(), findings: findings.collect() })
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
    fn the_text_shows_each_finding_and_its_remedy() {
        let shown = text("redis://h", &findings(), false, false);
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(
            lines,
            [
                "unsafe   eviction: leases are\\u{202e} deleted (redis://h)",
                "    why   two hold",
                "    fix   redis-cli> CONFIG SET a b",
                "redis://h: 1 unsafe, 0 warnings, 0 unknown, 1 good",
            ]
        );
        assert!(text("redis://h", &findings(), true, false).contains("note     version: Redis 8"));
    }

    #[test]
    fn one_line_has_all_rules_that_a_user_lacks_at_a_server_and_no_other_command() {
        let finding = |at: &str, command: &str| {
            Finding::new(Severity::Warning, "x", &at.into(), "", "").at_server(command)
        };
        let mut findings = [
            finding("redis://a", "ACL SETUSER app +get +set"),
            finding("redis://a", "CONFIG SET a b"),
            finding("redis://a (master at b:1)", "ACL SETUSER app ~k +get"),
            finding("redis://b", "ACL SETUSER app +del"),
            finding("redis://a", "ACL SETUSER other +del"),
        ];
        in_one_go(&mut findings);
        let commands = findings.map(|finding| match finding.remedy {
            Remedy::AtServer(command) => command,
            other => panic!("{other:?}"),
        });
        let all = "ACL SETUSER app +get +set ~k";
        assert_eq!(commands, [all, "CONFIG SET a b", all, "ACL SETUSER app +del", "ACL SETUSER other +del"]);
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
