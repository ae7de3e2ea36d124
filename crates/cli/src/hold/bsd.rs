//! The parts of `hold` that are specific to macOS and FreeBSD.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The directory with the numbers of our descriptors.
pub(super) const DESCRIPTORS: &str = "/dev/fd";

/// A call keeps the pipe open for this long after we have closed it.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Nobody can read our stdout any more: errors and hang-ups are always reported.
pub(super) const READER_GONE: PollFlags = PollFlags::empty();

/// A line can be written to our stdout without blocking, or never will be.
pub(super) const ROOM: PollFlags = PollFlags::OUT;

pub(super) fn wait_for(flags: PollFlags) -> rustix::io::Result<()> {
    loop {
        let stdout = io::stdout();
        match poll(&mut [PollFd::new(&stdout, flags)], Some(&NAP)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
