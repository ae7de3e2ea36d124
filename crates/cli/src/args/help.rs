//! The arguments of `leasehold help`.

use clap::Args;

/// Explain a task, or exit-codes, environment, stores or events
#[derive(Args, Debug)]
pub(crate) struct HelpArgs {
    /// The task or topic to explain; without it, all tasks are listed
    #[arg(value_name = "TOPIC", value_parser = TOPICS)]
    pub(crate) topic: Option<String>,
}

/// The tasks, and the topics of [`topic`](crate::topic).
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
