//! `leasehold help`: the long help of a task, or a page that concerns several tasks.

use std::ffi::OsString;
use std::io::Write as _;

use clap::Parser as _;

use crate::args::{CommandLine, HelpArgs};
use crate::topic::TOPICS;

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
