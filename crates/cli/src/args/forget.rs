//! The arguments of `leasehold forget`.

use std::ffi::OsString;

use clap::Args;

use super::PlaceArgs;

/// Forget that `once` or `every` ran a command, so that the next one runs it again
///
/// Deletes the mark that is left when COMMAND has ended with 0; `leasehold show KEY` prints it. A
/// process that runs COMMAND now is not disturbed, and leaves a new mark. In a quorum, every store
/// must answer.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold forget [OPTIONS] KEY",
    after_help = "Exit codes: 0 forgotten, 1 nothing was noted; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct ForgetArgs {
    /// Print one JSON object
    ///
    /// key, forgotten, and mark: the deleted mark (null: there was none), as in `leasehold show
    /// --json`.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Print nothing, only set the exit code
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// The name of the job
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,
}

const EXAMPLE: &str = "\
Exit codes: 0 forgotten, 1 nothing was noted; `leasehold help exit-codes`.

Example: the migration was rolled back, and is to run again:
  leasehold forget migrate:0042";
