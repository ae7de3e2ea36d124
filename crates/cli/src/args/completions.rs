//! The arguments of `leasehold completions`.

use clap::Args;
use clap_complete::Shell;

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
