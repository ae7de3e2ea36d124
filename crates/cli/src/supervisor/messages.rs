//! What we and the supervisor tell each other: orders, and reports of what has become of the command.

use rustix::process::{Pid, Signal};

use crate::signals::PASSED_ON;

/// An order to the supervisor: a record of nine bytes, a letter and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The first order: the command must be gone by this nanosecond of the lease clock.
    End(u64),
    /// The lease was lost without notice: ask the command to end, and kill it after the grace.
    Lost,
    Kill,
    Signal(Signal),
    /// Stop the command, as we are about to stop.
    Stop,
    /// Ask the command to stop, as Ctrl-Z does, if it was stopped exactly this often. Otherwise it has
    /// stopped already.
    Suspend(u64),
    /// Continue the command after this stop, the first being 1, or any earlier one.
    Continue(u64),
}

impl Order {
    pub(crate) const LENGTH: usize = 9;

    pub(crate) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let (letter, number) = match self {
            Self::End(end) => (b'E', end),
            Self::Lost => (b'L', 0),
            Self::Kill => (b'K', 0),
            Self::Stop => (b'T', 0),
            Self::Suspend(stops) => (b'Z', stops),
            Self::Continue(stop) => (b'C', stop),
            Self::Signal(signal) => (b'S', u64::from(signal.as_raw().unsigned_abs())),
        };
        let mut bytes = [letter; Self::LENGTH];
        bytes[1..].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// Decodes a record. `None` for anything else, including the end of the connection.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (letter, number) = bytes.split_first()?;
        let number = u64::from_le_bytes(number.try_into().ok()?);
        match (letter, number) {
            (b'E', end) => Some(Self::End(end)),
            (b'L', 0) => Some(Self::Lost),
            (b'K', 0) => Some(Self::Kill),
            (b'T', 0) => Some(Self::Stop),
            (b'Z', stops) => Some(Self::Suspend(stops)),
            (b'C', stop) => Some(Self::Continue(stop)),
            (b'S', number) => PASSED_ON
                .into_iter()
                .find(|signal| u64::from(signal.as_raw().unsigned_abs()) == number)
                .map(Self::Signal),
            _ => None,
        }
    }
}

/// A report of the supervisor, a record of six bytes: its end, with a number and whether the command
/// had to end, and before that each stop of the command, with its process and the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SupervisorReport {
    Ended(Report),
    Stopped(Stop),
    /// The command has ended, and this many processes that it started are still running.
    Left(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stop {
    pub(crate) command: Pid,
    pub(crate) signal: Signal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    /// True if the command was ended because of its lease.
    pub(crate) doomed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ended, with the status of `wait`, bit by bit.
    Ended(i32),
    /// It was not started, with the system's error number.
    NotStarted(i32),
}

impl SupervisorReport {
    pub(crate) const LENGTH: usize = 6;

    pub(crate) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let (letter, number, last) = match self {
            Self::Ended(Report { outcome: Outcome::Ended(status), doomed }) => {
                (b'E', status, u8::from(doomed))
            }
            Self::Ended(Report { outcome: Outcome::NotStarted(error), doomed }) => {
                (b'N', error, u8::from(doomed))
            }
            Self::Stopped(Stop { command, signal }) => {
                (b'S', command.as_raw_pid(), signal.as_raw().to_le_bytes()[0])
            }
            Self::Left(count) => (b'L', count, 0),
        };
        let mut bytes = [letter; Self::LENGTH];
        bytes[1..5].copy_from_slice(&number.to_le_bytes());
        bytes[5] = last;
        bytes
    }

    /// Decodes a record. `None` for anything else: the supervisor died before it could report.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let [letter, number @ .., last] = *<&[u8; Self::LENGTH]>::try_from(bytes).ok()?;
        let number = i32::from_le_bytes(number);
        let ended = |outcome| Self::Ended(Report { outcome, doomed: last != 0 });
        match letter {
            b'E' => Some(ended(Outcome::Ended(number))),
            b'N' => Some(ended(Outcome::NotStarted(number))),
            b'L' if number > 0 && last == 0 => Some(Self::Left(number)),
            b'S' => {
                // No process has a number below one, which rustix treats as a programming error.
                let command = Pid::from_raw(number.max(0))?;
                let signal = Signal::from_named_raw(last.into())?;
                Some(Self::Stopped(Stop { command, signal }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_read_back_as_written() {
        let signals = PASSED_ON.map(Order::Signal);
        let timed = [Order::End(0), Order::End(u64::MAX), Order::Suspend(2), Order::Continue(3)];
        let others = [Order::Lost, Order::Kill, Order::Stop];
        for order in timed.into_iter().chain(others).chain(signals) {
            assert_eq!(Order::parse(&order.to_bytes()), Some(order));
        }
        assert_eq!(Order::End(0x0102).to_bytes(), *b"E\x02\x01\0\0\0\0\0\0");
    }

    #[test]
    fn only_written_reports_are_read_back() {
        for outcome in [Outcome::Ended(0x8b), Outcome::Ended(0xff00), Outcome::NotStarted(2)] {
            for doomed in [false, true] {
                let report = SupervisorReport::Ended(Report { outcome, doomed });
                assert_eq!(SupervisorReport::parse(&report.to_bytes()), Some(report));
            }
        }
        let stopped = |signal| SupervisorReport::Stopped(Stop { command: Pid::INIT, signal });
        let stops = [Signal::STOP, Signal::TSTP, Signal::TTIN, Signal::TTOU].map(stopped);
        for report in stops.into_iter().chain([SupervisorReport::Left(3)]) {
            assert_eq!(SupervisorReport::parse(&report.to_bytes()), Some(report));
        }
        for bytes in [
            &b""[..],
            b"E\0\0\0\0",
            b"E\0\0\0\0\0\0",
            b"X\0\0\0\0\0",
            b"S\0\0\0\0\x13",
            b"S\x01\0\0\0\0",
            b"S\0\0\0\x80\x13",
            b"L\0\0\0\0\0",
        ] {
            assert_eq!(SupervisorReport::parse(bytes), None, "{bytes:?}");
        }
    }
}
