//! A cycle of a comparison: what a library does, and the bare loop next to it.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

/// Acquires and releases a key that nobody else wants.
pub(crate) trait Cycle: Clone + Send + Sync + 'static {
    fn cycle(&self, key: &str, serial: u64) -> impl Future<Output = Result<(), AnyError>> + Send;
}

/// Any error, as text.
pub type AnyError = Box<dyn Error + Send + Sync>;

/// The TTL of every lock of a comparison: longer than anything lasts in it.
pub const TTL: Duration = Duration::from_secs(10);
