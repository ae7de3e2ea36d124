//! Error types: one for each operation.

mod guard;
mod hold;
mod lock;
mod locks;

use std::fmt;
use std::time::Duration;

use leasehold_core::{Fault, FaultCause};

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

/// What a store with this fault did not do in time. One that says why it does not serve has answered.
fn undone(fault: &Fault) -> &'static str {
    if fault.cause == FaultCause::NotServing { "not served" } else { "no answer" }
}

/// Implements [`std::error::Error`] for an error whose source is what these variants contain; those
/// after the semicolon have no source.
macro_rules! source_of {
    ($error:ident { $($variant:ident)* $(; $($without:ident)*)? }) => {
        impl std::error::Error for $error {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                match self {
                    $(Self::$variant(source) => Some(source),)*
                    $($(Self::$without { .. } => None,)*)?
                }
            }
        }
    };
}
pub(crate) use source_of;
