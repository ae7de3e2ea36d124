//! The options of a soak test.

use std::{fmt, time::Duration};

use super::{fault::Kind, test_bed::NAMES};
use crate::history::now;

/// The text of `--help`.
pub(crate) const HELP: &str = "\
Random faults for every kind of lock on every store and topology; checks that the promises hold.

Usage: cargo xtask soak [--minutes N] [--seed SEED] [--only NAME]… [--fault KIND]…

  --minutes N   how long it takes in all; 5 by default
  --seed SEED   repeats the choices of an earlier run: which faults, when, and how long; their
                effects depend on the machine
  --only NAME   only this topology; may be repeated: memory, file, redis-6.2, redis-7.0,
                redis-7.0-resp2, redis-8.2, valkey-9.1, sentinel, cluster, quorum, postgres
  --fault KIND  only this kind of fault of stores and connections, by its name in the report; may be
                repeated: 'FLUSHALL', 'half-open', 'server killed, state lost'; workers are killed
                and stopped in any case

It exits with 0 if no promise was broken; with 1 if one was, and prints the seed and the path of the
history; and with 64 if an argument is invalid.
";

/// The duration, the kinds of faults, and the topologies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) length: Duration,
    pub(crate) seed: u64,
    pub(crate) only: Vec<&'static str>,
    pub(crate) faults: Vec<Kind>,
}

/// The parsed arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Help,
    Soak(Options),
}

/// An error in the arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OptionError(String);

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(why) = self;
        f.write_str(why)
    }
}

impl Options {
    pub(crate) fn parse(words: &[String]) -> Result<Asked, OptionError> {
        let (mut minutes, mut seed, mut only, mut faults) = (5.0, None, Vec::new(), Vec::new());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let mut value = |what: &str| {
                let value = value.clone().or_else(|| words.next().cloned());
                value.ok_or_else(|| OptionError(format!("{name} wants {what}, and nothing follows it")))
            };
            match name {
                "--help" | "-h" => return Ok(Asked::Help),
                "--minutes" => minutes = read_minutes(&value("a number of minutes")?)?,
                "--seed" => seed = Some(read_seed(&value("a number")?)?),
                "--only" => only.push(read_name(&value("the name of a topology")?)?),
                "--fault" => faults.push(read_kind(&value("a kind of fault")?)?),
                _ => return Err(OptionError(format!("no option {word:?}; --help names them"))),
            }
        }
        if only.is_empty() {
            only.extend(NAMES);
        }
        if faults.is_empty() {
            faults.extend(Kind::ALL);
        }
        let length = Duration::from_secs_f64(60.0 * minutes);
        Ok(Asked::Soak(Self { length, seed: seed.unwrap_or_else(any_seed), only, faults }))
    }
}

impl Options {
    /// The arguments that repeat the same choices for one topology.
    pub(crate) fn again(&self, name: &str) -> String {
        let mut words = format!("--seed {} --only {name}", self.seed);
        if self.faults != Kind::ALL {
            self.faults.iter().for_each(|kind| words.push_str(&format!(" --fault '{kind}'")));
        }
        words
    }
}

/// A new seed each time, short enough to be typed.
fn any_seed() -> u64 {
    now() / 1000 % 1_000_000_000
}

fn read_minutes(said: &str) -> Result<f64, OptionError> {
    match said.parse() {
        Ok(minutes) if minutes > 0.0 && minutes <= 10_000.0 => Ok(minutes),
        _ => Err(OptionError(format!("--minutes {said}: say a number above 0, up to 10000"))),
    }
}

fn read_seed(said: &str) -> Result<u64, OptionError> {
    said.parse().map_err(|_| OptionError(format!("--seed {said}: say a whole number, as a report prints it")))
}

fn read_name(said: &str) -> Result<&'static str, OptionError> {
    let known = NAMES.into_iter().find(|name| *name == said);
    known.ok_or_else(|| {
        OptionError(format!("--only {said}: no such topology; there are {}", NAMES.join(", ")))
    })
}

fn read_kind(said: &str) -> Result<Kind, OptionError> {
    let known = Kind::ALL.into_iter().find(|kind| kind.to_string() == said);
    let names = || Kind::ALL.map(|kind| format!("'{kind}'")).join(", ");
    known.ok_or_else(|| OptionError(format!("--fault '{said}': no such kind; there are {}", names())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Asked, OptionError> {
        Options::parse(&line.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_parsed() {
        let Ok(Asked::Soak(options)) = parse("--minutes 0.5 --seed=7 --only file --only quorum") else {
            panic!()
        };
        let length = Duration::from_secs(30);
        let (only, faults) = (vec!["file", "quorum"], Kind::ALL.to_vec());
        assert_eq!(options, Options { length, seed: 7, only, faults });
        let Ok(Asked::Soak(options)) = parse("") else { panic!() };
        assert_eq!((options.length, options.only), (Duration::from_secs(300), NAMES.to_vec()));
        assert_eq!(parse("--seed 7 --help"), Ok(Asked::Help));
        for kind in Kind::ALL {
            let words = ["--fault".to_owned(), kind.to_string()];
            assert!(matches!(Options::parse(&words), Ok(Asked::Soak(options)) if options.faults == [kind]));
        }
        for (line, again) in [
            ("--seed 7", "--seed 7 --only file"),
            (
                "--seed 7 --fault=cut --fault=FLUSHALL",
                "--seed 7 --only file --fault 'cut' --fault 'FLUSHALL'",
            ),
        ] {
            let Ok(Asked::Soak(options)) = parse(line) else { panic!() };
            assert_eq!(options.again("file"), again);
        }
    }

    #[test]
    fn invalid_settings_are_refused_with_the_remedy() {
        for (line, why) in [
            ("--minutes", "--minutes wants a number of minutes, and nothing follows it"),
            ("--minutes 0", "--minutes 0: say a number above 0, up to 10000"),
            ("--minutes inf", "--minutes inf: say a number above 0, up to 10000"),
            ("--seed x", "--seed x: say a whole number, as a report prints it"),
            ("--hours 3", "no option \"--hours\"; --help names them"),
        ] {
            assert_eq!(parse(line).unwrap_err().to_string(), why);
        }
        assert!(
            parse("--fault rust").unwrap_err().to_string().ends_with("'failover, ordered', 'slot moved'")
        );
        assert!(parse("--only etcd").unwrap_err().to_string().ends_with("cluster, quorum, postgres"));
    }
}
