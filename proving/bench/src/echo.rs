//! A separate process that answers datagrams: at once, or after writing to a database that both
//! processes have open.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::AnyError;
use crate::clock;
use crate::order::Order;
use crate::sample::Sample;
use crate::transactions::Transactions;
use crate::workers::Workers;

/// The longest datagram: the number of a row.
const LONGEST: usize = 4;

/// The process that asks.
#[derive(Debug)]
pub(crate) struct Echo {
    socket: UnixDatagram,
    there: PathBuf,
}

impl Echo {
    /// Lets one process of a group of workers answer.
    pub(crate) fn start(workers: &mut Workers, worker: usize, directory: &Path) -> Result<Self, AnyError> {
        let (here, there) = (directory.join("here.sock"), directory.join("there.sock"));
        let socket = UnixDatagram::bind(&here)?;
        // Longer than any answer takes; if the other process died, this is an error instead of a
        // hang.
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        let name = |path: &Path| path.display().to_string();
        let order = Order::Echo { here: name(&there), there: name(&here), directory: name(directory) };
        workers.tell(worker, &order)?;
        Ok(Self { socket, there })
    }

    /// The median time to an immediate answer, in µs.
    pub(crate) fn round_trip(&self, count: u32) -> Result<f64, AnyError> {
        let mut trips = Sample::default();
        for _ in 0..count {
            let sent = clock::now();
            self.ask(None)?;
            trips.push((clock::now() - sent) as f64 / 1e3);
        }
        Ok(trips.median())
    }

    /// The median time, in µs, from the start of one process's transaction until the other knows of
    /// it, when two processes take turns.
    pub(crate) fn turns(&self, ledger: &mut Transactions, count: u32) -> Result<f64, AnyError> {
        let mut each = Sample::default();
        for serial in 0..count {
            let begun = clock::now();
            ledger.write(true, serial)?;
            self.ask(Some(serial))?;
            each.push((clock::now() - begun) as f64 / 1e3 / 2.0);
        }
        Ok(each.median())
    }

    /// Asks once. If a row was written here, the other process first deletes it.
    fn ask(&self, written: Option<u32>) -> Result<(), AnyError> {
        let mut answer = [0; LONGEST];
        let question = written.map(u32::to_be_bytes);
        self.socket.send_to(question.as_ref().map_or(b"-", <[u8; 4]>::as_slice), &self.there)?;
        self.socket.recv(&mut answer)?;
        Ok(())
    }
}

/// Answers on its own thread until a transaction fails or the asking process is gone. The asking
/// process reports a missing answer.
pub(crate) fn answer(here: &str, there: String, directory: &str) -> Result<(), AnyError> {
    let socket = UnixDatagram::bind(here)?;
    let mut ledger = Transactions::open(directory.as_ref())?;
    thread::spawn(move || {
        let mut datagram = [0; LONGEST];
        while let Ok(read @ 1..) = socket.recv(&mut datagram) {
            let question = &datagram[..read];
            let written = question.try_into().map(u32::from_be_bytes);
            if written.is_ok_and(|serial| ledger.write(false, serial).is_err())
                || socket.send_to(question, &there).is_err()
            {
                return;
            }
        }
    });
    Ok(())
}
