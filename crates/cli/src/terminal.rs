//! The terminal at which Ctrl-C and Ctrl-Z are typed.

use std::os::fd::OwnedFd;

use nix::sys::signal::{SigSet, Signal};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, getpgrp, test_kill_process_group};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp};

pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb")
}

#[derive(Debug)]
pub(crate) struct Terminal {
    device: OwnedFd,
    /// Its settings when it was ours; `None` if we started in the background.
    modes: Option<Termios>,
}

impl Terminal {
    /// `None` without one, as in cron. Not by stdin: in `ls | leasehold run k -- less` that is a pipe,
    /// although the keys come from the terminal.
    pub(crate) fn of_session() -> Option<Self> {
        let device = open("/dev/tty", OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty()).ok()?;
        let is_ours = tcgetpgrp(&device) == Ok(getpgrp());
        let modes = if is_ours { tcgetattr(&device).ok() } else { None };
        Some(Self { device, modes })
    }

    pub(crate) fn is_with(&self, group: Pid) -> bool {
        tcgetpgrp(&self.device) == Ok(group)
    }

    /// Brings another group to the foreground, if we are in the foreground.
    pub(crate) fn give_to(&self, group: Pid) {
        if self.is_with(getpgrp()) {
            let _ = tcsetpgrp(&self.device, group);
        }
    }

    /// Restores its settings after a command that we killed, which no shell does.
    pub(crate) fn mend(&self) {
        let Some(modes) = &self.modes else { return };
        let foreground = tcgetpgrp(&self.device).ok();
        if foreground != Some(getpgrp()) {
            // A live group has it rightly: the shell, if we were stopped.
            if foreground.is_some_and(|group| test_kill_process_group(group).is_ok()) {
                return;
            }
            // Without this, taking the terminal from the background would stop us.
            let mut stop = SigSet::empty();
            stop.add(Signal::SIGTTOU);
            let _ = stop.thread_block();
            let _ = tcsetpgrp(&self.device, getpgrp());
        }
        let _ = tcsetattr(&self.device, OptionalActions::Now, modes);
    }
}
