//! Facts from the server: `INFO`, with its version, and the configuration that `INFO` leaves out.

use std::collections::HashMap;

use leasehold_core::{Fault, Finding, Severity};
use redis::{ServerError, Value, cmd, from_redis_value};

use super::diagnosis_run::{DiagnosisRun, Setting, is_denied};
use crate::reply::text_of;

/// The fields of `INFO`, and the values of [`SETTINGS`], as far as they were answered.
#[derive(Default)]
pub(super) struct Facts {
    fields: HashMap<String, String>,
    pub(super) has_info: bool,
    hidden: Vec<(&'static str, ServerError)>,
}

/// A line of `INFO` about a replica.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Replica {
    pub(super) place: String,
    pub(super) is_online: bool,
    /// Seconds since it last reported its progress.
    pub(super) lag: u64,
    /// The number of bytes that it has not confirmed.
    pub(super) behind: u64,
}

const SETTINGS: [&str; 5] =
    ["save", "appendfsync", "min-replicas-to-write", "min-replicas-max-lag", "lua-replicate-commands"];

impl Facts {
    pub(super) async fn ask(look: &mut DiagnosisRun<'_>) -> Result<Self, Fault> {
        let questions = SETTINGS.iter().map(|name| cmd("CONFIG").arg("GET").arg(name).take());
        let heard = look.ask(std::iter::once(cmd("INFO")).chain(questions).collect()).await?;
        let mut facts = Self::default();
        for (nth, heard) in heard.into_iter().enumerate() {
            match (nth, heard) {
                (0, Ok(value)) => text_of(&value).into_iter().for_each(|info| facts.read(&info)),
                (0, Err(error)) => facts.hidden.push(("INFO", error)),
                (_, Ok(value)) => facts.take(value),
                (1, Err(error)) => facts.hidden.push(("CONFIG GET", error)),
                // They are refused for the same reason.
                (_, Err(_)) => {}
            }
        }
        Ok(facts)
    }

    /// Findings for questions that are not permitted.
    pub(super) fn unknown(&self, setting: &Setting) -> Vec<Finding> {
        let finding = |(asked, error): &(&'static str, ServerError)| {
            let (rule, hides) = match *asked {
                "INFO" => ("+info", "version, eviction, persistence and replicas"),
                _ => (
                    "+config|get",
                    "how often the server writes to its disk, and how many replicas it must have",
                ),
            };
            let what = format!("not checked: {hides} ({asked} is refused: {})", error.code());
            let finding = setting.finding(Severity::Unknown, "unknown", what, "the settings may be unsafe");
            match is_denied(error) {
                true => finding.at_server(setting.allow(rule)),
                false => finding.advice(format_args!(
                    "the server has no {asked}: ask whoever runs it, or diagnose it as somebody who may"
                )),
            }
        };
        self.hidden.iter().map(finding).collect()
    }

    /// Reads the answer to `INFO`.
    fn read(&mut self, info: &str) {
        let fields = info.lines().filter_map(|line| line.split_once(':'));
        self.fields.extend(fields.map(|(name, value)| (name.to_owned(), value.to_owned())));
        self.has_info = true;
    }

    /// Reads the answer to `CONFIG GET`: in RESP2 a list of names and values, in RESP3 a map.
    fn take(&mut self, value: Value) {
        self.fields.extend(from_redis_value::<HashMap<_, _>>(value).into_iter().flatten());
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    pub(super) fn replicas(&self) -> Vec<Replica> {
        let written = self.number("master_repl_offset").unwrap_or(0);
        let read = |nth: usize| {
            let line = self.text(&format!("slave{nth}"))?;
            let fields: HashMap<_, _> = line.split(',').filter_map(|field| field.split_once('=')).collect();
            let number = |name: &str| fields.get(name).and_then(|value| value.parse::<u64>().ok());
            Some(Replica {
                place: format!("{}:{}", fields.get("ip")?, fields.get("port")?),
                is_online: fields.get("state") == Some(&"online"),
                lag: number("lag").unwrap_or(0),
                behind: written.saturating_sub(number("offset").unwrap_or(0)),
            })
        };
        (0..).map_while(read).collect()
    }

    #[cfg(test)]
    pub(super) fn of(info: &str) -> Self {
        let mut facts = Self::default();
        facts.read(info);
        facts
    }
}

/// The oldest version that the scripts are tested on.
const OLDEST: (u64, u64) = (5, 0);

pub(super) fn version(setting: &Setting, facts: &Facts) -> Finding {
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
    fn replicas_are_read_with_what_they_lack() {
        let facts = Facts::of(
            "master_repl_offset:1000\r\nslave0:ip=10.0.0.2,port=6379,state=online,offset=900,lag=1\r\n\
             slave1:ip=::1,port=7,state=wait_bgsave,offset=0,lag=0\r\n",
        );
        let [one, other] = &facts.replicas()[..] else { panic!("two") };
        assert_eq!((&*one.place, one.is_online, one.lag, one.behind), ("10.0.0.2:6379", true, 1, 100));
        assert_eq!((&*other.place, other.is_online, other.behind), ("::1:7", false, 1000));
    }

    #[test]
    fn versions_are_recognised_by_name_and_number() {
        let setting = Setting::of_one_server();
        let judged = |info: &str| version(&setting, &Facts::of(info));
        assert_eq!(judged("redis_version:4.0.14").severity, Severity::Warning);
        let valkey = judged("redis_version:7.2.4\nvalkey_version:9.1.0");
        assert!(valkey.what.contains("Valkey 9.1.0"), "{valkey}");
        assert!(judged("redis_version:6.2.0").what.contains("no WAITAOF"));
    }
}
