//! The command: started, waited for, sent signals.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::{Pid, Signal, getpgrp, kill_process, kill_process_group, test_kill_process_group};
use rustix::termios::tcgetpgrp;
use tokio::process::Child;

use crate::exit::{End, Failure};
use crate::settings::Settings;
use crate::usage::name_of;

/// The command while it runs. Standard streams and working directory are ours; it has no other descriptor of ours.
#[derive(Debug)]
pub(crate) struct Command {
    child: Child,
    id: Pid,
    place: ProcessGroup,
    reaped: bool,
}

/// Where the command is among the jobs of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessGroup {
    /// A group of its own, so that a signal reaches all that it starts, and nobody else.
    Own,
    /// Ours, which has the terminal: otherwise it could not read from there. The terminal then sends it INT and QUIT itself.
    Terminal,
}

impl Command {
    /// Starts it.
    pub(crate) fn start<E>(settings: &Settings, environment: E) -> Result<Self, Failure>
    where
        E: IntoIterator<Item = (&'static str, OsString)>,
    {
        let place = ProcessGroup::for_command();
        let mut command = tokio::process::Command::new(&settings.program);
        command.args(&settings.arguments).envs(environment);
        if place == ProcessGroup::Own {
            command.process_group(0);
        }
        let child = command.spawn().map_err(|error| not_started(settings, &error))?;
        let id = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let id = id.expect("a child that was not waited for has an id");
        Ok(Self { child, id, place, reaped: false })
    }

    /// Resolves when it has ended. Those that it started may not have.
    ///
    /// Cancel safe.
    pub(crate) async fn ended(&mut self) -> ExitStatus {
        let status = self.child.wait().await.expect("a child of ours can be waited for");
        self.reaped = true;
        status
    }

    pub(crate) const fn place(&self) -> ProcessGroup {
        self.place
    }

    /// Sends a signal to all of it that we know: its group, or where that is ours too, itself.
    pub(crate) fn signal(&self, signal: Signal) {
        // Fails if all have ended, which is what most signals are for.
        let _ = match self.place {
            ProcessGroup::Own => kill_process_group(self.id, signal),
            ProcessGroup::Terminal if !self.reaped => kill_process(self.id, signal),
            ProcessGroup::Terminal => Ok(()),
        };
    }

    /// Asks all of it to end, also what is stopped.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
        self.signal(Signal::CONT);
    }

    /// Whether something of it is left after it has ended itself.
    pub(crate) fn has_stragglers(&self) -> bool {
        self.place == ProcessGroup::Own && test_kill_process_group(self.id).is_ok()
    }
}

impl ProcessGroup {
    fn for_command() -> Self {
        let foreground = tcgetpgrp(io::stdin());
        if foreground.is_ok_and(|group| group == getpgrp()) { Self::Terminal } else { Self::Own }
    }
}

/// How we end when the command ended so.
pub(crate) fn end_as(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => unreachable!("a process that has ended did so by itself or of a signal"),
    }
}

fn not_started(settings: &Settings, error: &io::Error) -> Failure {
    let name = name_of(&settings.program);
    let end = if error.kind() == ErrorKind::NotFound { End::NOT_FOUND } else { End::CANNOT_EXECUTE };
    let remedy = match error.kind() {
        ErrorKind::NotFound if settings.program.to_string_lossy().contains('/') => {
            "see that the path is right, and that the program named in its #! line exists"
        }
        ErrorKind::NotFound => "see that it is spelled right and in a directory of PATH",
        ErrorKind::PermissionDenied => "see that it is a program, and executable (chmod +x)",
        ErrorKind::ArgumentListTooLong => "shorten its arguments or its environment",
        _ => "see that it is a program for this machine; a script needs a #! line",
    };
    Failure::new(end, format!("{name}: not run: {error}: {remedy}"))
}
