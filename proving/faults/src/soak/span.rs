//! The parts of a request span, with what holds for one without a wish or a grant.

use crate::{RequestSpan, wish::Wanted};

pub(crate) fn keys(span: &RequestSpan) -> impl Iterator<Item = &str> {
    span.wish.iter().flat_map(|wish| wish.keys.iter().map(String::as_str))
}

pub(crate) fn mode(span: &RequestSpan) -> Wanted {
    span.wish.as_ref().map_or(Wanted::Alone, |wish| wish.mode)
}

pub(crate) fn begins(span: &RequestSpan) -> u64 {
    span.granted.map_or(0, |(at, _)| at)
}

pub(crate) fn fence(span: &RequestSpan) -> u64 {
    span.granted.map_or(0, |(_, fence)| fence)
}
