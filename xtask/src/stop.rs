//! The end of a task that cannot go on, and the arguments that tasks have in common.

use std::{ops::RangeInclusive, process::ExitCode};

/// `EX_USAGE`, as in the `leasehold` command.
const USAGE: u8 = 64;

/// Why a task ends early.
#[derive(Debug, PartialEq)]
pub(crate) enum Stop {
    /// It was called with wrong arguments.
    Usage(String),
    Failed(String),
    /// The reason has been printed.
    Told(ExitCode),
}

impl From<String> for Stop {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl Stop {
    /// Prints the reason, and returns the exit code.
    pub(crate) fn say(self, task: &str) -> ExitCode {
        let (why, code) = match self {
            Self::Usage(why) => (why, ExitCode::from(USAGE)),
            Self::Failed(why) => (why, ExitCode::FAILURE),
            Self::Told(code) => return code,
        };
        eprintln!("xtask {task}: {why}");
        code
    }
}

/// Returns true if the only argument that a task takes was given.
pub(crate) fn flag(arguments: &[String], name: &str) -> Result<bool, Stop> {
    match arguments {
        [] => Ok(false),
        [given] if given == name => Ok(true),
        _ => Err(Stop::Usage(format!("takes only {name}, but was given {:?}", arguments.join(" ")))),
    }
}

/// The number in the only option that a task takes, or the default.
pub(crate) fn number(
    arguments: &[String],
    option: &str,
    default: u64,
    allowed: RangeInclusive<u64>,
) -> Result<u64, Stop> {
    let joined = |given: &String| given.strip_prefix(option)?.strip_prefix('=').map(str::to_owned);
    let said = match arguments {
        [] => return Ok(default),
        [name, number] if name == option => number.clone(),
        [name] if name == option => return Err(Stop::Usage(format!("{option} needs a number"))),
        [given, rest @ ..] => joined(given)
            .filter(|_| rest.is_empty())
            .ok_or_else(|| Stop::Usage(format!("takes only {option} N, but was given {given:?}")))?,
    };
    said.parse().ok().filter(|number| allowed.contains(number)).ok_or_else(|| {
        let (least, most) = allowed.into_inner();
        Stop::Usage(format!("{option} {said}: say a whole number from {least} to {most}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_understood_or_refused_with_the_remedy() {
        let read = |line: &str| {
            let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
            number(&words, "--seconds", 60, 1..=86_400)
        };
        assert_eq!([read(""), read("--seconds 5"), read("--seconds=300")], [Ok(60), Ok(5), Ok(300)]);
        for (line, why) in [
            ("--seconds", "--seconds needs a number"),
            ("--seconds 0", "--seconds 0: say a whole number from 1 to 86400"),
            ("--minutes 5", "takes only --seconds N, but was given \"--minutes\""),
        ] {
            assert_eq!(read(line), Err(Stop::Usage(why.to_owned())));
        }
    }
}
