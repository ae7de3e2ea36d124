//! The variables of the environment that we read, and that we set for the command.

use std::env;
use std::time::Duration;

use crate::exit::Failure;
use crate::options::{time_of, value_of};

pub(crate) const KEY: &str = "LEASEHOLD_KEY";
pub(crate) const KEYS: &str = "LEASEHOLD_KEYS";
pub(crate) const MODES: &str = "LEASEHOLD_MODES";
pub(crate) const FENCE: &str = "LEASEHOLD_FENCE";
pub(crate) const LABEL: &str = "LEASEHOLD_LABEL";
pub(crate) const STORE: &str = "LEASEHOLD_STORE";
pub(crate) const STORES: &str = "LEASEHOLD_STORES";
pub(crate) const MAX_TTL: &str = "LEASEHOLD_MAX_TTL";

/// The label from the environment, unless an outer run set it for its own use.
pub(crate) fn label() -> Option<String> {
    value_of(LABEL).filter(|_| !is_nested())
}

pub(crate) fn max_ttl() -> Result<Option<Duration>, Failure> {
    time_of(MAX_TTL, value_of(MAX_TTL))
}

/// Returns true if we run under another run, which removed the password from the store's URL.
pub(crate) fn is_nested() -> bool {
    env::var_os(KEYS).is_some()
}
