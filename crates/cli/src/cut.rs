//! Cuts text to the width of a column.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Cuts a text at its end if it is too wide.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    beginning(text.chars(), width.saturating_sub(1)).chain(['…']).collect()
}

/// Cuts a text in its middle if it is too wide.
pub(crate) fn cut_amid(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    let room = width.saturating_sub(1);
    gapped(text, room.div_ceil(2), text, room / 2)
}

/// Cuts texts so that different texts never look the same, for widths of at least [`APART`]. Each
/// is cut in its middle if that distinguishes it from the others; otherwise it is shown from where
/// they begin to differ. If even that is not enough, some digits replace the rest.
pub(crate) fn cut_apart<'a>(
    texts: impl IntoIterator<Item = &'a str>,
    width: usize,
) -> BTreeMap<&'a str, String> {
    let all: BTreeSet<&str> = texts.into_iter().collect();
    let (fit, wide): (Vec<_>, Vec<_>) = all.into_iter().partition(|text| text.width() <= width);
    let mut looks = BTreeMap::new();
    spread(wide, 0, width, &mut looks);
    looks.extend(fit.into_iter().map(|text| (text, text.to_owned())));
    for digits in 4..=16 {
        let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (text, look) in &looks {
            alike.entry(look.clone()).or_default().push(*text);
        }
        let alike: Vec<_> = alike.into_values().filter(|texts| texts.len() > 1).flatten().collect();
        if alike.is_empty() {
            break;
        }
        for text in alike.into_iter().filter(|text| text.width() > width) {
            looks.insert(text, numbered(text, width, digits));
        }
    }
    looks
}

/// The smallest width for which [`cut_apart`] keeps that promise.
pub(crate) const APART: usize = 8;

/// Cuts sorted texts that are equal up to some byte.
fn spread<'a>(texts: Vec<&'a str>, same: usize, width: usize, looks: &mut BTreeMap<&'a str, String>) {
    let mut alike: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for text in texts {
        let look = if same == 0 { cut_amid(text, width) } else { from(text, same, width) };
        alike.entry(look).or_default().push(text);
    }
    for (look, texts) in alike {
        match &*texts {
            [first, .., last] if common(first, last) > same => {
                let same = common(first, last);
                spread(texts, same, width, looks);
            }
            _ => looks.extend(texts.into_iter().map(|text| (text, look.clone()))),
        }
    }
}

/// The length in bytes of the common prefix of two texts, in whole characters.
fn common(one: &str, other: &str) -> usize {
    let pairs = one.char_indices().zip(other.chars());
    let differs = pairs.clone().find(|((_, a), b)| a != b).map(|((at, _), _)| at);
    differs.unwrap_or_else(|| one.len().min(other.len()))
}

/// The beginning, and the part from some byte on, or as much of the end as fits.
fn from(text: &str, at: usize, width: usize) -> String {
    let head = width / 3;
    let room = width.saturating_sub(head + 1);
    let rest = &text[at..];
    if rest.width() <= room {
        return gapped(text, head, text, room);
    }
    gapped(text, head, "", 0) + &cut(rest, room)
}

fn numbered(text: &str, width: usize, digits: usize) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let number = format!("{:016x}", hasher.finish());
    gapped(text, width.saturating_sub(digits + 1), &number, digits)
}

/// Part of the beginning of one text, and part of the end of another.
fn gapped(begins: &str, head: usize, ends: &str, tail: usize) -> String {
    let tail: Vec<_> = beginning(ends.chars().rev(), tail).collect();
    beginning(begins.chars(), head).chain(['…']).chain(tail.into_iter().rev()).collect()
}

fn beginning(text: impl Iterator<Item = char>, room: usize) -> impl Iterator<Item = char> {
    let mut taken = 0;
    text.take_while(move |c| {
        taken += c.width().unwrap_or(0);
        taken <= room
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::proptest;

    use super::*;

    fn apart(texts: &[&str], width: usize) -> Vec<String> {
        let looks = cut_apart(texts.iter().copied(), width);
        texts.iter().map(|text| looks[text].clone()).collect()
    }

    #[test]
    fn short_text_stays_and_long_text_loses_its_middle() {
        assert_eq!(apart(&["deploy", "invoice:2024-11-21:42"], 16), ["deploy", "invoice:…1-21:42"]);
    }

    #[test]
    fn keys_that_differ_in_their_middle_are_shown_from_there() {
        let keys = ["invoice:2024-11-20:customer:0042", "invoice:2024-11-21:customer:0042"];
        assert_eq!(apart(&keys, 20), ["invoic…0:customer:0…", "invoic…1:customer:0…"]);
    }

    #[test]
    fn a_name_is_told_from_a_similar_neighbour_by_digits_alone() {
        let looks = apart(&["aaaa…aaa", "aaaaaaaaaaaaaaaa"], 8);
        assert_eq!(looks[0], "aaaa…aaa");
        assert!(looks[1].starts_with("aaa…"), "{looks:?}");
    }

    proptest! {
        #[test]
        fn two_that_differ_never_look_the_same_and_none_is_wider(
            texts in vec("[ab…鍵]{0,40}", 0..60), width in APART..30,
        ) {
            let looks = cut_apart(texts.iter().map(String::as_str), width);
            let distinct: BTreeSet<_> = looks.values().collect();
            assert_eq!(distinct.len(), texts.iter().collect::<BTreeSet<_>>().len());
            assert!(looks.values().all(|look| look.width() <= width), "{looks:?}");
        }
    }
}
