//! The boot id of the machine.

#[cfg_attr(target_os = "linux", path = "boot/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "boot/bsd.rs")]
mod kernel;

use std::fmt;
use std::sync::Arc;

use crate::error::FileError;

/// The random id of the kernel's current boot. Leases of another one are void, whose holders are gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootId(Arc<str>);

impl BootId {
    /// Uses a text as the id of a boot. For tests, which cannot reboot a machine.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    pub(crate) fn current() -> Result<Self, FileError> {
        kernel::boot_id().map(|id| Self::new(&id))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BootId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_id_is_the_same_at_every_look() {
        let id = BootId::current().unwrap();
        // A UUID, or the digits of one.
        assert!(id.as_str().len() >= 32, "{id}");
        assert_eq!(BootId::current().unwrap(), id);
    }
}
