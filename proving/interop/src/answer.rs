//! The requests to a driver, and its answers.
//!
//! | request | does | answers |
//! |---|---|---|
//! | `take NAME TTL PATIENCE` | takes a lock, and waits for it as the library does; patience 0 is one try | `took ASKED ANSWERED`, `held` |
//! | `release` | releases what was taken last, also a second time | `released CALLED`, `not-held CALLED`, `untold CALLED` |
//! | `extend TTL` | prolongs it | `extended`, `not-held`, `unable` |
//! | `visit NAME TTL PATIENCE HOLD FILE` | takes it, makes the file that must not be there, holds, removes it, releases | `visited ANSWERED CALLED`, `not-held CALLED`, `held`, `met WHOM` |
//!
//! Times are whole milliseconds; instants are nanoseconds of `CLOCK_MONOTONIC`. Any request can be
//! answered by `failed WHY`.

use rustix::time::{ClockId, clock_gettime};

/// The current time, on the clock of the drivers.
pub fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(i64::cast_unsigned);
    seconds * 1_000_000_000 + nanos
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The library says that it holds the lock.
    Took {
        asked: u64,
        answered: u64,
    },
    /// According to the library, somebody else holds the lock, and it has stopped waiting.
    Held,
    /// The library says that it held the lock and released it.
    Released {
        called: u64,
    },
    /// According to the library, it no longer holds the lock.
    NotHeld,
    /// The library did it, and reported no result.
    Untold {
        called: u64,
    },
    /// According to the library, the lock was extended.
    Extended,
    /// The library cannot extend a lock on request.
    Unable,
    /// It held the lock, and nobody else did.
    Visited {
        /// When the library reported that it held the lock.
        answered: u64,
        called: u64,
    },
    /// It held the lock, and so did somebody else.
    Met(String),
    Failed(String),
}

impl Answer {
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
