//! Orders to the processes of a workload, and their answers: a line of JSON each.

use serde::{Deserialize, Serialize};

use crate::turn::Turn;

/// An order to a process. Each order is answered by one [`Report`].
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Starts waiters, each of which acquires a key `each` times, and returns at once.
    /// [`Report::Done`].
    Take {
        key: String,
        waiters: usize,
        /// The number of turns of each waiter.
        each: u32,
        /// The duration of a turn, in µs; zero does not even yield.
        hold: u64,
        /// The pause after each turn, in µs.
        think: u64,
    },
    /// Waits for all waiters. [`Report::Turns`].
    Collect,
    /// Acquires a key through a connection that is not counted, and holds it. [`Report::Done`].
    Hold { key: String },
    /// Waits until the key's queue has this many waiters. [`Report::Done`].
    Queued { key: String, waiters: usize },
    /// Releases the key that this process holds. [`Report::Done`].
    Yield,
    /// Queues waiters on a held key, measures their memory, and drops them. [`Report::Weight`].
    WeighWaiters { key: String, waiters: usize },
    /// Acquires this many keys and keeps them. [`Report::Weight`].
    Keep {
        guards: usize,
        /// Their TTL, in ms; each is renewed after a third of it.
        ttl: u64,
    },
    /// Only keeps the held guards renewed, for `millis` ms. [`Report::Kept`].
    Rest {
        /// The duration, in ms.
        millis: u64,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Report {
    Done,
    Turns(Vec<Turn>),
    /// Live bytes per waiter or guard; `None` in the program that does not count allocations.
    Weight(Option<f64>),
    /// The processor time used and the guards lost during a rest.
    Kept {
        /// Processor time, in ns.
        processor: u64,
        lost: usize,
    },
    Failed(String),
}
