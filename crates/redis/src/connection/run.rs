//! The run of a server, by which a restart is noticed.

use std::sync::Arc;

/// The run of a server that vouches for its leases, if that is needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run(Option<Arc<str>>);

impl Run {
    pub(crate) const fn new(run: Option<Arc<str>>) -> Self {
        Self(run)
    }

    pub(crate) fn get(&self) -> Option<&str> {
        self.0.as_deref()
    }
}
