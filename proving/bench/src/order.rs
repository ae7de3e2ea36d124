//! Orders to the processes of a workload, and their answers: a line of JSON each.

use serde::{Deserialize, Serialize};

use crate::turn::Turn;

/// What a process is told to do. Each is answered by one [`Report`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "both sides are in this crate")]
pub enum Order {
    /// Starts waiters for a key, each of which takes it so often, and does not wait for them. [`Report::Done`].
    Take {
        /// The key.
        key: String,
        /// How many wait.
        waiters: usize,
        /// How many turns each has.
        each: u32,
        /// How long each turn lasts, in µs; zero does not even yield.
        hold: u64,
        /// How long each rests after a turn, in µs.
        think: u64,
    },
    /// Waits for all waiters. [`Report::Turns`].
    Collect,
    /// Takes a key so often by the least hand-over that there can be. [`Report::Turns`].
    TakeBare {
        /// The key.
        key: String,
        /// How many turns it has.
        each: u32,
        /// How long each turn lasts, in µs.
        hold: u64,
        /// How long it rests after a turn, in µs.
        think: u64,
    },
    /// Takes a key, by a way that is not counted, and holds it. [`Report::Done`].
    Hold {
        /// The key.
        key: String,
    },
    /// Waits until so many stand in the line of a key. [`Report::Done`].
    InLine {
        /// The key.
        key: String,
        /// How many.
        waiters: usize,
    },
    /// Releases what it holds. [`Report::Done`].
    Yield,
    /// Lets so many stand in the line of a key that is held, weighs them, and drops them. [`Report::Weight`].
    WeighWaiters {
        /// The key.
        key: String,
        /// How many.
        waiters: usize,
    },
    /// Takes so many keys and keeps them. [`Report::Weight`].
    Keep {
        /// How many.
        guards: usize,
        /// Their ttl, in ms: each is renewed after a third of it.
        ttl: u64,
    },
    /// Does nothing but keep what it has, for so many ms. [`Report::Kept`].
    Rest {
        /// How long.
        millis: u64,
    },
    /// Takes and releases a key of the file store so often, without async: where it is taken it tries again.
    /// [`Report::Turns`].
    Spin {
        /// The file.
        file: String,
        /// How often.
        turns: u32,
    },
    /// Answers datagrams, some after a bare transaction. [`Report::Done`] as soon as it listens.
    Echo {
        /// Where it listens.
        here: String,
        /// Where it answers to.
        there: String,
        /// Where the database of the transactions is.
        directory: String,
    },
}

/// What a process answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(clippy::exhaustive_enums, reason = "both sides are in this crate")]
pub enum Report {
    /// It was done.
    Done,
    /// All turns of its waiters.
    Turns(Vec<Turn>),
    /// Live bytes for each of those that were to be weighed; `None` in the program that does not count.
    Weight(Option<f64>),
    /// What was used and lost during a rest.
    Kept {
        /// Processor time, in ns.
        processor: u64,
        /// Guards that were lost.
        lost: usize,
    },
    /// Why it could not be done.
    Failed(String),
}
