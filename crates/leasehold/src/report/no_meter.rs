//! The metrics without the feature `metrics`: nothing is counted.

use crate::event::Event;

pub(super) const IS_THERE: bool = false;

#[derive(Debug)]
pub(super) struct Meter {}

impl Meter {
    pub(super) const fn new(_: &std::sync::Arc<str>) -> Self {
        Self {}
    }

    pub(super) const fn count(&self, _: &Event) {}
}
