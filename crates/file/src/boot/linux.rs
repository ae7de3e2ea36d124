//! The boot id of Linux: random, and the same for all processes that see the same /proc.

use std::io::ErrorKind;
use std::path::Path;

use crate::error::FileError;

pub(super) fn boot_id() -> Result<String, FileError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    match std::fs::read_to_string(path) {
        Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        Ok(_) => Err(FileError::lasting(format_args!("{} is empty: mount /proc", path.display()))),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(FileError::lasting(format_args!("{} is not there: mount /proc", path.display())))
        }
        Err(error) => Err(FileError::io("read", path, &error)),
    }
}
