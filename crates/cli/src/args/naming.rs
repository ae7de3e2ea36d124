//! The option `--naming`, for every task with names of locks.

use clap::Args;

/// How names of locks become keys of the store.
#[derive(Args, Debug)]
pub(crate) struct NamingArgs {
    /// Use the keys of another library for these names: pottery, shedlock... [default: verbatim]
    ///
    /// So that Leasehold and that library exclude each other. `leasehold help stores` lists the
    /// libraries and their keys. Messages, events and LEASEHOLD_KEY contain the key, not the name.
    #[arg(long, value_name = "LIBRARY")]
    pub(crate) naming: Option<String>,
}
