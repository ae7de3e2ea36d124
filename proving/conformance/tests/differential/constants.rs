//! Constants that the scripts and the Rust code share.

use std::time::Duration;

use leasehold_core::{Fence, Label, LastFence, Shares, WaitQueue};

use crate::scripts;

/// The scripts' constants, each with its number in Rust, or none if only the scripts need it.
fn known() -> Vec<(&'static str, Option<u64>)> {
    let number = |number: usize| Some(u64::try_from(number).unwrap());
    let millis = |time: Duration| Some(u64::try_from(time.as_millis()).unwrap());
    vec![
        ("FENCE_MAX", Some(Fence::MAX.get())),
        ("MARGIN", Some(u64::try_from(Fence::MARGIN.as_micros()).unwrap())),
        ("LOOKED_AHEAD", number(WaitQueue::LOOKED_AHEAD)),
        ("CLEARED_AT_ONCE", number(WaitQueue::CLEARED_AT_ONCE)),
        ("CLEARED_AT_ONCE", number(Shares::CLEARED_AT_ONCE)),
        ("SHARES_KEPT", millis(WaitQueue::KEPT_FOR)),
        ("ENDS_MAX", Some(leasehold_redis::wire::ENDS_MAX)),
        ("LABEL_MAX", number(Label::MAX_LEN)),
        // How long a member keeps its record of the run; histories and cases check it.
        ("KEPT", Some(30 * 24 * 3600 * 1000)),
        // How long a restarted member abstains beyond the longest TTL; cases check it.
        ("BEHIND", Some(1_000_000)),
        ("MOST_AHEAD", millis(LastFence::MOST_AHEAD)),
        ("SIGNAL_KEPT", Some(1000)),
        // The number of digits of a waiter's times; a case checks it.
        ("MOST_DIGITS", None),
        // The number of values that fit on Lua's stack.
        ("AT_ONCE", None),
        // The number of bytes of a value that an answer contains; all of ours are shorter.
        ("LONGEST", None),
    ]
}

/// An error for each constant of this text that has another number in Rust, or that is not known.
pub(crate) fn check(text: &str) -> Result<(), String> {
    let known = known();
    for (name, number) in constants(text) {
        let rust: Vec<_> = known.iter().filter(|(of, _)| *of == name).map(|(_, rust)| *rust).collect();
        if rust.is_empty() {
            return Err(format!("{name} is not in the list of constants"));
        }
        if rust.iter().flatten().any(|rust| *rust != number) {
            return Err(format!("{name} is {number} in a script, and {rust:?} in Rust"));
        }
    }
    Ok(())
}

/// Each `local NAME = NUMBER`, also of several names.
fn constants(text: &str) -> Vec<(&str, u64)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix("local ")?.split_once(" = "));
    let each = lines.flat_map(|(names, values)| names.split(", ").zip(values.split(", ")));
    let is_constant = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    each.filter(|(name, _)| is_constant(name))
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect()
}

#[test]
fn numbers_that_are_in_the_scripts_and_in_rust_are_the_same() {
    let mut found = Vec::new();
    for part in scripts::parts() {
        check(&part.text).unwrap_or_else(|wrong| panic!("{}: {wrong}", part.name));
        found.extend(constants(&part.text).into_iter().map(|(name, _)| name.to_owned()));
    }
    for (name, _) in known() {
        assert!(found.iter().any(|found| found == name), "no script has {name}");
    }
}
