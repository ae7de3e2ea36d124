//! Takes a descriptor by its number, as Linux allows it to safe code.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;

use rustix::fs::OFlags;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Only unsafe code can turn a number into a descriptor, so the kernel is asked to do it.
pub(super) fn duplicate(number: i32) -> io::Result<OwnedFd> {
    let copied = pidfd_open(getpid(), PidfdFlags::empty())
        .and_then(|us| pidfd_getfd(us, number, PidfdGetfdFlags::empty()));
    match copied {
        Ok(copy) => Ok(copy),
        Err(error @ rustix::io::Errno::BADF) => Err(error.into()),
        // A container's filter refused it, or the kernel does not know it. This opens the same
        // again, so lines must be appended to its end.
        Err(_) => {
            let append = OFlags::APPEND.bits().cast_signed();
            let path = format!("/proc/self/fd/{number}");
            Ok(OpenOptions::new().write(true).custom_flags(append).open(path)?.into())
        }
    }
}
