//! What was typed behind `leasehold show`.

use std::ffi::OsString;

use clap::Args;

use super::{NamingArgs, PlaceArgs};

/// Show who holds a lock, and who waits for it
///
/// Also when `once` or `every` last ran under this name, by whom, and when it is due; and for a
/// day, which lease was broken, by whom and why.
///
/// Takes nothing and changes nothing. The exit code is 0 when somebody holds the lock and 1 when it
/// is free, so that a script can ask; whoever wants the lock does not ask first, but runs
/// `leasehold run --try`: a moment later it may be different.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold show [OPTIONS] KEY",
    after_help = "Exit codes: 0 held, 1 free; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct ShowArgs {
    /// Print one JSON object
    ///
    /// key, held, holders and line. A holding is of a kind: \"lease\" (holder, label), \"foreign\"
    /// (value: another program's lock) or \"not_a_lock\"; each has mode, fence, granted_at and
    /// held_ms (null: not known) and remaining_ms (null: it has no end). granted_at is in
    /// milliseconds since 1970 by the store's clock, and held_ms is the time since then. Who stands
    /// in line has place, holder, label, mode and waited_ms. A mode is \"exclusive\", \"shared\" or
    /// \"permits\", and has beside it then permits and of: how many of how many. mark is what
    /// `once` or `every` noted, or null: begun_at, by, fence, period_ms and due_at (null: once,
    /// ever). last_break is the lease that was broken last within a day, or null: broken_at, fence,
    /// held_by, by and reason.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    #[command(flatten)]
    pub(crate) naming: NamingArgs,

    /// Print nothing: the exit code says it
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Say where we look
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The name of the lock
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,
}

const EXAMPLE: &str = "\
Exit codes: 0 held, 1 free, 65 what stands there is no lock; `leasehold help exit-codes`.

Example: whose deployment is it?
  leasehold show deploy";
