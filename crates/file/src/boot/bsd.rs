//! The boot id of macOS and FreeBSD: random, by sysctl(3). The time of the boot, `kern.boottime`,
//! would not do: it moves when somebody sets the clock, and all leases would be void.

use sysctl::{Ctl, CtlValue, Sysctl as _};

use crate::error::FileError;

#[cfg(target_vendor = "apple")]
const NAME: &str = "kern.bootsessionuuid";
#[cfg(target_os = "freebsd")]
const NAME: &str = "kern.boot_id";

pub(super) fn boot_id() -> Result<String, FileError> {
    match Ctl::new(NAME).and_then(|ctl| ctl.value()) {
        Ok(CtlValue::String(id)) if !id.is_empty() => Ok(id),
        Ok(CtlValue::Struct(id)) if !id.is_empty() => {
            Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
        }
        Ok(_) => Err(FileError::lasting(format_args!("sysctl {NAME} is empty: use a newer system"))),
        Err(error) => {
            Err(FileError::lasting(format_args!("cannot read sysctl {NAME} ({error}): use a newer system")))
        }
    }
}
