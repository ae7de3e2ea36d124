//! The arguments of `leasehold doctor`.

use std::ffi::OsString;

use clap::Args;

use super::PlaceArgs;

/// Find settings of a store that endanger its locks
///
/// Checks eviction, persistence, replicas, clocks, permissions, push messages, leftovers, and
/// whether others can write a store's file. Each finding says what is wrong, why it matters for a
/// lock, and which command fixes it. Changes nothing. On a server, it checks a sample of the keys
/// and says how many.
///
/// It sees only what the store's user may see: use one who may also run INFO and CONFIG GET.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold doctor [OPTIONS]",
    after_help = "Exit codes: 0 good, 1 warnings, 2 unsafe; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct DoctorArgs {
    /// Print one JSON object
    ///
    /// store, worst, and findings: each with severity ("note", "unknown", "warning" or
    /// "unsafe"), about, at, what, why and remedy: null, or an object with kind ("advice",
    /// "redis-cli", "psql" or "shell": where the text is a command) and text.
    #[arg(long)]
    pub(crate) json: bool,

    /// Also check that this user may lock this key
    ///
    /// For a user who may use certain keys only. It reads the key, its side keys, its mark and its
    /// last break, and acquires nothing.
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<OsString>,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Print nothing, only set the exit code
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Also print what is as it should be
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

const EXAMPLE: &str = "\
Exit codes: 0 nothing endangers locks; 1 a failure would, or something could not be checked; 2 they are unsafe, or do not work.

Changes by CONFIG SET and ACL SETUSER are lost with a restart of the server, unless CONFIG REWRITE
and ACL SAVE write them to its configuration.

Example: is this server safe for locks, and may this user lock the application's keys?
  leasehold doctor --store redis://app@10.0.0.5 --key app:invoices";
