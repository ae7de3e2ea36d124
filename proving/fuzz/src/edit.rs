//! Changes to valid inputs: few at a time, because most random inputs fail at their first byte.

use proptest::{collection::vec, prelude::*, sample::Index};

/// Signs and short words that have a meaning in some input.
const SIGNS: [&str; 33] = [
    " ", "\0", "\n", "\r\n", "\t", ":", "/", "//", "@", "?", "#", "&", "=", ",", "[", "]", "{", "}", "%",
    "%00", "%2", "%ff", "+", "-", "--", ".", "..", "*", "0", "-1", "1e9", "lh1", "é",
];

/// Numbers at the ends of their ranges, an id, and a character that turns the writing.
const WORDS: [&str; 7] = [
    "4294967296",
    "9007199254740991",
    "9007199254740992",
    "18446744073709551615",
    "18446744073709551616",
    "0123456789abcdef0123456789abcdef",
    "\u{202e}",
];

#[derive(Clone, Debug)]
enum Edit {
    Put(Index, Vec<u8>),
    Replace(Index, u8),
    Cut(Index, usize),
    /// Repeats the bytes at the position.
    Repeat(Index, usize),
    /// Replaces the rest with another input's, from the same position on.
    GoOnAs(Index, Index),
}

impl Edit {
    fn any() -> impl Strategy<Value = Self> {
        let put =
            |what: BoxedStrategy<Vec<u8>>| (any::<Index>(), what).prop_map(|(at, it)| Self::Put(at, it));
        let tokens = [&SIGNS[..], &WORDS].concat();
        let token = any::<Index>().prop_map(move |nth| nth.get(&tokens).as_bytes().to_vec());
        prop_oneof![
            4 => put(token.boxed()),
            2 => put(vec(any::<u8>(), 1..4).boxed()),
            1 => put(vec(Just(b'a'), 200..2000).boxed()),
            3 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Self::Replace(at, byte)),
            3 => (any::<Index>(), 1..20_usize).prop_map(|(at, length)| Self::Cut(at, length)),
            2 => (any::<Index>(), 1..20_usize).prop_map(|(at, length)| Self::Repeat(at, length)),
            2 => (any::<Index>(), any::<Index>()).prop_map(|(at, other)| Self::GoOnAs(at, other)),
        ]
    }

    fn change(&self, bytes: &mut Vec<u8>, corpus: &[&[u8]]) {
        let place = |at: &Index| at.index(bytes.len() + 1);
        match self {
            Self::Put(at, it) => drop(bytes.splice(place(at)..place(at), it.iter().copied())),
            Self::Replace(at, byte) => {
                let at = place(at);
                if let Some(there) = bytes.get_mut(at) {
                    *there = *byte;
                }
            }
            Self::Cut(at, length) => {
                let at = place(at);
                bytes.drain(at..(at + length).min(bytes.len()));
            }
            Self::Repeat(at, length) => {
                let at = place(at);
                let it = bytes[at..(at + length).min(bytes.len())].to_vec();
                bytes.splice(at..at, it);
            }
            Self::GoOnAs(at, other) => {
                let (at, other) = (place(at), other.get(corpus));
                bytes.truncate(at);
                bytes.extend(other.iter().skip(at));
            }
        }
    }
}

/// Bytes close to one of the corpus.
pub fn bytes_near(corpus: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> + Clone {
    changed(corpus.to_vec())
}

/// A text close to one of the corpus.
pub fn text_near(corpus: &'static [&'static str]) -> impl Strategy<Value = String> + Clone {
    let corpus: Vec<_> = corpus.iter().map(|text| text.as_bytes()).collect();
    changed(corpus).prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// Words close to a list of the corpus: some from another list, some missing, some changed.
pub fn words_near(corpus: &'static [&'static [&'static str]]) -> impl Strategy<Value = Vec<Vec<u8>>> + Clone {
    let all: Vec<&[u8]> = corpus.iter().flat_map(|line| line.iter().map(|word| word.as_bytes())).collect();
    let word = changed(all);
    let turns = vec((any::<Index>(), 0..3_u8, word), 0..5);
    (any::<Index>(), turns).prop_map(move |(nth, turns)| {
        let mut line: Vec<Vec<u8>> = nth.get(corpus).iter().map(|word| word.as_bytes().to_vec()).collect();
        for (at, what, word) in turns {
            let at = at.index(line.len() + 1);
            match what {
                0 => line.insert(at, word),
                1 if at < line.len() => drop(line.remove(at)),
                _ if at < line.len() => line[at] = word,
                _ => line.push(word),
            }
        }
        line
    })
}

fn changed(corpus: Vec<&'static [u8]>) -> impl Strategy<Value = Vec<u8>> + Clone {
    (any::<Index>(), vec(Edit::any(), 0..6))
        .prop_map(move |(nth, edits)| {
            let mut bytes = nth.get(&corpus).to_vec();
            edits.iter().for_each(|edit| edit.change(&mut bytes, &corpus));
            bytes
        })
        .boxed()
}
