//! Holders: an unguessable id for machines, and a label for people.

use std::fmt;
use std::sync::Arc;

use crate::Misuse;
use crate::key::Escaped;

/// The id of one attempt to hold: 128 random bits, fresh for every attempt, never used again.
///
/// Anybody who knows it can release or renew the lease, so only its first eight digits are shown.
///
/// ```
/// use leasehold_core::Holder;
///
/// let holder = Holder::from_bits(0x1f0c_9a2e_0000_0000_0000_0000_0000_0001);
/// assert_eq!(holder.to_string(), "1f0c9a2e");
/// ```
// Two halves, because a 128-bit integer would pad what stores it, and there may be very many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Holder {
    high: u64,
    low: u64,
}

impl Holder {
    /// Digits of the written form.
    pub const DIGITS: usize = 32;

    /// Makes an id of 128 bits, which must come from a cryptographic generator.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Self {
        Self { high: (bits >> 64) as u64, low: bits as u64 }
    }

    /// The bits.
    #[must_use]
    pub const fn bits(self) -> u128 {
        (self.high as u128) << 64 | self.low as u128
    }

    /// Returns true if these are ids of the same attempt. In a quorum an attempt may have another id
    /// at each member, and only the last 32 bits of these differ.
    #[must_use]
    pub const fn is_same_attempt(self, other: Self) -> bool {
        self.bits() >> 32 == other.bits() >> 32
    }

    /// The whole id as 32 hexadecimal digits, as stores keep it. Not for people and not for logs.
    #[must_use]
    pub fn digits(self) -> String {
        self.digit_bytes().into_iter().map(char::from).collect()
    }

    /// The same as ASCII. Every request contains it, so this avoids a formatter.
    #[must_use]
    pub fn digit_bytes(self) -> [u8; Self::DIGITS] {
        let digit = |of: u8| b"0123456789abcdef"[usize::from(of)];
        let mut digits = [0; Self::DIGITS];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.bits().to_be_bytes()) {
            (pair[0], pair[1]) = (digit(byte >> 4), digit(byte & 0xf));
        }
        digits
    }

    /// Reads the output of [`Holder::digits`]; `None` for anything else, including capital letters.
    #[must_use]
    pub fn from_digits(digits: &[u8]) -> Option<Self> {
        let plain = digits.len() == Self::DIGITS
            && digits.iter().all(|d| d.is_ascii_digit() || (b'a'..=b'f').contains(d));
        let text = std::str::from_utf8(digits).ok().filter(|_| plain)?;
        u128::from_str_radix(text, 16).ok().map(Self::from_bits)
    }
}

/// The first eight digits: enough to distinguish holders, not enough to impersonate one.
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.high >> 32)
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Holder({self}…)")
    }
}

/// A holder's description of itself: printable text of up to 256 bytes, for people who want to know
/// who holds a lock.
///
/// ```
/// # use leasehold_core::Label;
/// assert_eq!(Label::new("web-3 pid 4711")?.as_str(), "web-3 pid 4711");
/// assert!(Label::new("two\nlines").is_err());
/// # Ok::<(), leasehold_core::Misuse>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Arc<str>);

impl Label {
    /// The longest label, in bytes. It is part of every answer that names the holder.
    pub const MAX_LEN: usize = 256;

    /// Takes a text as a label.
    ///
    /// # Errors
    ///
    /// [`Misuse::LabelTooLong`] and [`Misuse::LabelNotPrintable`].
    pub fn new(text: &str) -> Result<Self, Misuse> {
        if text.len() > Self::MAX_LEN {
            return Err(Misuse::LabelTooLong { len: text.len() });
        }
        if text.chars().any(char::is_control) {
            return Err(Misuse::LabelNotPrintable);
        }
        Ok(Self(text.into()))
    }

    /// A label as a store returned it: escaped and truncated, because anybody may have written it.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        let mut text = Escaped(bytes).to_string();
        let end = (0..=Self::MAX_LEN).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        Self(text.into())
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_reads_back_what_it_wrote() {
        for bits in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_0011_2233_4455_6677] {
            let holder = Holder::from_bits(bits);
            assert_eq!(Holder::from_digits(holder.digits().as_bytes()), Some(holder));
        }
    }

    #[test]
    fn only_thirty_two_small_digits_are_a_holder() {
        let digits = Holder::from_bits(u128::MAX).digits();
        assert_eq!(Holder::from_digits(&digits.as_bytes()[1..]), None);
        assert_eq!(Holder::from_digits(digits.to_uppercase().as_bytes()), None);
        assert_eq!(Holder::from_digits(b"+1234567890123456789012345678901"), None);
    }

    #[test]
    fn a_holder_is_shown_by_its_first_eight_digits_only() {
        let holder = Holder::from_bits(0x0123_4567_89ab_cdef_0011_2233_4455_6677);
        assert_eq!(format!("{holder} {holder:?}"), "01234567 Holder(01234567…)");
    }

    #[test]
    fn a_label_that_would_break_the_line_is_refused_when_ours_and_escaped_when_read() {
        assert!(Label::new(&"x".repeat(Label::MAX_LEN)).is_ok());
        assert!(Label::new(&"x".repeat(Label::MAX_LEN + 1)).is_err());
        assert_eq!(Label::new("a\nb").unwrap_err(), Misuse::LabelNotPrintable);
        assert_eq!(Label::new(&"x".repeat(257)).unwrap_err(), Misuse::LabelTooLong { len: 257 });
        assert_eq!(Label::read(b"a\nb\xff").as_str(), "a\\nb\\xff");
        assert!(Label::read("ü".repeat(300).as_bytes()).as_str().len() <= Label::MAX_LEN);
    }
}
