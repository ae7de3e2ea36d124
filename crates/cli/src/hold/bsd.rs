//! The parts of `hold` that are specific to macOS and FreeBSD.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The directory with the numbers of our descriptors.
pub(super) const DESCRIPTORS: &str = "/dev/fd";

/// How long a call keeps the pipe open after we have closed it.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Returns when nobody can read our stdout any more.
pub(super) fn wait_for_reader_to_go() -> rustix::io::Result<()> {
    // Errors and hang-ups are always reported; nothing more is needed.
    wait_for(PollFlags::empty())
}

/// Returns when a line can be written to our stdout without blocking, or never will be.
pub(super) fn wait_for_room() -> rustix::io::Result<()> {
    wait_for(PollFlags::OUT)
}

fn wait_for(flags: PollFlags) -> rustix::io::Result<()> {
    loop {
        let stdout = io::stdout();
        match poll(&mut [PollFd::new(&stdout, flags)], Some(&NAP)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
