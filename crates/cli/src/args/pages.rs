//! The arguments of `leasehold pages`.

use std::path::PathBuf;

use clap::Args;

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
