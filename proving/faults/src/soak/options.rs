//! The options of a soak test.

use std::time::Duration;

use clap::{Parser, ValueEnum as _, builder::PossibleValuesParser};

use super::{fault::Kind, test_bed::NAMES};
use crate::history::now;

/// Random faults for every kind of lock on every store and topology; checks that the promises hold
#[derive(Clone, Debug, PartialEq, Parser)]
#[command(
    name = "cargo xtask soak",
    disable_version_flag = true,
    after_help = "It exits with 0 if no promise was broken; with 1 if one was, and prints the seed and the path of \
                  the history; and with 64 if an argument is invalid."
)]
pub(crate) struct Options {
    /// How long it takes in all
    #[arg(long, value_name = "N", default_value = "5", value_parser = read_minutes)]
    minutes: f64,
    /// Repeats the choices of an earlier run: which faults, when, and how long; their effects depend
    /// on the machine
    #[arg(long, default_value_t = any_seed(), hide_default_value = true)]
    pub(crate) seed: u64,
    /// Only this topology; may be repeated
    #[arg(long, value_name = "NAME", default_values = NAMES, hide_default_value = true)]
    #[arg(value_parser = PossibleValuesParser::new(NAMES))]
    pub(crate) only: Vec<String>,
    /// Only this kind of fault of stores and connections, by its name in the report: 'half-open',
    /// 'server killed, state lost'; may be repeated; workers are killed and stopped in any case
    #[arg(long = "fault", value_name = "KIND", default_values_t = Kind::value_variants().to_vec(), hide_default_value = true)]
    #[arg(value_parser = read_kind)]
    pub(crate) faults: Vec<Kind>,
}

impl Options {
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs_f64(60.0 * self.minutes)
    }

    /// The arguments that repeat the same choices for one topology.
    pub(crate) fn again(&self, name: &str) -> String {
        let mut words = format!("--seed {} --only {name}", self.seed);
        if self.faults != Kind::value_variants() {
            self.faults.iter().for_each(|kind| words.push_str(&format!(" --fault '{kind}'")));
        }
        words
    }
}

/// A new seed each time, short enough to be typed.
fn any_seed() -> u64 {
    now() / 1000 % 1_000_000_000
}

fn read_minutes(said: &str) -> Result<f64, String> {
    let minutes = said.parse().ok().filter(|minutes| *minutes > 0.0 && *minutes <= 10_000.0);
    minutes.ok_or_else(|| "say a number above 0, up to 10000".into())
}

fn read_kind(said: &str) -> Result<Kind, String> {
    let known = || Kind::value_variants().iter().map(|kind| format!("'{kind}'")).collect::<Vec<_>>();
    Kind::from_str(said, false).map_err(|_| format!("no such kind; there are {}", known().join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Options, String> {
        Options::try_parse_from([&["soak"], words].concat()).map_err(|error| error.to_string())
    }

    #[test]
    fn without_options_every_topology_suffers_every_fault_for_five_minutes() {
        let options = parse(&[]).unwrap();
        assert_eq!((options.length(), &*options.faults), (Duration::from_secs(300), Kind::value_variants()));
        assert_eq!(options.only, NAMES);
        let options = parse(&["--minutes", "0.5", "--only=file", "--only", "quorum"]).unwrap();
        assert_eq!(options.length(), Duration::from_secs(30));
        assert_eq!(options.only, ["file", "quorum"]);
    }

    #[test]
    fn a_report_says_how_to_cause_the_same_faults_again() {
        for again in ["--seed 7 --only file", "--seed 7 --only file --fault 'cut' --fault 'FLUSHALL'"] {
            let words: Vec<_> = again.split([' ', '\'']).filter(|word| !word.is_empty()).collect();
            assert_eq!(parse(&words).unwrap().again("file"), again);
        }
        for kind in Kind::value_variants() {
            assert_eq!(parse(&["--fault", &kind.to_string()]).unwrap().faults, [*kind]);
        }
    }

    #[test]
    fn invalid_settings_are_refused_with_the_remedy() {
        for (words, why) in [
            (["--minutes", "0"], "say a number above 0, up to 10000"),
            (["--minutes", "inf"], "say a number above 0, up to 10000"),
            (["--fault", "rust"], "'failover, ordered', 'slot moved'"),
            (["--only", "etcd"], "cluster, quorum, postgres"),
        ] {
            let error = parse(&words).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
