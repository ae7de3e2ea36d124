//! Values of options, and the variables of the environment that replace missing options.

use std::env;
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

/// The time that an option names, or its variable if the option is missing.
///
/// # Errors
///
/// [`Failure`] if that is not a time.
pub(crate) fn default_time(option: &str, text: Option<String>) -> Result<Option<Duration>, Failure> {
    if text.is_some() {
        return time_of(option, text);
    }
    let name = variable(option);
    time_of(&name, value_of(&name))
}

/// The time that an option names.
///
/// # Errors
///
/// [`Failure`] if that is not a time.
pub(crate) fn time_of(option: &str, text: Option<String>) -> Result<Option<Duration>, Failure> {
    let time = text.as_deref().map(time::parse).transpose();
    time.map_err(|error| Failure::usage(error.to_string()).about(option))
}

/// The exit code that an option names, or its variable if the option is missing.
///
/// # Errors
///
/// [`Failure`] if that is not an exit code.
pub(crate) fn exit_code(option: &str, text: Option<String>) -> Result<Option<u8>, Failure> {
    let name = variable(option);
    let (option, text) = match text {
        Some(text) => (option, text),
        None => match value_of(&name) {
            Some(text) => (&*name, text),
            None => return Ok(None),
        },
    };
    // Only digits: `+5` and ` 5` are slips.
    let digits = Some(&text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    digits.and_then(|digits| digits.parse().ok()).map(Some).ok_or_else(|| {
        Failure::usage(format!("{option}: {text:?} is not an exit code: write a number from 0 to 255"))
    })
}
