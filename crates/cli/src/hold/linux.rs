//! The parts of `hold` that are specific to Linux.

use std::io;

use rustix::event::epoll;
use rustix::io::Errno;

/// The directory with the numbers of our descriptors.
pub(super) const DESCRIPTORS: &str = "/proc/self/fd";

/// Nobody can read our stdout any more: errors and hang-ups are always reported.
pub(super) const READER_GONE: epoll::EventFlags = epoll::EventFlags::empty();

/// A line can be written to our stdout without blocking, or never will be.
pub(super) const ROOM: epoll::EventFlags = epoll::EventFlags::OUT;

/// Waits with an event queue: poll(2) would keep the pipe open although we close it.
pub(super) fn wait_for(flags: epoll::EventFlags) -> rustix::io::Result<()> {
    let queue = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&queue, io::stdout(), epoll::EventData::new_u64(0), flags)?;
    let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }];
    loop {
        match epoll::wait(&queue, &mut events[..], None) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}
