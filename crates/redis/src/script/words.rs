//! The arguments of a command.

use std::fmt::Display;
use std::io::Write as _;

/// A list of arguments in one buffer: two allocations, however many there are. Every acquisition or
/// release has some twenty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    /// An empty list with room for this many arguments of this many bytes in all.
    pub(super) fn with_room(words: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(words) }
    }

    /// An empty list with room for this many claims, with this many arguments each, of the usual
    /// size of key names or values.
    pub(super) fn for_claims(claims: usize, words: usize) -> Self {
        const BYTES: usize = 48;
        /// The number of arguments before or after those of the claims.
        const BESIDES: usize = 3;
        let words = claims * words + BESIDES;
        Self::with_room(words, words * BYTES)
    }

    /// The number of arguments.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The number of bytes of all arguments.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The arguments in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        (0..self.ends.len()).map(|nth| {
            let start = nth.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[nth]]
        })
    }

    /// Adds an argument.
    pub(crate) fn push(&mut self, word: &[u8]) {
        self.write(|bytes| bytes.extend_from_slice(word));
    }

    /// Adds the displayed form of a value, such as the digits of a number.
    pub(crate) fn show(&mut self, what: impl Display) {
        self.write(|bytes| write!(bytes, "{what}").expect("writing to memory does not fail"));
    }

    /// Adds an argument, which `word` appends to the buffer.
    pub(crate) fn write(&mut self, word: impl FnOnce(&mut Vec<u8>)) {
        word(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }
}

impl<'a> Extend<&'a [u8]> for Words {
    fn extend<W: IntoIterator<Item = &'a [u8]>>(&mut self, words: W) {
        words.into_iter().for_each(|word| self.push(word));
    }
}

impl<'a> FromIterator<&'a [u8]> for Words {
    fn from_iter<W: IntoIterator<Item = &'a [u8]>>(words: W) -> Self {
        let mut all = Self::default();
        all.extend(words);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_out_as_they_went_in() {
        let mut words = Words::with_room(2, 3);
        words.push(b"a");
        words.push(b"");
        words.show(u64::MAX);
        words.write(|bytes| bytes.extend([0xff, b' ']));
        let all: Vec<_> = words.iter().collect();
        assert_eq!(all, [&b"a"[..], b"", b"18446744073709551615", b"\xff "]);
        assert_eq!((words.len(), words.iter().next_back()), (4, Some(&b"\xff "[..])));
        assert_eq!(words, all.into_iter().collect());
    }
}
