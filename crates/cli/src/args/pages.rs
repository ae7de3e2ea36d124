//! The arguments of the tasks that print or write the command's own pages.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

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

/// Write the manual pages, and the completions for bash, zsh and fish, into a directory
///
/// For packaging or installing the command: DIR/man/man1/*.1, DIR/bash/leasehold,
/// DIR/zsh/_leasehold and DIR/fish/leasehold.fish.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct PagesArgs {
    /// The directory, which is created if it does not exist
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// Print the completions for a shell: bash, zsh or fish
///
/// For bash, put `eval "$(leasehold completions bash)"` into ~/.bashrc. It also completes keys that
/// are held or waited for, and the command after --.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}
