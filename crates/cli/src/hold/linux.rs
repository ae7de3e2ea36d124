//! The parts of `hold` that are specific to Linux.

use std::io;

use rustix::event::epoll;
use rustix::io::Errno;

/// The directory with the numbers of our descriptors.
pub(super) const DESCRIPTORS: &str = "/proc/self/fd";

/// Returns when nobody can read our stdout any more.
pub(super) fn wait_for_reader_to_go() -> rustix::io::Result<()> {
    // Errors and hang-ups are always reported; nothing more is needed.
    wait_for(epoll::EventFlags::empty())
}

/// Returns when a line can be written to our stdout without blocking, or never will be.
pub(super) fn wait_for_room() -> rustix::io::Result<()> {
    wait_for(epoll::EventFlags::OUT)
}

/// With an event queue and not with poll(2), which would keep the pipe open while it waits,
/// although we close it.
fn wait_for(flags: epoll::EventFlags) -> rustix::io::Result<()> {
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
