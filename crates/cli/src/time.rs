//! Durations as text: on the command line, and for people.

use std::time::{Duration, UNIX_EPOCH};

use humantime::format_rfc3339_seconds;

/// Parses `30` (seconds), `500ms`, `30s`, `2m`, `1h30m`, `1.5s`.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut sum = Duration::ZERO;
    let mut last_unit = None;
    while !rest.is_empty() || last_unit.is_none() {
        let (number, behind) = split(rest, |c| !c.is_ascii_digit() && c != '.');
        let (unit, behind) = split(behind, |c| !c.is_ascii_alphabetic());
        let nanos = match unit {
            "ms" => 1_000_000,
            // Only alone may a number lack a unit: in `1m30`, that of the 30 is unclear.
            "" if last_unit.is_none() && behind.is_empty() => 1_000_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return None,
        };
        // Greater units first, as is usual: anything else is a mistake.
        if last_unit.is_some_and(|last| nanos >= last) {
            return None;
        }
        sum = sum.checked_add(times(number, nanos)?)?;
        last_unit = Some(nanos);
        rest = behind;
    }
    Some(sum)
}

/// A decimal number of units. With integers, so that `0.1` is exactly a tenth.
fn times(number: &str, nanos_each: u64) -> Option<Duration> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    // Digits after the ninth are below a nanosecond.
    let shown: String = fraction.chars().chain(std::iter::repeat('0')).take(9).collect();
    let billionths: u64 = shown.parse().ok()?;
    let nanos = u128::from(whole) * u128::from(nanos_each)
        + u128::from(billionths) * u128::from(nanos_each) / 1_000_000_000;
    u64::try_from(nanos).ok().map(Duration::from_nanos)
}

fn split(text: &str, end: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(end).unwrap_or(text.len()))
}

/// A duration for people, short and with at most two units: `850ms`, `9.4s`, `28s`, `12m04s`,
/// `3h12m`, `4d03h`. Rounded down, so that nobody counts on more than there is.
pub(crate) fn shown(time: Duration) -> String {
    let seconds = time.as_secs();
    let [minutes, hours, days] = [seconds / 60, seconds / 3600, seconds / 86_400];
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..10 => format!("{seconds}.{}s", time.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86_400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

/// A moment in UTC, from milliseconds since 1970.
pub(crate) fn moment(millis: u64) -> String {
    // The end of the year 9999 is the last moment with this format.
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    format_rfc3339_seconds(UNIX_EPOCH + Duration::from_millis(millis).min(LAST)).to_string()
}

pub(crate) fn left(remaining: Option<Duration>) -> String {
    remaining.map_or_else(|| "no end".into(), shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_units_and_fractions_are_read() {
        for (text, millis) in [
            ("30", 30_000),
            ("0", 0),
            ("1.5", 1_500),
            (".5", 500),
            ("500ms", 500),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("1m1s1ms", 61_001),
            ("0.1s", 100),
            ("1.5h", 5_400_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn people_are_shown_two_units_at_most_and_never_more_than_there_is() {
        for (millis, text) in [
            (0, "0ms"),
            (999, "999ms"),
            (1_000, "1.0s"),
            (9_999, "9.9s"),
            (10_000, "10s"),
            (59_999, "59s"),
            (60_000, "1m00s"),
            (3_599_999, "59m59s"),
            (3_600_000, "1h00m"),
            (86_399_999, "23h59m"),
            (356_400_000, "4d03h"),
        ] {
            assert_eq!(shown(Duration::from_millis(millis)), text);
        }
        assert_eq!(left(None), "no end");
    }

    #[test]
    fn anything_else_is_refused() {
        let short = [
            "", "s", "abc", "-5", "+5", "1 s", " 1", "1m30", "30s1m", "1s1s", "1.2.3", ".", ".s", "1e3",
            "5y", "1S", "1us", "٣s", "inf", "NaN",
        ];
        for text in short.into_iter().chain(["99999999999999999999", "99999999999d"]) {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
