//! Orders to a process, and its answers: a line of JSON each.

use serde::{Deserialize, Serialize};

/// What a process is told to do. Each is answered by one [`Report`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "programs in other languages know exactly these")]
pub enum Order {
    /// So many tasks each take and release a key of their own for so many ms. [`Report::Cycles`].
    Cycle {
        /// How many tasks share the one client; in a language without tasks, threads.
        tasks: usize,
        /// For how long.
        millis: u64,
    },
    /// The same without the library: `SET NX PX` and a script that compares and deletes, by the
    /// same client or its language's usual one. [`Report::Cycles`].
    Bare {
        /// As in [`Cycle`](Self::Cycle).
        tasks: usize,
        /// As in [`Cycle`](Self::Cycle).
        millis: u64,
    },
    /// One task takes a key, holds it, releases it and rests, until so many ms are over.
    /// [`Report::Turns`].
    Turns {
        /// The key, which other processes want too.
        key: String,
        /// How long each turn lasts, in ms.
        hold: u64,
        /// How long it rests after each, in ms.
        think: u64,
        /// For how long.
        millis: u64,
    },
}

/// When a turn was asked for, when the library said that it had the lock, and when the library was
/// asked to release it: nanoseconds of `CLOCK_MONOTONIC`, which is one for all processes of a
/// machine.
pub type Times = [u64; 3];

/// What a process answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
#[expect(clippy::exhaustive_enums, reason = "programs in other languages know exactly these")]
pub enum Report {
    /// It is connected; said once, before any order.
    Ready,
    /// Keys taken and released.
    Cycles {
        /// How many.
        count: u64,
        /// In how many ns.
        nanos: u64,
    },
    /// All its turns.
    Turns {
        /// In the order in which it had them.
        turns: Vec<Times>,
    },
    /// Why it could not be done.
    Failed {
        /// In words.
        why: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_that_programs_in_other_languages_know() {
        let line = |order: &Order| serde_json::to_string(order).unwrap();
        let turns = Order::Turns { key: "k".into(), hold: 1, think: 2, millis: 30 };
        assert_eq!(line(&turns), r#"{"do":"turns","key":"k","hold":1,"think":2,"millis":30}"#);
        assert_eq!(line(&Order::Bare { tasks: 16, millis: 3 }), r#"{"do":"bare","tasks":16,"millis":3}"#);
        for said in [
            r#"{"is": "ready"}"#,
            r#"{"is": "cycles", "count": 3, "nanos": 9}"#,
            r#"{"is":"turns","turns":[[1,2,3]]}"#,
            r#"{"is":"failed","why":"Error: gone"}"#,
        ] {
            assert!(serde_json::from_str::<Report>(said).is_ok(), "{said}");
        }
        assert!(serde_json::from_str::<Report>(r#"{"is":"cycles"}"#).is_err());
    }
}
