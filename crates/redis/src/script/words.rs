//! The words of a command.

use std::fmt::Display;
use std::io::Write as _;

/// Words one behind the other: however many they are, in two allocations. Every lock that is taken or let go has some twenty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Words {
    /// No words, and room for so many of so many bytes together.
    pub(super) fn with_room(words: usize, bytes: usize) -> Self {
        Self { bytes: Vec::with_capacity(bytes), ends: Vec::with_capacity(words) }
    }

    /// No words, and room for those of so many claims, so many each: as much as the names of keys, or values, mostly take.
    pub(super) fn for_claims(claims: usize, words: usize) -> Self {
        const BYTES: usize = 48;
        /// What stands before or behind those of the claims.
        const BESIDES: usize = 3;
        let words = claims * words + BESIDES;
        Self::with_room(words, words * BYTES)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of all together.
    pub(super) fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Each, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        (0..self.ends.len()).map(|nth| {
            let start = nth.checked_sub(1).map_or(0, |before| self.ends[before]);
            &self.bytes[start..self.ends[nth]]
        })
    }

    /// One more.
    pub(crate) fn push(&mut self, word: &[u8]) {
        self.write(|bytes| bytes.extend_from_slice(word));
    }

    /// What something shows of itself, such as the digits of a number.
    pub(crate) fn show(&mut self, what: impl Display) {
        self.write(|bytes| write!(bytes, "{what}").expect("writing to memory does not fail"));
    }

    /// One more, which `word` writes behind what is there.
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
