//! Another process that answers datagrams: at once, or when it has written to a database that both have open.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::clock;
use crate::crew::{Crew, Trouble};
use crate::order::Order;
use crate::sample::Sample;
use crate::transactions::Transactions;

/// What is to be done before a datagram is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing.
    Nothing,
    /// One bare transaction, which writes or deletes a row.
    Writing {
        /// Whether it writes.
        taken: bool,
        /// The row's holder.
        serial: u32,
    },
}

impl Before {
    fn to_bytes(self) -> [u8; 8] {
        let (kind, serial) = match self {
            Self::Nothing => (b'-', 0),
            Self::Writing { taken: true, serial } => (b't', serial),
            Self::Writing { taken: false, serial } => (b'f', serial),
        };
        let [a, b, c, d] = serial.to_be_bytes();
        [kind, 0, 0, 0, a, b, c, d]
    }

    fn from_bytes([kind, _, _, _, serial @ ..]: [u8; 8]) -> Self {
        let serial = u32::from_be_bytes(serial);
        match kind {
            b't' => Self::Writing { taken: true, serial },
            b'f' => Self::Writing { taken: false, serial },
            _ => Self::Nothing,
        }
    }
}

/// The process that asks.
#[derive(Debug)]
pub(crate) struct Echo {
    socket: UnixDatagram,
    there: PathBuf,
}

impl Echo {
    /// Has one of a crew answer.
    pub(crate) fn start(crew: &mut Crew, hand: usize, directory: &Path) -> Result<Self, Trouble> {
        let (here, there) = (directory.join("here.sock"), directory.join("there.sock"));
        let socket = UnixDatagram::bind(&here)?;
        // Longer than anything takes; an echo that died is a failure and not a wait.
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let name = |path: &Path| path.display().to_string();
        let order = Order::Echo { here: name(&there), there: name(&here), directory: name(directory) };
        crew.tell(hand, &order)?;
        Ok(Self { socket, there })
    }

    /// The median time to an answer, in µs.
    pub(crate) fn round_trip(&self, count: u32) -> Result<f64, Trouble> {
        self.median(count, |_| Before::Nothing)
    }

    /// The same where the other writes first.
    pub(crate) fn round_trip_with_a_transaction(&self, count: u32) -> Result<f64, Trouble> {
        self.median(2 * count, |n| Before::Writing { taken: n % 2 == 0, serial: n / 2 })
    }

    /// The median time, in µs, in which one of two that take transactions in turns has written and the other knows of it.
    pub(crate) fn turns(&self, ledger: &mut Transactions, count: u32) -> Result<f64, Trouble> {
        let mut each = Sample::default();
        for serial in 0..count {
            let begun = clock::now();
            ledger.write(true, serial)?;
            self.ask(Before::Writing { taken: false, serial })?;
            each.push((clock::now() - begun) as f64 / 1e3 / 2.0);
        }
        Ok(each.median())
    }

    fn median(&self, count: u32, before: impl Fn(u32) -> Before) -> Result<f64, Trouble> {
        let mut trips = Sample::default();
        for n in 0..count {
            let sent = clock::now();
            self.ask(before(n))?;
            trips.push((clock::now() - sent) as f64 / 1e3);
        }
        Ok(trips.median())
    }

    fn ask(&self, before: Before) -> Result<(), Trouble> {
        let mut answer = [0; 8];
        self.socket.send_to(&before.to_bytes(), &self.there)?;
        self.socket.recv(&mut answer)?;
        Ok(())
    }
}

/// Answers on a thread of its own, until a transaction fails or nobody hears the answers: who asks says that none came.
///
/// # Errors
///
/// When it cannot listen, or the database cannot be opened.
pub(crate) fn answer(here: &str, there: String, directory: &str) -> Result<(), Trouble> {
    let socket = UnixDatagram::bind(here)?;
    let mut ledger = Transactions::open(directory.as_ref())?;
    thread::spawn(move || {
        let mut datagram = [0; 8];
        while let Ok(8) = socket.recv(&mut datagram) {
            let done = match Before::from_bytes(datagram) {
                Before::Nothing => Ok(()),
                Before::Writing { taken, serial } => ledger.write(taken, serial),
            };
            if done.is_err() || socket.send_to(&datagram, &there).is_err() {
                return;
            }
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_done_arrives_as_it_was_sent() {
        let writing = [true, false].map(|taken| Before::Writing { taken, serial: 70_000 });
        for before in [Before::Nothing, writing[0], writing[1]] {
            assert_eq!(Before::from_bytes(before.to_bytes()), before);
        }
    }
}
