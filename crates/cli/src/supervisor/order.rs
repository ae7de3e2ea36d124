//! Orders to the supervisor: records of nine bytes each, a letter and a number.

use rustix::process::Signal;

use crate::signals::PASSED_ON;

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
}
