//! What was typed behind `leasehold help`.

use clap::Args;

/// Say more about a task, or about exit-codes, environment, stores or events
#[derive(Args, Debug)]
pub(crate) struct HelpArgs {
    /// What to say more about; without it, all tasks are listed
    #[arg(value_name = "TOPIC", value_parser = TOPICS)]
    pub(crate) topic: Option<String>,
}

/// The tasks, and what [`topic`](crate::topic) has a page about.
const TOPICS: [&str; 18] = [
    "run",
    "once",
    "every",
    "hold",
    "show",
    "ls",
    "break",
    "forget",
    "metrics",
    "top",
    "watch",
    "doctor",
    "bench",
    "init",
    "exit-codes",
    "environment",
    "stores",
    "events",
];
