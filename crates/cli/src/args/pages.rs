//! What was typed behind `leasehold pages`.

use std::path::PathBuf;

use clap::Args;

/// Write the manual pages, and the completions for bash, zsh and fish, into a directory
///
/// For whoever packages or installs the command: DIR/man/man1/*.1, DIR/bash/leasehold,
/// DIR/zsh/_leasehold and DIR/fish/leasehold.fish.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct PagesArgs {
    /// Where to; made if it is not there
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
