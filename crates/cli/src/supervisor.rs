//! The supervisor: a process between us and the command. It makes sure that the command does not
//! outlive its lease, even if we are killed, stopped or stuck.
//!
//! It is told the lease's end after each renewal, and on its own asks the command to end and kills
//! it. When the connection to us ends, we have ended, and it kills at once. Everything that the
//! command started is below it, whatever group, session or parent it has.
//!
//! When the command has ended on its own, what it left runs on, without a lock.

mod descendants;
mod ending;
#[cfg(test)]
mod fuzzed;
#[cfg_attr(target_os = "linux", path = "supervisor/linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "supervisor/bsd.rs")]
mod kernel;
mod lease_end;
mod link;
mod messages;
mod starting;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitStatus, getpgid, getppid, kill_process, kill_process_group};
use rustix::time::clock_gettime;

pub(crate) use self::descendants::{KillRounds, adopt_orphans, check, is_below_us};
use self::ending::{Ending, Step};
use self::kernel::Wakes;
pub(crate) use self::kernel::{Handle, SHARES_OUR_GROUP, counter, is_stopped, pair};
pub(crate) use self::lease_end::LeaseEnd;
pub(crate) use self::link::{begin, receive_news, send_order};
pub(crate) use self::messages::{Order, Outcome, Report, Stop, SupervisorReport};
pub(crate) use self::starting::Start;

/// poll(2) uses a clock that stops while the machine sleeps, and a lease does not.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// Does the work of a process of ours that the user did not start. Returns false if this one is not.
pub(crate) fn play(mut words: impl Iterator<Item = OsString>) -> bool {
    match words.next() {
        Some(name) if name == starting::SUPERVISOR => mind(words),
        Some(name) if name == starting::LAUNCHER => starting::launch(words),
        _ => return false,
    }
    true
}

fn mind(words: impl Iterator<Item = OsString>) {
    let we = getppid();
    let Some(wakes) = Wakes::begin() else { return };
    if adopt_orphans().is_err() {
        return;
    }
    let Some(start) = Start::read(words) else { return };
    let Some((Order::End(end), lent)) = link::accept(io::stdin()) else { return };
    let ending = Ending::new(end, start.grace);
    let mut lease_end = LeaseEnd::new(end, lent.more);
    // Until our end: the lease of a killed holder ends with all that it started.
    let _lifelines = lent.lifelines;
    // The lease may have ended already, if somebody stopped us or the process that started us.
    let report = if now() >= lease_end.read() {
        Report { outcome: Outcome::NotStarted(0), doomed: true }
    } else {
        match start.command(lent.stdin) {
            Ok((id, launcher)) => {
                starting::leave_the_session(id);
                let wait_for_all = start.wait_for_all;
                let mut command =
                    Command { id, launcher, group: start.group, we, wait_for_all, stopped: false, stops: 0 };
                command.watch(ending, lease_end, &wakes)
            }
            Err(error) => {
                let outcome = Outcome::NotStarted(error.raw_os_error().unwrap_or(0));
                Report { outcome, doomed: false }
            }
        }
    };
    link::send_report(io::stdin(), SupervisorReport::Ended(report));
}

struct Command {
    id: Pid,
    /// The launcher writes here why it could not become the command.
    launcher: OwnedFd,
    /// The group that it joined; `None` for its own group.
    group: Option<Pid>,
    we: Option<Pid>,
    wait_for_all: bool,
    stopped: bool,
    stops: u64,
}

impl Command {
    fn watch(&mut self, mut ending: Ending, mut lease_end: LeaseEnd, wakes: &Wakes) -> Report {
        let mut status = None;
        let mut killing = KillRounds::default();
        let mut is_open = true;
        loop {
            // The end is read after the clock: if somebody stops us in between, it is newer.
            let at = now();
            ending.handle(at, Order::End(lease_end.read()));
            let nap = match ending.next(at) {
                Step::Rest(until) => Duration::from_nanos(until.saturating_sub(now())).min(LONGEST_NAP),
                Step::Ask => {
                    descendants::signal(self.id, Signal::TERM);
                    // A stopped process cannot end.
                    descendants::signal(self.id, Signal::CONT);
                    continue;
                }
                Step::Kill => killing.round(self.id),
            };
            let link = io::stdin();
            let others = [wakes.0.as_fd(), lease_end.as_fd()];
            let link = is_open.then(|| link.as_fd());
            let mut events: Vec<_> = others
                .into_iter()
                .chain(link)
                .map(|source| PollFd::from_borrowed_fd(source, PollFlags::IN))
                .collect();
            let _ = poll(&mut events, Timespec::try_from(nap).ok().as_ref());
            drop(events);
            wakes.clear();
            // Before the orders, because their meaning depends on whether the command is stopped.
            let none_left = descendants::reap(self.id, |id, how| {
                if id == self.id {
                    status = self.after(how).or(status);
                } else if status.is_some() {
                    self.after_its_end(id, how);
                }
            });
            if let Some(status) = status
                && (none_left || !(ending.is_forced() || self.wait_for_all))
            {
                let left = descendants::count();
                if left > 0 {
                    link::send_report(io::stdin(), SupervisorReport::Left(left));
                }
                let outcome =
                    link::receive_error(&self.launcher).map_or(Outcome::Ended(status), Outcome::NotStarted);
                return Report { outcome, doomed: ending.is_doomed() };
            }
            while is_open {
                match link::receive_order(io::stdin()) {
                    Err(_) => break,
                    Ok(Some(order)) => {
                        match order {
                            _ if status.is_none() => self.handle(order),
                            // A signal can only be passed on to what the command left.
                            Order::Signal(signal) => descendants::signal(self.id, signal),
                            _ => {}
                        }
                        ending.handle(now(), order);
                    }
                    Ok(None) => is_open = false,
                }
            }
            if !is_open || getppid() != self.we {
                is_open = false;
                ending.handle_closed();
            }
        }
    }

    /// Handles a change reported by the kernel. Returns how the command ended, if it did.
    fn after(&mut self, how: WaitStatus) -> Option<i32> {
        if let Some(signal) = how.stopping_signal() {
            self.stopped = true;
            self.stops += 1;
            if let Some(signal) = Signal::from_named_raw(signal).filter(|_| self.group.is_some()) {
                link::send_report(io::stdin(), SupervisorReport::Stopped(Stop { command: self.id, signal }));
            }
            return None;
        }
        if how.continued() {
            self.stopped = false;
            // If somebody continues the command by hand, the run has to go on too, to renew the lease.
            if let Some(we) = self.we.filter(|we| self.group.is_some() && getppid() == Some(*we)) {
                let _ = kill_process(we, Signal::CONT);
            }
            return None;
        }
        Some(how.as_raw())
    }

    /// If we wait for what the command left, Ctrl-Z stops the run with it.
    fn after_its_end(&self, id: Pid, how: WaitStatus) {
        let in_our_group = self.group.is_some() && getpgid(Some(id)).ok() == self.group;
        if self.wait_for_all && in_our_group && how.stopping_signal() == Some(Signal::TSTP.as_raw()) {
            let stop = Stop { command: id, signal: Signal::TSTP };
            link::send_report(io::stdin(), SupervisorReport::Stopped(stop));
        }
    }

    /// A signal fails if all processes have ended, which is the purpose of most signals.
    fn handle(&self, order: Order) {
        let _ = match order {
            Order::Signal(signal) => self.signal(signal),
            Order::Stop => self.signal(Signal::STOP),
            Order::Suspend(stops) if self.stops == stops => self.signal(Signal::TSTP),
            // A shell with job control has its own group, which it stops as a whole.
            Order::Continue(stop) if self.stopped && self.stops <= stop => match getpgid(Some(self.id)) {
                Ok(group) if Some(group) != self.group => kill_process_group(group, Signal::CONT),
                _ => kill_process(self.id, Signal::CONT),
            },
            Order::Suspend(_) | Order::Continue(_) | Order::End(_) | Order::Lost | Order::Kill => Ok(()),
        };
    }

    fn signal(&self, signal: Signal) -> rustix::io::Result<()> {
        // A group that is not the command's own is ours, too.
        if self.group.is_none() { kill_process_group(self.id, signal) } else { kill_process(self.id, signal) }
    }
}

/// The lease clock, which includes the time during which the machine sleeps.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(kernel::LEASE_CLOCK);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::getpgrp;

    use super::*;

    /// The child blocks the signal that stops it, which is pending until the one that continues it.
    #[test]
    fn an_order_that_names_another_stop_than_the_last_one_neither_stops_the_command_nor_continues_it() {
        let sleep = ["--block-signal=TSTP", "sleep", "60"];
        let mut child = std::process::Command::new("env").args(sleep).spawn().unwrap();
        let id = Pid::from_child(&child);
        let has = |line: &str| {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
            let bits = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
            u64::from_str_radix(bits.trim(), 16).unwrap() & crate::signals::bit(Signal::TSTP) != 0
        };
        while !has("SigBlk:") {
            std::thread::yield_now();
        }
        let (launcher, _theirs) = pair().unwrap();
        let (group, we) = (Some(getpgrp()), None);
        let mut command = Command { id, launcher, group, we, wait_for_all: false, stopped: false, stops: 2 };
        for (stopped, order, is_to_stop) in [
            (false, Order::Suspend(1), false),
            (false, Order::Suspend(3), false),
            (false, Order::Suspend(2), true),
            (false, Order::Continue(2), true),
            (true, Order::Continue(1), true),
            (true, Order::Continue(2), false),
            (false, Order::Suspend(2), true),
            (true, Order::Continue(u64::MAX), false),
        ] {
            command.stopped = stopped;
            command.handle(order);
            assert_eq!(has("ShdPnd:"), is_to_stop, "{order:?}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
