//! Keys and times in JSON, for all output of the command.

use std::time::Duration;

use leasehold::{Key, Stamp};
use serde::Serialize;

/// A key. One that is not UTF-8 is ambiguous as text, with its escapes, so it is in hexadecimal too.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct KeyText {
    key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
}

impl From<&Key> for KeyText {
    fn from(key: &Key) -> Self {
        let hex = || key.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        Self { key: text_of(key), key_hex: str::from_utf8(key.as_bytes()).is_err().then(hex) }
    }
}

pub(crate) fn text_of(key: &Key) -> String {
    str::from_utf8(key.as_bytes()).map_or_else(|_| key.to_string(), Into::into)
}

pub(crate) fn line(object: &impl Serialize) -> String {
    serde_json::to_string(object).expect("text and numbers can be written as JSON") + "\n"
}

/// A reading of a store's clock, in milliseconds since 1970.
pub(crate) const fn millis_of(reading: Stamp) -> u64 {
    reading.as_micros() / 1000
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
