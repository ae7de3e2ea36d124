//! What was typed behind `leasehold completions`.

use clap::Args;
use clap_complete::Shell;

/// Print the completions for a shell: bash, zsh or fish
///
/// For bash, `eval "$(leasehold completions bash)"` in ~/.bashrc. Keys that are held or waited for
/// are completed too, and behind -- the command.
#[derive(Args, Debug)]
#[command(hide = true)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}
