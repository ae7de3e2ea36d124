//! The parts of the supervisor that are specific to macOS and FreeBSD.

use std::io::{ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;

use nix::sys::signal::SigSet;
use rustix::io::{Errno, FdFlags, fcntl_setfd, ioctl_fionbio};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::ClockId;

/// On macOS it also counts the time during which the machine sleeps.
pub(super) const LEASE_CLOCK: ClockId = ClockId::Monotonic;

/// The command has its own process group, which is the only way to find its descendants.
pub(crate) const SHARES_OUR_GROUP: bool = false;

/// The connection is a stream: bytes after a record belong to the next one.
pub(super) const BEYOND_RECORD: usize = 0;
/// The standard library makes us ignore SIGPIPE.
pub(super) const SENDS: SendFlags = SendFlags::empty();
pub(super) const RECEIVES: RecvFlags = RecvFlags::empty();

/// The two ends of a connection. Child processes inherit neither.
pub(crate) fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (one, other) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
    Ok((received(one), received(other)))
}

/// The two ends of a number that one side adds to and the other takes: a pipe with its summands.
pub(crate) fn counter() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let (theirs, ours) =
        std::io::pipe().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    ioctl_fionbio(&theirs, true)?;
    ioctl_fionbio(&ours, true)?;
    Ok((ours.into(), theirs.into()))
}

/// Takes all that was added to a [`counter`].
pub(super) fn take(counter: &OwnedFd) -> u64 {
    let (mut sum, mut more) = (0_u64, [0; size_of::<u64>()]);
    while rustix::io::read(counter, &mut more) == Ok(more.len()) {
        sum = sum.saturating_add(u64::from_ne_bytes(more));
    }
    sum
}

/// A received descriptor, which is not inherited by what is started.
pub(super) fn received(descriptor: OwnedFd) -> OwnedFd {
    let _ = fcntl_setfd(&descriptor, FdFlags::CLOEXEC);
    descriptor
}

/// The path of this program. If that is unknown, an empty path, which cannot be started.
pub(super) fn ourselves() -> PathBuf {
    std::env::current_exe().unwrap_or_default()
}

/// These kernels do not tell a process that its parent has died; the end of the connection does.
pub(super) fn when_parent_dies(_: Signal) {}

/// Wakes the supervisor when a child has changed.
#[derive(Debug)]
pub(super) struct Wakes(pub(super) UnixStream);

impl Wakes {
    /// Makes us survive the signals that end or stop other processes, by blocking them.
    pub(super) fn begin() -> Option<Self> {
        let (wakes, wake) = UnixStream::pair().ok()?;
        wakes.set_nonblocking(true).ok()?;
        signal_hook::low_level::pipe::register(Signal::CHILD.as_raw(), wake).ok()?;
        let mut others = SigSet::all();
        others.remove(nix::sys::signal::SIGCHLD);
        others.thread_set_mask().ok()?;
        Some(Self(wakes))
    }

    pub(super) fn clear(&self) {
        let mut bytes = [0; 64];
        loop {
            match (&self.0).read(&mut bytes) {
                Ok(0) => return,
                Err(error) if error.kind() != ErrorKind::Interrupted => return,
                Ok(_) | Err(_) => {}
            }
        }
    }
}

/// The supervisor, our child: its number is not reused before we have waited for it.
#[derive(Debug)]
pub(crate) struct Handle(Pid);

impl Handle {
    pub(crate) fn of(supervisor: &Child) -> Self {
        Self(Pid::from_child(supervisor))
    }

    /// Continues it, if somebody stopped it.
    pub(crate) fn go_on(&self) {
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// Returns true if a process is known to be stopped; this kernel does not report that.
pub(crate) fn is_stopped(_: Pid) -> bool {
    false
}
