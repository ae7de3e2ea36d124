//! The ways in which the process ends, and the error for each.

use std::fmt::Display;
use std::io;

use leasehold::{ConnectError, Fault, FaultCause, FaultKind, InspectError, LockError};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, setrlimit};
use serde::Serialize;

use crate::say;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Code(u8),
    /// By this signal, so that our parent sees how the command ended: a Ctrl-C ends a shell's loop.
    Signal(i32),
}

impl End {
    pub(crate) const SUCCESS: Self = Self::Code(0);
    /// Nobody holds the lock: the answer is no, as from grep and test.
    pub(crate) const FREE: Self = Self::Code(1);
    /// For monitoring: locks have been held for at least the given time.
    pub(crate) const FOUND: Self = Self::FREE;
    /// A failure would endanger the diagnosed locks, or a setting is unknown.
    pub(crate) const DOUBTFUL: Self = Self::FREE;
    /// The locks that were diagnosed are unsafe, or do not work.
    pub(crate) const UNSAFE: Self = Self::Code(2);
    /// `EX_USAGE` of sysexits.h: the command line makes no sense.
    pub(crate) const USAGE: Self = Self::Code(64);
    /// `EX_DATAERR`: the key holds something that is not a lock.
    pub(crate) const NOT_A_LOCK: Self = Self::Code(65);
    /// `EX_UNAVAILABLE`: the store does not answer, or refuses.
    pub(crate) const NO_STORE: Self = Self::Code(69);
    /// The lease was lost while the command ran: `EX_SOFTWARE`, which we do not use otherwise.
    pub(crate) const LOST: Self = Self::Code(70);
    /// `EX_TEMPFAIL`: somebody else holds the lock.
    pub(crate) const BUSY: Self = Self::Code(75);
    /// The codes of a shell for a command that cannot be executed, and for one that is not found.
    pub(crate) const CANNOT_EXECUTE: Self = Self::Code(126);
    pub(crate) const NOT_FOUND: Self = Self::Code(127);

    pub(crate) fn now(self) -> ! {
        match self {
            Self::Code(code) => std::process::exit(code.into()),
            Self::Signal(signal) => die_of(signal),
        }
    }
}

fn die_of(signal: i32) -> ! {
    // Nothing of ours is worth a core file; the command has left its own.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    // The first process of a container cannot die of a signal that it sends to itself.
    if getpid() != Pid::INIT {
        // Returns for signals without a name, such as the real-time ones.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    // The code of a shell for a command that died of a signal.
    std::process::exit(128 + signal);
}

/// The reason why the command was not run, or not to its end: the exit code and the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    end: End,
    line: Option<String>,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(end: End, line: impl Into<String>) -> Self {
        Self { end, line: Some(line.into()), hint: None }
    }

    pub(crate) fn usage(line: impl Into<String>) -> Self {
        Self::new(End::USAGE, line)
    }

    pub(crate) fn refused(line: impl Display) -> Self {
        Self::new(End::NO_STORE, line.to_string())
    }

    pub(crate) fn unreachable(line: impl Display) -> Self {
        Self::refused(format_args!(
            "{line}: see that it runs and can be reached from here, or name another with --store"
        ))
    }

    /// The store did not serve a request in time. If it said why, its words have the remedy.
    pub(crate) fn unserved(line: impl Display, fault: Option<&Fault>) -> Self {
        if fault.is_some_and(|fault| fault.cause == FaultCause::NotServing) {
            Self::refused(line)
        } else {
            Self::unreachable(line)
        }
    }

    pub(crate) fn of_store(fault: &Fault) -> Self {
        if fault.kind == FaultKind::Passing {
            Self::unserved(fault, Some(fault))
        } else {
            Self::refused(fault)
        }
    }

    /// A signal came before the command ran: there is nothing to clean up, so we end by the signal itself.
    pub(crate) const fn interrupted(signal: Signal) -> Self {
        Self { end: End::Signal(signal.as_raw()), line: None, hint: None }
    }

    pub(crate) fn no_runtime(error: io::Error) -> Self {
        Self::refused(format_args!(
            "the system cannot create an event queue ({error}): raise the limit of open files"
        ))
    }

    pub(crate) fn few_files(error: io::Error) -> Self {
        Self::refused(format_args!(
            "the files that a lock and its command need cannot be opened ({error}): raise the limit of open files (ulimit -n)"
        ))
    }

    pub(crate) fn no_supervisor(error: impl Into<io::Error>) -> Self {
        let error = error.into();
        let remedy = match Errno::from_io_error(&error) {
            Some(Errno::MFILE | Errno::NFILE | Errno::TOOMANYREFS) => "raise the limit of open files",
            _ => "see that /proc is mounted and that the limit of processes allows one more",
        };
        let line = format!("the supervisor of the command cannot be started ({error}): {remedy}");
        Self::new(End::CANNOT_EXECUTE, line)
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Names the option or variable that the line is about.
    pub(crate) fn about(self, subject: impl Display) -> Self {
        Self { line: self.line.map(|line| format!("{subject}: {line}")), ..self }
    }

    pub(crate) fn silent(self) -> Self {
        Self { line: None, hint: None, ..self }
    }

    /// The exit code, as a shell reports it.
    pub(crate) fn code(&self) -> u8 {
        match self.end {
            End::Code(code) => code,
            End::Signal(signal) => u8::try_from(128 + signal).unwrap_or(u8::MAX),
        }
    }

    pub(crate) fn reason(&self) -> &str {
        self.line.as_deref().unwrap_or_default()
    }

    pub(crate) fn say(self) -> End {
        self.line.iter().for_each(say::line);
        self.hint.iter().for_each(say::hint);
        self.end
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Misuse(misuse) => misuse.into(),
            ConnectError::Unreachable { ref fault, .. } => Self::unserved(&error, Some(fault)),
            _ => Self::refused(error),
        }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Misuse(misuse) => misuse.into(),
            LockError::TimedOut { .. } => Self::new(End::BUSY, error.to_string()),
            LockError::NotALock { .. } | LockError::FencesSpent { .. } => {
                Self::new(End::NOT_A_LOCK, error.to_string())
            }
            LockError::Unreachable { .. } => Self::unserved(&error, error.fault()),
            _ => Self::refused(error),
        }
    }
}

impl From<InspectError> for Failure {
    fn from(error: InspectError) -> Self {
        match error {
            InspectError::Misuse(misuse) => misuse.into(),
            InspectError::Store(fault) => Self::of_store(&fault),
            _ => Self::refused(error),
        }
    }
}

impl From<leasehold::Misuse> for Failure {
    fn from(misuse: leasehold::Misuse) -> Self {
        Self::usage(misuse.to_string())
    }
}
