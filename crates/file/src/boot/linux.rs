//! The boot id of Linux: random, and the same for all processes that see the same /proc.

use std::path::Path;

use crate::error::FileError;

pub(super) fn boot_id() -> Result<String, FileError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    match std::fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Ok(_) => Err(FileError::lasting("/proc/sys/kernel/random/boot_id is empty: mount /proc")),
        Err(error) => Err(FileError::io("read", path, &error)),
    }
}
