//! The terminal that Ctrl-C and Ctrl-Z are typed at.

use std::os::fd::OwnedFd;

use nix::sys::signal::{SigSet, Signal};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, getpgrp, test_kill_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

/// The terminal of our session.
#[derive(Debug)]
pub(crate) struct Terminal {
    device: OwnedFd,
    /// How it was set when it was ours; `None` if we began in the background.
    modes: Option<Termios>,
}

impl Terminal {
    /// `None` without one: in cron, under systemd, in most containers. Not asked of stdin: in `ls | leasehold run k -- less`
    /// that is a pipe, and the keys come from the terminal all the same.
    pub(crate) fn of_session() -> Option<Self> {
        let device = open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()).ok()?;
        let foreground = tcgetpgrp(&device).ok();
        let is_ours = foreground == Some(getpgrp());
        let modes = if is_ours { tcgetattr(&device).ok() } else { None };
        Some(Self { device, modes })
    }

    /// Whether this group has it.
    pub(crate) fn is_with(&self, group: Pid) -> bool {
        tcgetpgrp(&self.device) == Ok(group)
    }

    /// Gives it to another group, if it is ours to give.
    pub(crate) fn give_to(&self, group: Pid) {
        if self.is_with(getpgrp()) {
            let _ = tcsetpgrp(&self.device, group);
        }
    }

    /// Sets it as it was, after a command that we killed: no shell does that for it, as we do not die of that signal.
    pub(crate) fn mend(&self) {
        let Some(modes) = &self.modes else { return };
        let foreground = tcgetpgrp(&self.device).ok();
        if foreground != Some(getpgrp()) {
            // A group that lives has it rightly: the shell, when we were stopped.
            if foreground.is_some_and(|group| test_kill_process_group(group).is_ok()) {
                return;
            }
            // Who takes a terminal from the background is stopped, but for this.
            let mut stop = SigSet::empty();
            stop.add(Signal::SIGTTOU);
            let _ = stop.thread_block();
            let _ = tcsetpgrp(&self.device, getpgrp());
        }
        let _ = tcsetattr(&self.device, OptionalActions::Now, modes);
    }
}
