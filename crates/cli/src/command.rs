//! The command: starting it, waiting for it, and sending it signals.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use leasehold::{Held, Locks};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpgid, getpgrp};
use tokio::io::Interest;
use tokio::net::UnixStream;

use crate::exit::{End, Failure};
use crate::print::shown;
use crate::settings::Settings;
use crate::signals::{Sender, Signals};
use crate::supervisor::{self, KillRounds, LeaseEnd, Order, Outcome, Report, Start, Stop, SupervisorReport};
use crate::terminal::Terminal;

/// The running command, below its supervisor. Of ours it has the standard streams, and nothing else.
#[derive(Debug)]
pub(crate) struct Command {
    supervisor: Child,
    supervisor_handle: supervisor::Handle,
    /// It carries records, not a stream; the runtime is only used to wait until it is readable.
    link: UnixStream,
    lease_end: LeaseEnd,
    /// The terminal that it shares with us, in our process group: typed signals reach it directly,
    /// and Ctrl-Z, `fg` and `bg` work as without us. `None` if it has its own group, so that a
    /// signal reaches only what it started.
    terminal: Option<Terminal>,
    /// How often it was stopped, as reported; without reports, there is always one more.
    stops: u64,
    /// The number of processes that it started and that are still running.
    pub(crate) left: i32,
    /// What we do ourselves if the supervisor cannot.
    killing: KillRounds,
    /// How long before the lease's end all of it must be gone.
    dying: Duration,
    grace: Duration,
}

/// The time at the end of a lease that is reserved for killing: a fiftieth of the TTL, and at most
/// this. It takes some milliseconds, and more than 20 were observed on a busy machine.
const MOST_FOR_DYING: Duration = Duration::from_millis(500);
/// For a TTL below one second, a fiftieth is too little; a tenth is reserved, but at most this.
const LEAST_FOR_DYING: Duration = Duration::from_millis(20);

fn dying(ttl: Duration) -> Duration {
    (ttl / 50).clamp(LEAST_FOR_DYING.min(ttl / 10), MOST_FOR_DYING)
}

impl Command {
    /// Starts the command under a lease of these locks, which depends on their lifelines, if any.
    pub(crate) fn start(
        settings: &Settings,
        environment: Vec<(&'static str, OsString)>,
        held: &Held,
        locks: &Locks,
        signals: &Signals,
    ) -> Result<Self, Failure> {
        let shares_group = supervisor::SHARES_OUR_GROUP && !settings.no_tty;
        let terminal = if shares_group { Terminal::of_session() } else { None };
        let dying = dying(settings.request.ttl.duration());
        let group = terminal.is_some().then(getpgrp);
        let killing = KillRounds::of_what_comes();
        // If the supervisor is killed, its descendants become our children, and we end them.
        let _ = supervisor::adopt_orphans();
        let start = Start {
            grace: nanoseconds(settings.grace),
            group,
            blocked: signals.blocked_before(),
            wait_for_all: settings.wait_for_all,
            program: settings.program.clone(),
            arguments: settings.arguments.clone(),
        };
        let mut process = start.process();
        process.envs(environment);
        let (link, theirs) = supervisor::pair().map_err(Failure::no_supervisor)?;
        rustix::io::ioctl_fionbio(&link, true).map_err(Failure::no_supervisor)?;
        let link = UnixStream::from_std(link.into()).map_err(Failure::no_supervisor)?;
        process.stdin(theirs);
        let (more, theirs) = supervisor::counter().map_err(Failure::no_supervisor)?;
        let supervisor = process.spawn().map_err(|error| match error.kind() {
            // The supervisor gets the command's arguments and environment, so those are too long.
            ErrorKind::ArgumentListTooLong => not_started(settings, &error),
            _ => Failure::no_supervisor(error),
        })?;
        let supervisor_handle = supervisor::Handle::of(&supervisor);
        let end = gone_by(supervisor::now(), held.remaining(), dying);
        match supervisor::begin(&link, Order::End(end), theirs, &locks.lifelines()) {
            // If it is already gone, the missing report says so.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => {}
            // It would wait for the order for as long as we live.
            Err(error) => return Err(Failure::no_supervisor(error)),
        }
        let stops = if terminal.is_some() { 0 } else { u64::MAX };
        Ok(Self {
            supervisor,
            supervisor_handle,
            link,
            lease_end: LeaseEnd::new(end, more),
            terminal,
            stops,
            left: 0,
            killing,
            dying,
            grace: settings.grace,
        })
    }

    /// The next event: a stop of the command, or its end, with the end of everything that it
    /// started if it had to end. An end without a report means that somebody killed the supervisor,
    /// and the command with it; then we kill everything, and wait for its end.
    ///
    /// Cancel safe.
    pub(crate) async fn report(&mut self) -> Result<Stop, Option<Report>> {
        loop {
            match self.link.async_io(Interest::READABLE, || supervisor::receive_news(&self.link)).await {
                Ok(Some(SupervisorReport::Left(count))) => self.left = count,
                Ok(Some(SupervisorReport::Stopped(stop))) => {
                    self.stops += 1;
                    return Ok(stop);
                }
                Ok(Some(SupervisorReport::Ended(report))) => {
                    // It has nothing more to do. The processor time of the command counts as ours
                    // once both are waited for.
                    let _ = self.supervisor.wait();
                    return Err(Some(report));
                }
                Ok(None) | Err(_) => {
                    self.killing.until_none_is_left(Pid::from_child(&self.supervisor)).await;
                    return Err(None);
                }
            }
        }
    }

    pub(crate) const fn shares_the_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Lets it run until this much time after `now`. Returns the time at which it must be gone.
    pub(crate) fn may_last(&mut self, now: u64, left: Duration) -> u64 {
        let end = gone_by(now, left, self.dying);
        self.lease_end.extend_to(end);
        end
    }

    /// True if its supervisor has asked it to end by now, so that it is gone by this time.
    pub(crate) fn is_asked_to_end(&self, gone_by: u64) -> bool {
        supervisor::now() >= gone_by.saturating_sub(nanoseconds(self.grace))
    }

    /// Makes it end, because the lease was lost or somebody insists. Returns the time at which it must be gone.
    pub(crate) fn must_end(&self, order: Order) -> u64 {
        self.order(order);
        // Somebody may have stopped the supervisor.
        self.supervisor_handle.go_on();
        supervisor::now() + nanoseconds(self.grace + self.dying)
    }

    /// Kills the command and its supervisor if that is stopped, and returns true; then
    /// [`report`](Self::report) waits for their end.
    pub(crate) fn kill_if_unminded(&mut self) -> bool {
        let supervisor = Pid::from_child(&self.supervisor);
        let unminded = supervisor::is_stopped(supervisor);
        if unminded {
            self.killing.round(supervisor);
        }
        unminded
    }

    pub(crate) fn order(&self, order: Order) {
        supervisor::send_order(&self.link, order);
    }

    /// Stops us when the command was stopped at our terminal, so that our shell sees the same as from
    /// the command, and continues the command when we are continued. Returns true if we were stopped.
    pub(crate) fn follow(&self, stop: Stop, signals: &Signals) -> bool {
        // Somebody who stopped us too has continued both since.
        let Some(terminal) = self.terminal.as_ref().filter(|_| supervisor::is_stopped(stop.command)) else {
            return false;
        };
        // A shell with job control gives the terminal to its own group. Without us that would be
        // the job's group, which gets the terminal back.
        let has_terminal = getpgid(Some(stop.command)).ok().filter(|group| terminal.is_with(*group));
        // If nobody could continue us, the kernel does not let a terminal signal stop us;
        // SIGSTOP would.
        signals.stop(if stop.signal == Signal::STOP { Signal::TSTP } else { stop.signal });
        has_terminal.into_iter().for_each(|group| terminal.give_to(group));
        self.go_on();
        true
    }

    /// True if an editor stopped its whole group at Ctrl-Z, and so itself and us: if we stopped it
    /// again, that might happen just after it is continued.
    pub(crate) fn stops_itself(&self, from: Sender) -> bool {
        self.terminal.is_some()
            && matches!(from, Sender::Process(Some(process)) if supervisor::is_below_us(process))
    }

    /// Asks the command to stop; if it does, we [`follow`](Self::follow). This does nothing if it
    /// has stopped already and we are about to learn of that.
    pub(crate) fn suspend(&self) {
        self.order(Order::Suspend(self.stops));
    }

    pub(crate) fn stop(&self, signals: &Signals) {
        self.order(Order::Stop);
        signals.stop(Signal::TSTP);
        self.go_on();
    }

    /// Continues the command, unless it was stopped again meanwhile.
    pub(crate) fn go_on(&self) {
        self.order(Order::Continue(self.stops));
    }

    pub(crate) fn mend_terminal(&self) {
        self.terminal.iter().for_each(Terminal::mend);
    }

    /// How long before the end of a lease the supervisor ends the command; half of that time is
    /// left for us, in case the supervisor fails.
    pub(crate) fn dying(&self) -> u64 {
        nanoseconds(self.dying)
    }
}

fn gone_by(now: u64, left: Duration, dying: Duration) -> u64 {
    now.saturating_add(nanoseconds(left.saturating_sub(dying)))
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The exit status of the command, or why it was not run.
pub(crate) fn status_of(settings: &Settings, outcome: Outcome) -> Result<ExitStatus, Failure> {
    match outcome {
        Outcome::Ended(status) => Ok(ExitStatus::from_raw(status)),
        Outcome::NotStarted(0) => Err(not_started(settings, &ErrorKind::InvalidInput.into())),
        Outcome::NotStarted(error) => Err(not_started(settings, &io::Error::from_raw_os_error(error))),
    }
}

/// The exit code for this end of the command.
pub(crate) fn end_as(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(code), _) => End::Code(u8::try_from(code).unwrap_or(u8::MAX)),
        (None, Some(signal)) => End::Signal(signal),
        (None, None) => unreachable!("a process that has ended did so by itself or of a signal"),
    }
}

fn not_started(settings: &Settings, error: &io::Error) -> Failure {
    let name = shown(&settings.program.to_string_lossy());
    let end = if error.kind() == ErrorKind::NotFound { End::NOT_FOUND } else { End::CANNOT_EXECUTE };
    let remedy = match error.kind() {
        ErrorKind::NotFound if settings.program.to_string_lossy().contains('/') => {
            "see that the path is right, and that the program named in its #! line exists"
        }
        ErrorKind::NotFound => "see that it is spelled right and in a directory of PATH",
        ErrorKind::PermissionDenied => "see that it is a program, and executable (chmod +x)",
        ErrorKind::ArgumentListTooLong => "shorten its arguments or its environment",
        _ if is_shortage(error) => "see that the limits of processes, memory and open files allow one more",
        _ => "see that it is a program for this machine; a script needs a #! line",
    };
    Failure::new(end, format!("{name}: not run: {error}: {remedy}"))
}

/// Returns true if any other program could not be started now either.
fn is_shortage(error: &io::Error) -> bool {
    let shortages = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TOOMANYREFS];
    Errno::from_io_error(error).is_some_and(|error| shortages.contains(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fiftieth_of_the_ttl_is_reserved_for_dying_but_at_least_20_ms_and_at_most_500_ms() {
        for (ttl, reserved) in
            [(10, 1), (150, 15), (200, 20), (1000, 20), (5000, 100), (25_000, 500), (3_600_000, 500)]
        {
            assert_eq!(dying(Duration::from_millis(ttl)), Duration::from_millis(reserved), "{ttl}");
        }
        let reserved = Duration::from_millis(20);
        assert_eq!(gone_by(7, Duration::from_secs(1), reserved), 980_000_007);
        assert_eq!(gone_by(7, Duration::from_millis(10), reserved), 7);
    }

    /// Regression: with the limit of processes reached (`ulimit -u`), the message asked whether
    /// /bin/echo is a program for this machine, and has a #! line.
    #[test]
    fn a_program_that_a_limit_keeps_from_starting_is_not_said_to_be_invalid() {
        for error in [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE, Errno::TOOMANYREFS] {
            assert!(is_shortage(&error.into()), "{error}");
        }
        assert!(!is_shortage(&Errno::NOEXEC.into()) && !is_shortage(&ErrorKind::InvalidInput.into()));
    }
}
