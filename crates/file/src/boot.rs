//! The boot id of the machine.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::trouble::Trouble;

/// The random id of the kernel's current boot. Leases that were written under another id are void:
/// their holders are gone, and the clock on which they were counted has restarted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootId(Arc<str>);

impl BootId {
    /// Uses a text as the id of a boot. For tests, which cannot reboot a machine.
    #[must_use]
    pub fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// The id of the running kernel.
    pub(crate) fn current() -> Result<Self, Trouble> {
        let path = Path::new("/proc/sys/kernel/random/boot_id");
        match std::fs::read_to_string(path) {
            Ok(text) if !text.trim().is_empty() => Ok(Self::new(text.trim())),
            Ok(_) => Err(Trouble::lasting("/proc/sys/kernel/random/boot_id is empty: mount /proc")),
            Err(error) => Err(Trouble::io("read", path, &error)),
        }
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
        assert_eq!((id.as_str().len(), &BootId::current().unwrap()), (36, &id));
    }
}
