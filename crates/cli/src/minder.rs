//! The minder: a process of ours between us and the command, which sees to it that the command does not outlive its lease,
//! whatever becomes of us: killed, stopped, or stuck.
//!
//! It is told when the lease ends, after each renewal, and asks and kills by itself. When the connection to us ends, so did
//! we, and it kills at once. All that the command started is below it, whatever group, session or parent that chose.
//!
//! When the command has ended by itself, so has the minder's work: what the command left running goes on, without a lock.

mod descendants;
mod ending;
mod link;
mod order;
mod report;
mod starting;

use std::io;
use std::process::Child;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, getppid, kill_process, kill_process_group, pidfd_open};
use rustix::time::{ClockId, clock_gettime};

pub(crate) use self::descendants::{adopt_orphans, kill_all};
use self::ending::{Ending, Step};
use self::link::Received;
pub(crate) use self::link::{begin, pair, receive_report, send_order};
pub(crate) use self::order::Order;
pub(crate) use self::report::{Outcome, Report};
pub(crate) use self::starting::{Start, is_minder, process};

/// Poll counts on a clock that stands still while the machine sleeps, and a lease does not: so look each second.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// Nothing tells us that an orphan of the command's has ended; only as long as some must end do we look so often.
const SHORT_NAP: Duration = Duration::from_millis(10);

/// Is the minder, to its end.
pub(crate) fn mind(words: impl Iterator<Item = std::ffi::OsString>) {
    let we = getppid();
    if adopt_orphans().is_err() || !starting::outlive_us() {
        return;
    }
    let Some(start) = Start::read(words) else { return };
    let Some((Order::End(end), stdin)) = link::accept(io::stdin()) else { return };
    let ending = Ending::new(end, start.grace);
    let report = match start.command(stdin) {
        Ok(child) => watch(&child, start.group.is_none(), ending, we),
        Err(error) => {
            let outcome = Outcome::NotStarted(error.raw_os_error().unwrap_or(0));
            Report { outcome, doomed: false }
        }
    };
    link::send_report(io::stdin(), report);
}

fn watch(child: &Child, has_own_group: bool, mut ending: Ending, we: Option<Pid>) -> Report {
    let command = Pid::from_child(child);
    // Where the kernel has none (before 5.3), short naps do.
    let process = pidfd_open(command, PidfdFlags::empty()).ok();
    let mut status = None;
    let mut rounds = 0;
    let mut is_open = true;
    loop {
        let nap = match ending.next(now()) {
            Step::Rest(until) => Duration::from_nanos(until.saturating_sub(now())).min(LONGEST_NAP),
            Step::Ask => {
                descendants::signal(Signal::TERM);
                // What is stopped cannot end.
                descendants::signal(Signal::CONT);
                continue;
            }
            Step::Kill => {
                descendants::signal(Signal::KILL);
                rounds += 1;
                descendants::nap(rounds)
            }
        };
        let none_left = descendants::reap(|id, how| {
            if id == command {
                status = Some(how);
            }
        });
        if let Some(status) = status
            && (none_left || !ending.is_forced())
        {
            return Report { outcome: Outcome::Ended(status), doomed: ending.is_doomed() };
        }
        let is_told = process.is_some() && !ending.is_forced();
        let nap = if is_told { nap } else { nap.min(SHORT_NAP) };
        let link = io::stdin();
        let link = is_open.then(|| PollFd::new(&link, PollFlags::IN));
        let process = process.as_ref().filter(|_| status.is_none());
        let process = process.map(|process| PollFd::new(process, PollFlags::IN));
        let mut events: Vec<_> = link.into_iter().chain(process).collect();
        // Interrupted, it is as if the nap were over.
        let _ = poll(&mut events, Timespec::try_from(nap).ok().as_ref());
        drop(events);
        while is_open {
            match link::receive_order(io::stdin()) {
                Received::Nothing => break,
                Received::Order(Order::Signal(signal)) if status.is_none() => {
                    // Fails if all have ended, which is what most signals are for.
                    let _ = if has_own_group {
                        kill_process_group(command, signal)
                    } else {
                        kill_process(command, signal)
                    };
                }
                Received::Order(order) => ending.handle(now(), order),
                Received::End => is_open = false,
            }
        }
        if !is_open || getppid() != we {
            is_open = false;
            ending.handle_closed();
        }
    }
}

/// The lease clock, which also counts the time that the machine sleeps.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
