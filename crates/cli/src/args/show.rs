//! The arguments of `leasehold show`.

use std::ffi::OsString;

use clap::Args;

use super::PlaceArgs;

/// Show who holds a lock, and who waits for it
///
/// Also shows when `once` or `every` last ran under this name, who ran it, and when it is due; and
/// for a day, which lease was broken, by whom and why.
///
/// The exit code is 0 if the lock is held and 1 if it is free. Do not ask first and acquire
/// afterwards, because a moment later the answer may differ: `leasehold run --try` does both at
/// once.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold show [OPTIONS] KEY",
    after_help = "Exit codes: 0 held, 1 free; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct ShowArgs {
    /// Print one JSON object
    ///
    /// key, held, holders, waiters, mark and last_break. A holder has kind: "lease" (holder,
    /// label), "foreign" (value: another program's lock) or "not_a_lock"; and mode, fence,
    /// granted_at and held_ms (null: not known) and remaining_ms (null: it never ends). granted_at
    /// is in milliseconds since 1970 by the store's clock, and held_ms is the time since then. A
    /// waiter has place, holder, label, mode and waited_ms. A mode is "exclusive", "shared" or
    /// "permits", the last with permits and of: how many of how many. mark is the record of
    /// `once` or `every`, or null: begun_at, by, fence, period_ms and due_at (null: once, ever).
    /// last_break is the last lease that was broken within a day, or null: broken_at, fence,
    /// held_by, by and reason.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// Print nothing, only set the exit code
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Print which store is used
    #[arg(short, long)]
    pub(crate) verbose: bool,

    /// The name of the lock
    #[arg(value_name = "KEY", num_args = 0..)]
    pub(crate) keys: Vec<OsString>,
}

const EXAMPLE: &str = "\
Exit codes: 0 held, 1 free, 65 the key contains something that is not a lock; `leasehold help exit-codes`.

Example: who is deploying?
  leasehold show deploy";
