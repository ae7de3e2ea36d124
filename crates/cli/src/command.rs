//! The command: started, waited for, sent signals.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Signal, getpgrp};
use rustix::termios::tcgetpgrp;
use tokio::process::Child;

use crate::exit::{End, Failure};
use crate::minder::{self, Order, Outcome, Report};
use crate::settings::Settings;
use crate::usage::name_of;

/// The command while it runs, below its minder. Standard streams and working directory are ours; it has no other descriptor
/// of ours.
#[derive(Debug)]
pub(crate) struct Command {
    minder: Child,
    link: OwnedFd,
    place: ProcessGroup,
    /// How long before the lease's end all of it must be gone.
    dying: Duration,
}

/// Where the command is among the jobs of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessGroup {
    /// A group of its own, so that a signal reaches all that it starts, and nobody else.
    Own,
    /// Ours, which has the terminal: otherwise it could not read from there. The terminal then sends it INT and QUIT itself.
    Terminal,
}

/// A killed process is gone within some milliseconds, and must be by the lease's end; of a short ttl that is a tenth at most.
const DYING: Duration = Duration::from_millis(20);

impl Command {
    /// Starts it, with so much left of the lease.
    pub(crate) fn start<E>(settings: &Settings, environment: E, left: Duration) -> Result<Self, Failure>
    where
        E: IntoIterator<Item = (&'static str, OsString)>,
    {
        let now = minder::now();
        let place = ProcessGroup::for_command();
        let dying = DYING.min(settings.wanted.ttl.duration() / 10);
        let group = (place == ProcessGroup::Terminal).then(getpgrp);
        // Should the minder be killed, what it minded becomes ours to end.
        let _ = minder::adopt_orphans();
        let mut process = minder::process(settings.grace, group, &settings.program, &settings.arguments);
        process.envs(environment);
        let (link, theirs) = minder::pair().map_err(|error| Failure::no_minder(&error.into()))?;
        process.stdin(theirs);
        let minder = tokio::process::Command::from(process).spawn().map_err(|error| match error.kind() {
            // The minder is given the command's arguments and environment: it is they that are too long.
            ErrorKind::ArgumentListTooLong => not_started(settings, &error),
            _ => Failure::no_minder(&error),
        })?;
        let command = Self { minder, link, place, dying };
        // If it is gone already, the missing report says so.
        let _ = minder::begin(&command.link, Order::End(command.gone_by(now, left)));
        Ok(command)
    }

    /// Resolves when it has ended, with all that it started if it had to end. `None` if its minder was killed, and it with that.
    ///
    /// Cancel safe.
    pub(crate) async fn ended(&mut self) -> Option<Report> {
        self.minder.wait().await.expect("a child of ours can be waited for");
        let report = minder::receive_report(&self.link);
        if report.is_none() {
            minder::kill_all();
        }
        report
    }

    pub(crate) const fn place(&self) -> ProcessGroup {
        self.place
    }

    /// Lets it run until so much time from now, which was read before.
    pub(crate) fn may_last(&self, now: u64, left: Duration) {
        self.order(Order::End(self.gone_by(now, left)));
    }

    pub(crate) fn order(&self, order: Order) {
        minder::send_order(&self.link, order);
    }

    /// Sends it a signal: to its group, or where that is ours too, to itself.
    pub(crate) fn signal(&self, signal: Signal) {
        self.order(Order::Signal(signal));
    }

    fn gone_by(&self, now: u64, left: Duration) -> u64 {
        let left = left.saturating_sub(self.dying);
        now.saturating_add(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl ProcessGroup {
    fn for_command() -> Self {
        let foreground = tcgetpgrp(io::stdin());
        if foreground.is_ok_and(|group| group == getpgrp()) { Self::Terminal } else { Self::Own }
    }
}

/// How the command ended, or why it was not run.
pub(crate) fn status_of(settings: &Settings, outcome: Outcome) -> Result<ExitStatus, Failure> {
    match outcome {
        Outcome::Ended(status) => Ok(ExitStatus::from_raw(status)),
        Outcome::NotStarted(0) => Err(not_started(settings, &ErrorKind::InvalidInput.into())),
        Outcome::NotStarted(error) => Err(not_started(settings, &io::Error::from_raw_os_error(error))),
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
