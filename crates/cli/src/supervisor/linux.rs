//! The parts of the supervisor that are specific to Linux.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::sys::signal::SigSet;
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal, set_parent_process_death_signal,
};
use rustix::time::ClockId;

use crate::signals::{bit, bits, set_of};

/// It also counts the time during which the machine sleeps.
pub(super) const LEASE_CLOCK: ClockId = ClockId::Boottime;

/// The command can be in our process group: only its descendants are signalled.
pub(crate) const SHARES_OUR_GROUP: bool = true;

/// The kernel preserves the boundaries of records, so a record that is too long is noticed.
pub(super) const BEYOND_RECORD: usize = 1;
pub(super) const SENDS: SendFlags = SendFlags::NOSIGNAL;
pub(super) const RECEIVES: RecvFlags = RecvFlags::CMSG_CLOEXEC;

/// The two ends of a connection. Child processes inherit neither.
pub(crate) fn pair() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

/// The two ends of a number that one side adds to and the other takes.
pub(crate) fn counter() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    let number = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    Ok((rustix::io::fcntl_dupfd_cloexec(&number, 3)?, number))
}

/// Takes all that was added to a [`counter`].
pub(super) fn take(counter: &OwnedFd) -> u64 {
    let mut sum = [0; size_of::<u64>()];
    rustix::io::read(counter, &mut sum).map_or(0, |_| u64::from_ne_bytes(sum))
}

/// A received descriptor, which is not inherited by what is started.
pub(super) fn received(descriptor: OwnedFd) -> OwnedFd {
    descriptor
}

/// The path of this program, even if another version has replaced it at that path.
pub(super) fn ourselves() -> PathBuf {
    "/proc/self/exe".into()
}

/// Has the kernel send us a signal when our parent dies.
pub(super) fn when_parent_dies(signal: Signal) {
    let _ = set_parent_process_death_signal(Some(signal));
}

/// Wakes the supervisor when a child has changed, or the process that started it has died.
#[derive(Debug)]
pub(super) struct Wakes(pub(super) SignalFd);

impl Wakes {
    /// Makes us survive the signals that end or stop other processes. They are blocked and not
    /// ignored, because a child, such as the command, would inherit that.
    pub(super) fn begin() -> Option<Self> {
        SigSet::all().thread_block().ok()?;
        if bits("SigIgn") & bit(Signal::CHILD) != 0 {
            // Otherwise the kernel would discard the command's exit status.
            signal_hook::flag::register(Signal::CHILD.as_raw(), Arc::new(AtomicBool::new(false))).ok()?;
        }
        let _ = rustix::thread::set_name(c"supervisor");
        // Without it the end of the connection does the same.
        when_parent_dies(Signal::HUP);
        let wakes = set_of(bit(Signal::CHILD) | bit(Signal::HUP));
        SignalFd::with_flags(&wakes, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).ok().map(Self)
    }

    pub(super) fn clear(&self) {
        while let Ok(Some(_)) = self.0.read_signal() {}
    }
}

/// A handle of the supervisor, which stays valid if its number is reused. `None` before Linux 5.3.
#[derive(Debug)]
pub(crate) struct Handle(Option<OwnedFd>);

impl Handle {
    pub(crate) fn of(supervisor: &Child) -> Self {
        Self(pidfd_open(Pid::from_child(supervisor), PidfdFlags::empty()).ok())
    }

    /// Continues it, if somebody stopped it.
    pub(crate) fn go_on(&self) {
        if let Some(supervisor) = &self.0 {
            let _ = pidfd_send_signal(supervisor, Signal::CONT);
        }
    }
}

/// True if a process is stopped, by a signal or a debugger: its state follows the name in parentheses.
pub(crate) fn is_stopped(process: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, behind)| behind.starts_with(['T', 't']))
}
