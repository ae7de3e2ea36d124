//! An open-loop load: batches of commands arrive at random times, however busy the server is.
//!
//! A closed loop waits for the answer before the next request, so it slows down with the server and
//! never sees the queue that other clients see.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::AnyError;
use crate::sample::Sample;

/// One batch: the bytes to send, and the length of the answer.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "workloads spell it out")]
pub struct Batch {
    /// The commands, as sent.
    pub bytes: Vec<u8>,
    /// The length of their answers in bytes.
    pub answers: usize,
}

/// The arrival times of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers must handle every variant")]
pub enum Arrivals {
    /// Random: a Poisson process. The same seed gives the same times.
    AtRandom {
        /// The seed.
        seed: u64,
    },
    /// At equal intervals: as long as the server is not overloaded, no batch finds another before
    /// it.
    Evenly,
}

/// Sends `count` batches at `rate` per second. Returns for each the µs from when it was due to its
/// last answer.
pub fn took(
    port: u16,
    batch: &Batch,
    arrivals: Arrivals,
    rate: f64,
    count: usize,
) -> Result<Sample, AnyError> {
    let mut sender = TcpStream::connect(("127.0.0.1", port))?;
    sender.set_nodelay(true)?;
    let mut receiver = sender.try_clone()?;
    receiver.set_read_timeout(Some(Duration::from_secs(10)))?;
    let mut answers = vec![0; batch.answers];
    let reading = thread::spawn(move || {
        (0..count)
            .map(|_| receiver.read_exact(&mut answers).map(|()| Instant::now()))
            .collect::<Result<Vec<_>, _>>()
    });
    let mut chance = match arrivals {
        Arrivals::AtRandom { seed } => Some(StdRng::seed_from_u64(seed)),
        Arrivals::Evenly => None,
    };
    let mut due = Instant::now();
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let gap = chance.as_mut().map_or(1.0 / rate, |chance| gap(chance.random::<f64>(), rate));
        due += Duration::from_secs_f64(gap);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        sender.write_all(&batch.bytes)?;
        times.push(due);
    }
    let done = reading.join().map_err(|_| "the reader of an open loop panicked")??;
    Ok(times.iter().zip(done).map(|(due, done)| done.duration_since(*due).as_secs_f64() * 1e6).collect())
}

/// Seconds between two arrivals of a Poisson process, from a uniformly distributed number between 0
/// and 1.
fn gap(chance: f64, rate: f64) -> f64 {
    -(1.0 - chance).ln() / rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_come_at_the_rate_that_was_asked_for() {
        let gaps: f64 = (0..1_000).map(|n| gap((f64::from(n) + 0.5) / 1e3, 50.0)).sum();
        assert!((1_000.0 / gaps - 50.0).abs() < 0.5, "{gaps}");
    }
}
