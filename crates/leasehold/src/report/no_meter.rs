//! The metrics without the feature `metrics`: nothing is counted.

use crate::event::Event;

pub(super) const IS_THERE: bool = false;

pub(super) const fn count(_: &std::sync::Arc<str>, _: &Event) {}
