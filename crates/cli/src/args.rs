//! What was typed. What it comes to is for [`settings`](crate::settings) to say.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand};

/// Locks for commands: while one runs under a key, no other does.
#[derive(Debug, Parser)]
#[command(name = "leasehold", version, disable_help_subcommand = true)]
pub(crate) struct CommandLine {
    #[command(subcommand)]
    pub(crate) task: Task,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Task {
    /// Run a command while holding a lock
    ///
    /// Waits for the lock, runs COMMAND under it, releases it, and ends as COMMAND ended. When the lease is lost, COMMAND is
    /// ended.
    #[command(after_help = EXIT_CODES, override_usage = "leasehold run [OPTIONS] KEY -- COMMAND [ARG]...")]
    Run(RunArgs),
}

const EXIT_CODES: &str = "\
TIME is a number of seconds, or numbers with units: 500ms, 30s, 2m, 1h30m.

Exit codes: COMMAND's own; 64 usage; 65 KEY holds something that is no lock; 69 the store is out of reach or refuses;
70 the lease was lost; 75 busy; 126 COMMAND cannot be executed; 127 COMMAND was not found.";

/// What was typed behind `leasehold run`.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Try once, and exit with 75 when the lock is held
    #[arg(short = 'n', long = "try", conflicts_with = "within")]
    pub(crate) once: bool,

    /// Wait no longer than this, then exit with 75; without it, wait as long as it takes
    #[arg(short, long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) within: Option<String>,

    /// How long a crash of ours keeps the others out; leases are renewed while COMMAND runs [default: 30s]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) ttl: Option<String>,

    /// From SIGTERM to SIGKILL, when the lease is lost [default: 5s, or a quarter of the ttl if that is less]
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) grace: Option<String>,

    /// What others are told about who holds the lock [default: host:pid]
    #[arg(long, value_name = "TEXT")]
    pub(crate) label: Option<String>,

    /// Where the locks are: file:PATH, redis://HOST, rediss://HOST or redis+unix:///SOCKET
    /// [default: $LEASEHOLD_STORE, or a file in this user's home]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Leave the terminal out of it: COMMAND gets a process group of its own, and signals from us
    #[arg(long)]
    pub(crate) no_tty: bool,

    /// Say nothing when the lock is held
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Say where the lock is taken, and with which fence
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The name of the lock
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,

    /// What to run, and its arguments; no shell reads them
    #[arg(value_name = "COMMAND", last = true, num_args = 0..)]
    pub(crate) command: Vec<OsString>,
}
