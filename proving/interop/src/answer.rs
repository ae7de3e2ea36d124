//! The requests to a driver, and its answers.
//!
//! | request | does | answers |
//! |---|---|---|
//! | `take NAME TTL PATIENCE` | takes a lock, and waits for it as the library does; patience 0 is one try | `took ASKED ANSWERED`, `held` |
//! | `release` | releases what was taken last, also a second time | `released CALLED`, `not-held CALLED`, `untold CALLED` |
//! | `extend TTL` | prolongs it | `extended`, `not-held`, `unable` |
//! | `visit NAME TTL PATIENCE HOLD FILE` | takes it, makes the file that must not be there, holds, removes it, releases | `visited ANSWERED CALLED`, `not-held CALLED`, `held`, `met WHOM` |
//!
//! Times are whole milliseconds; instants are nanoseconds of `CLOCK_MONOTONIC`. Any request can be answered by `failed WHY`.

use rustix::time::{ClockId, clock_gettime};

/// This moment, on the clock of the drivers.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(i64::cast_unsigned);
    seconds * 1_000_000_000 + nanos
}

/// What a driver says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the tests that match on it must learn of another one")]
pub enum Answer {
    /// The library says that it holds the lock.
    Took {
        /// Before it was asked.
        asked: u64,
        /// When it had said so.
        answered: u64,
    },
    /// The library says that somebody else holds it, and has stopped waiting.
    Held,
    /// The library says that it held the lock and released it.
    Released {
        /// Before it was asked to.
        called: u64,
    },
    /// The library says that it does not hold the lock any more.
    NotHeld,
    /// The library has done something and says nothing about it.
    Untold {
        /// Before it was asked to.
        called: u64,
    },
    /// The library says that the lock is prolonged.
    Extended,
    /// The library cannot prolong a lock when it is asked to.
    Unable,
    /// It held the lock, alone.
    Visited {
        /// When the library had said that it held it.
        answered: u64,
        /// Before the library was asked to release it.
        called: u64,
    },
    /// It held the lock and was not alone.
    Met(String),
    /// Anything else, in words.
    Failed(String),
}

impl Answer {
    /// The answer that a line stands for.
    pub(crate) fn parse(line: &str) -> Self {
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        let instants: Vec<u64> = rest.split(' ').map_while(|word| word.parse().ok()).collect();
        match (kind, &*instants) {
            ("took", &[asked, answered]) => Self::Took { asked, answered },
            ("held", []) => Self::Held,
            ("released", &[called]) => Self::Released { called },
            ("not-held", _) => Self::NotHeld,
            ("untold", &[called]) => Self::Untold { called },
            ("extended", []) => Self::Extended,
            ("unable", []) => Self::Unable,
            ("visited", &[answered, called]) => Self::Visited { answered, called },
            ("met", _) => Self::Met(rest.to_owned()),
            ("failed", _) => Self::Failed(rest.to_owned()),
            _ => Self::Failed(format!("no answer: {line:?}")),
        }
    }
}
