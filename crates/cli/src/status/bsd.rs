//! Takes a descriptor by its number, as macOS and FreeBSD allow it to safe code.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;

/// Opening this path copies the descriptor: fd(4).
pub(super) fn duplicate(number: i32) -> io::Result<OwnedFd> {
    Ok(OpenOptions::new().write(true).open(format!("/dev/fd/{number}"))?.into())
}
