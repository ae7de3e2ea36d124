//! A separate process that answers datagrams: at once, or after writing to a database that both
//! have open.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::clock;
use crate::crew::{Crew, Trouble};
use crate::order::Order;
use crate::sample::Sample;
use crate::transactions::Transactions;

/// The number of a row.
const LONGEST: usize = 4;

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

    /// The median time to an answer at once, in µs.
    pub(crate) fn round_trip(&self, count: u32) -> Result<f64, Trouble> {
        let mut trips = Sample::default();
        for _ in 0..count {
            let sent = clock::now();
            self.ask(None)?;
            trips.push((clock::now() - sent) as f64 / 1e3);
        }
        Ok(trips.median())
    }

    /// The median time, in µs, in which one of two that take transactions in turns has written and the other knows of it.
    pub(crate) fn turns(&self, ledger: &mut Transactions, count: u32) -> Result<f64, Trouble> {
        let mut each = Sample::default();
        for serial in 0..count {
            let begun = clock::now();
            ledger.write(true, serial)?;
            self.ask(Some(serial))?;
            each.push((clock::now() - begun) as f64 / 1e3 / 2.0);
        }
        Ok(each.median())
    }

    /// Of a row that was written here, the other first deletes it.
    fn ask(&self, written: Option<u32>) -> Result<(), Trouble> {
        let mut answer = [0; LONGEST];
        let question = written.map(u32::to_be_bytes);
        self.socket.send_to(question.as_ref().map_or(b"-", <[u8; 4]>::as_slice), &self.there)?;
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
