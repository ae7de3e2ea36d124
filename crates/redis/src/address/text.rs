//! Decodes parts of a URL, and refuses those that are wrong.

use leasehold_core::Misuse;
use percent_encoding::percent_decode_str;

pub(crate) const ENCODE: &str =
    "write characters like / ? # @ and spaces in a user or password as %2F %3F %23 %40 and %20";

pub(crate) fn refuse<T>(reason: impl Into<String>) -> Result<T, Misuse> {
    Err(Misuse::Url { reason: reason.into() })
}

pub(crate) fn db_number(text: &str) -> Result<u32, Misuse> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse() {
        Ok(number) if plain => Ok(number),
        _ => refuse(format!(
            "the store URL names a database that is not a number: redis://HOST/0; and if that was meant to be a password, {ENCODE}"
        )),
    }
}

/// In a form, `+` is a space; in a path or a password it is a plus sign.
pub(crate) fn decode(text: &str) -> Result<String, Misuse> {
    match percent_decode_str(text).decode_utf8() {
        Ok(text) => Ok(text.into_owned()),
        Err(_) => refuse("the store URL has something percent-encoded that is not UTF-8: encode it again"),
    }
}
