//! `cargo xtask interop`: runs all the other languages' libraries and Leasehold on one key for a
//! given time.

use std::process::ExitCode;

use crate::{
    USAGE, peers, servers,
    step::{Step, account},
};

/// The default time.
const SECONDS: u64 = 60;

/// The two tests in which all libraries compete, one after the other: on one server, and on three.
const TESTS: &str = "everybody_gets_in_and_nobody_is_there_at_once";

pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let seconds = match read(arguments) {
        Ok(seconds) => seconds.to_string(),
        Err(why) => {
            eprintln!("xtask interop: {why}");
            return ExitCode::from(USAGE);
        }
    };
    if let Err(failed) = servers::fetch() {
        return failed;
    }
    let left_out = match peers::fetch() {
        Ok(left_out) => left_out,
        Err(failed) => return failed,
    };
    let line = ["test", "-p", "interop", "--test", "mixed", "--", TESTS, "--nocapture", "--test-threads=1"];
    let mut steps = vec![Step::cargo(&line, &[("LEASEHOLD_HAMMER_SECONDS", &seconds)])];
    steps.extend(left_out.into_iter().map(Step::left_out));
    account("interop", &steps)
}

fn read(arguments: &[String]) -> Result<u64, String> {
    let said = match arguments {
        [] => return Ok(SECONDS),
        [name, seconds] if name == "--seconds" => seconds,
        [joined] if joined.starts_with("--seconds=") => &joined["--seconds=".len()..],
        [name] if name == "--seconds" => {
            return Err("--seconds needs a number".to_owned());
        }
        [other, ..] => return Err(format!("takes only --seconds N, but was given {other:?}")),
    };
    match said.parse() {
        Ok(seconds @ 1..=86_400) => Ok(seconds),
        _ => Err(format!("--seconds {said}: say a whole number from 1 to 86400")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<u64, String> {
        super::read(&line.split_whitespace().map(ToOwned::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn seconds_are_understood_or_refused_with_the_remedy() {
        assert_eq!([read(""), read("--seconds 5"), read("--seconds=300")], [Ok(SECONDS), Ok(5), Ok(300)]);
        for (line, why) in [
            ("--seconds", "--seconds needs a number"),
            ("--seconds 0", "--seconds 0: say a whole number from 1 to 86400"),
            ("--minutes 5", "takes only --seconds N, but was given \"--minutes\""),
        ] {
            assert_eq!(read(line), Err(why.to_owned()));
        }
    }
}
