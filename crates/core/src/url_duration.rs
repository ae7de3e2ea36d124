//! Durations in the URLs of stores.

use std::time::Duration;

/// Reads a whole number with its unit, such as `500ms`, `30s` or `2m`; `None` for anything else.
#[must_use]
pub fn url_duration(text: &str) -> Option<Duration> {
    let units = [("ms", 1_000_000), ("s", 1_000_000_000), ("m", 60_000_000_000)];
    let (number, nanos) = units.iter().find_map(|(unit, nanos)| Some((text.strip_suffix(unit)?, *nanos)))?;
    // An integer's own reader would take a plus sign too.
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = is_number.then(|| number.parse().ok())??;
    number.checked_mul(nanos).map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_a_whole_number_with_its_unit() {
        let millis = |text| url_duration(text).map(|time| time.as_millis());
        assert_eq!(
            ["5500ms", "90s", "2m", "0s"].map(millis),
            [Some(5500), Some(90_000), Some(120_000), Some(0)]
        );
        for text in [
            "",
            "s",
            "90",
            "+1s",
            "-1s",
            "1.5s",
            " 1s",
            "1h",
            "1S",
            "99999999999999999999s",
            "99999999999999m",
        ] {
            assert_eq!(millis(text), None, "{text:?}");
        }
    }
}
