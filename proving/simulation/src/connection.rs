//! An open connection of a process to a node, and its state while there is none.

use std::sync::{Arc, Mutex};

use leasehold_core::{ConnectionId, Fault, Reading, locked};
use tokio::sync::watch;

pub(crate) enum ConnectionState {
    Down,
    Opening(watch::Receiver<Option<Result<Arc<Connection>, Fault>>>),
    Up(Arc<Connection>),
}

pub(crate) struct Connection {
    pub(crate) number: u64,
    reading: Mutex<Reading>,
}

impl Connection {
    pub(crate) const fn new(number: u64, reading: Reading) -> Self {
        Self { number, reading: Mutex::new(reading) }
    }

    pub(crate) const fn id(&self) -> Option<ConnectionId> {
        Some(ConnectionId(self.number))
    }

    /// A lower bound for the time of all that is read from now on.
    pub(crate) fn since(&self) -> Reading {
        *locked(&self.reading)
    }

    /// Notes a reading, unless a later one is known.
    pub(crate) fn learns(&self, reading: Reading) {
        let mut known = locked(&self.reading);
        if known.sent <= reading.sent {
            *known = reading;
        }
    }
}
