//! `leasehold help`: the long help of a task, or a page that concerns several tasks.

use std::ffi::OsString;

use clap::{Args, Command};

use crate::exit::Failure;
use crate::print;
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

/// Prints the help of the command line, or of one of its tasks.
pub(crate) fn print(args: &HelpArgs, command_line: Command) -> Result<(), Failure> {
    let name = args.topic.as_deref();
    if let Some(topic) = TOPICS.iter().find(|topic| Some(topic.name) == name) {
        return print::print(topic.text);
    }
    let words = ["leasehold"].into_iter().chain(name).chain(["--help"]);
    command_line
        .try_get_matches_from(words.map(OsString::from))
        .map_or_else(|page| print::print_page(&page), |_| Ok(()))
}
