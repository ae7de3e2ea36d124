//! Error types: one for each operation.

mod guard;
mod hold;
mod lock;
mod locks;

use std::fmt;
use std::time::Duration;

pub use guard::{ReleaseError, RenewError};
pub use hold::HoldError;
pub use lock::LockError;
pub use locks::{CloseError, ConnectError, InspectError};

/// A duration for people: milliseconds below a second, and tenths of a second above.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < Duration::from_secs(1) {
            write!(f, "{} ms", self.0.as_millis())
        } else {
            write!(f, "{:.1} s", self.0.as_secs_f64())
        }
    }
}
