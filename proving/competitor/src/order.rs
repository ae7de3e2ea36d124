//! Orders to a process, and its answers: a line of JSON each.

use serde::{Deserialize, Serialize};

/// An order to a process. Each order is answered by one [`Report`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "lowercase")]
pub enum Order {
    /// Each of `tasks` tasks acquires and releases its own key for `millis` ms. [`Report::Cycles`].
    Cycle {
        /// The number of tasks that share the one client; threads in a language without tasks.
        tasks: usize,
        millis: u64,
    },
    /// The same without the library: `SET NX PX`, and a script that compares and deletes, through
    /// the same client or the usual one of its language. [`Report::Cycles`].
    Bare { tasks: usize, millis: u64 },
    /// One task acquires a key, holds it, releases it and rests, until `millis` ms are over.
    /// [`Report::Turns`].
    Turns {
        /// The key, for which other processes compete.
        key: String,
        /// The duration of each turn, in ms.
        hold: u64,
        /// The pause after each turn, in ms.
        think: u64,
        /// The duration of all turns, in ms.
        millis: u64,
    },
}

/// When a lock was requested, acquired, and its release requested: nanoseconds of `CLOCK_MONOTONIC`.
pub type Times = [u64; 3];

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "lowercase")]
pub enum Report {
    /// The process is connected; sent once, before any order.
    Ready,
    /// The number of keys acquired and released.
    Cycles {
        count: u64,
        /// The time that they took, in ns.
        nanos: u64,
    },
    /// The turns of this process.
    Turns {
        turns: Vec<Times>,
    },
    Failed {
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
