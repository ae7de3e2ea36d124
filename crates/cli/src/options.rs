//! Values of options, and the variables of the environment that replace missing options.

use std::env;
use std::str::FromStr;
use std::time::Duration;

use crate::exit::Failure;
use crate::time;

/// The variable that replaces a missing option: LEASEHOLD_TTL for --ttl.
pub(crate) fn variable(option: &str) -> String {
    format!("LEASEHOLD_{}", option.trim_start_matches('-').replace('-', "_").to_uppercase())
}

/// The value of a variable; an empty one counts as not set.
pub(crate) fn value_of(variable: &str) -> Option<String> {
    let text = env::var_os(variable).filter(|text| !text.is_empty());
    text.map(|text| text.to_string_lossy().into_owned())
}

/// The name and the value of an option, or those of its variable if the option is missing.
pub(crate) fn or_variable(option: &str, text: Option<String>) -> (String, Option<String>) {
    if text.is_some() {
        return (option.into(), text);
    }
    let name = variable(option);
    let text = value_of(&name);
    (name, text)
}

/// The time that an option names, or its variable if the option is missing.
pub(crate) fn default_time(option: &str, text: Option<String>) -> Result<Option<Duration>, Failure> {
    let (name, text) = or_variable(option, text);
    time_of(&name, text)
}

pub(crate) fn time_of(option: &str, text: Option<String>) -> Result<Option<Duration>, Failure> {
    let Some(text) = text else { return Ok(None) };
    time::parse(&text).map(Some).ok_or_else(|| {
        Failure::usage(format!(
            "{option}: {text:?} is not a length of time: write seconds, or numbers with units as in 500ms, 30s, 2m or 1h30m"
        ))
    })
}

/// A number that is written in digits alone: `+5` and ` 5` are slips.
pub(crate) fn digits<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The exit code that an option names, or its variable if the option is missing.
pub(crate) fn exit_code(option: &str, text: Option<String>) -> Result<Option<u8>, Failure> {
    let (name, text) = or_variable(option, text);
    let Some(text) = text else { return Ok(None) };
    digits(&text).map(Some).ok_or_else(|| {
        Failure::usage(format!("{name}: {text:?} is not an exit code: write a number from 0 to 255"))
    })
}
