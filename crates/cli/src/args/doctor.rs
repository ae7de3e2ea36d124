//! What was typed behind `leasehold doctor`.

use std::ffi::OsString;

use clap::Args;

use super::{NamingArgs, PlaceArgs};

/// Say what would endanger the locks of a store
///
/// Eviction, persistence, replicas, clocks, permissions, waiters that are not told of their turn,
/// what is left over, a file that others can write: each finding says what it is, why it matters
/// for a lock, and the command that mends it. Changes nothing. On a server it looks at some keys
/// and not at all of them, and says at how many.
///
/// It sees what the store's user may see: name one who may run INFO and CONFIG GET, too.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold doctor [OPTIONS]",
    after_help = "Exit codes: 0 good, 1 warnings, 2 unsafe; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object
    ///
    /// store, worst, and findings: each with severity (\"note\", \"unseen\", \"warning\" or
    /// \"unsafe\"), about, at, what, why and remedy: null, or an object with kind (\"advice\",
    /// \"redis-cli\" or \"shell\": where the text is a command) and text.
    #[arg(long)]
    pub(crate) json: bool,

    /// Also look whether a lock of this name can be taken: by the key and those beside it, as this
    /// user
    ///
    /// For a user who may use certain keys only. It asks about the key, its mark and its last
    /// break, and takes nothing.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<OsString>,

    #[command(flatten)]
    pub(crate) naming: NamingArgs,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Print nothing: the exit code says it
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Also print what is as it should be
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

const EXAMPLE: &str = "\
Exit codes: 0 nothing endangers locks; 1 a failure would, or something could not be seen; 2 they are unsafe, or do not work.

What CONFIG SET and ACL SETUSER change is gone with a restart of the server, unless its configuration says it too: CONFIG REWRITE
and ACL SAVE write it there.

Example: what is wrong with this server, and may this user lock what the application locks?
  leasehold doctor --store redis://app@10.0.0.5 --key app:invoices";
