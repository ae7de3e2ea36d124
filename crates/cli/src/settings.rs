//! The validated settings of a run: the requested lock, and the command.

use std::ffi::OsString;
use std::time::Duration;

use leasehold::Ttl;

use crate::args::{AcquireArgs, CommandArgs};
use crate::exit::Failure;
use crate::lock_request::LockRequest;
use crate::options::{or_variable, time_of};

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) request: LockRequest,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// The time from SIGTERM to SIGKILL.
    pub(crate) grace: Duration,
    /// How long the command may hold the lock. Unlike the limit of [`LockRequest`], this does not
    /// limit the lease, which is renewed while part of the command cannot be ended.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) wait_for_all: bool,
    pub(crate) no_tty: bool,
}

impl Settings {
    pub(crate) fn of(acquire: AcquireArgs, running: CommandArgs) -> Result<Self, Failure> {
        let CommandArgs { grace: given, wait_for_all, no_tty, command } = running;
        let mut command = command.into_iter();
        let program = command.next().unwrap_or_default();
        let arguments = command.collect();
        let mut request = LockRequest::of(acquire, &program)?;
        let (name, text) = or_variable("--grace", given);
        let grace = grace(&name, time_of(&name, text)?, request.ttl)?;
        let max_hold = request.max_hold.take();
        Ok(Self { request, program, arguments, grace, max_hold, wait_for_all, no_tty })
    }
}

/// Five seconds are enough for most programs to end cleanly. A quarter of a short TTL leaves time
/// to retry a renewal, which starts after a third of it, before the command is told to end.
fn grace(name: &str, asked: Option<Duration>, ttl: Ttl) -> Result<Duration, Failure> {
    const DEFAULT: Duration = Duration::from_secs(5);
    let most = ttl.duration() / 2;
    match asked {
        None => Ok(DEFAULT.min(ttl.duration() / 4)),
        Some(asked) if asked <= most => Ok(asked),
        Some(asked) => Err(Failure::usage(format!(
            "{name}: {asked:?} is more than half of the ttl of {ttl}, which leaves too little time to renew: shorten it, or \
             lengthen --ttl"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::command_line::{CommandLine, Task};

    fn grace_of(options: &[&str]) -> Result<Duration, Failure> {
        let words = ["leasehold", "run", "--store", "file:/x", "k"];
        let words = words.iter().chain(options).chain(&["--", "true"]);
        let Task::Run(args) = CommandLine::try_parse_from(words).unwrap().task else { panic!("a run") };
        Settings::of(args.acquire, args.running).map(|settings| settings.grace)
    }

    #[test]
    fn grace_is_five_seconds_or_a_quarter_of_a_short_ttl_and_at_most_half_of_it() {
        assert_eq!(grace_of(&["--ttl", "30"]), Ok(Duration::from_secs(5)));
        assert_eq!(grace_of(&["--ttl", "8"]), Ok(Duration::from_secs(2)));
        assert_eq!(grace_of(&["--ttl", "1"]), Ok(Duration::from_millis(250)));
        assert_eq!(grace_of(&["--ttl", "8", "--grace", "4"]), Ok(Duration::from_secs(4)));
        assert!(grace_of(&["--ttl", "8", "--grace", "4001ms"]).is_err());
    }

    #[test]
    fn a_longest_hold_shortens_the_ttl_that_nobody_asked_for_and_so_the_grace() {
        assert_eq!(grace_of(&["--max-hold", "8"]), Ok(Duration::from_secs(2)));
        assert_eq!(grace_of(&["--max-hold", "1h"]), Ok(Duration::from_secs(5)));
        assert_eq!(grace_of(&["--max-hold", "8", "--ttl", "8"]), Ok(Duration::from_secs(2)));
        assert!(grace_of(&["--max-hold", "8", "--ttl", "9"]).is_err());
    }
}
