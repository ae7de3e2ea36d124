//! `leasehold help`: the long help of a task, or a page that concerns several tasks.

use std::ffi::OsString;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};

use crate::exit::Failure;
use crate::print;
use crate::topic::TOPICS;

/// Explain a task, or exit-codes, environment, stores or events
#[derive(Args, Debug)]
pub(crate) struct HelpArgs {
    /// The task or topic to explain; without it, all tasks are listed
    #[arg(value_name = "TOPIC", value_parser = explained())]
    pub(crate) topic: Option<String>,
}

const TASKS: [&str; 14] = [
    "run", "once", "every", "hold", "show", "ls", "break", "forget", "metrics", "top", "watch", "doctor",
    "bench", "init",
];

/// This task, which lists all.
const HELP: &str = "help";

/// The tasks, and the topics.
fn explained() -> PossibleValuesParser {
    PossibleValuesParser::new(TASKS.into_iter().chain(TOPICS.iter().map(|topic| topic.name)).chain([HELP]))
}

pub(crate) fn print(args: &HelpArgs, command_line: Command) -> Result<(), Failure> {
    let name = args.topic.as_deref().filter(|name| *name != HELP);
    if let Some(topic) = TOPICS.iter().find(|topic| Some(topic.name) == name) {
        return print::print(topic.text);
    }
    let words = ["leasehold"].into_iter().chain(name).chain(["--help"]);
    command_line
        .try_get_matches_from(words.map(OsString::from))
        .map_or_else(|page| print::print_page(&page), |_| Ok(()))
}
