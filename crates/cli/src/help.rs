//! `leasehold help`: the long help of a task, or a page that concerns several tasks.

use std::ffi::OsString;
use std::io::Write as _;

use clap::{Args, Parser as _};

use crate::args::CommandLine;
use crate::topic::TOPICS;

/// Explain a task, or exit-codes, environment, stores or events
#[derive(Args, Debug)]
pub(crate) struct HelpArgs {
    /// The task or topic to explain; without it, all tasks are listed
    #[arg(value_name = "TOPIC", value_parser = EXPLAINED)]
    pub(crate) topic: Option<String>,
}

/// The tasks, and the topics of [`topic`](crate::topic).
const EXPLAINED: [&str; 18] = [
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

/// Prints the help. A reader who has seen enough closes the pipe, which is not an error.
pub(crate) fn print(args: &HelpArgs) {
    let name = args.topic.as_deref();
    if let Some(topic) = TOPICS.iter().find(|topic| Some(topic.name) == name) {
        let _ = std::io::stdout().write_all(topic.text.as_bytes());
        return;
    }
    let words = ["leasehold"].into_iter().chain(name).chain(["--help"]);
    if let Err(help) = CommandLine::try_parse_from(words.map(OsString::from)) {
        let _ = help.print();
    }
}
