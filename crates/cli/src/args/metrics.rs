//! The arguments of `leasehold metrics`.

use std::ffi::OsString;

use clap::Args;

use super::PlaceArgs;

/// Print figures about the locks of a store, for Prometheus
///
/// For the textfile collector of node_exporter: locks held, requests waiting, the longest of each,
/// leases broken within a day, and how long work of `every` is overdue. No figure names a key. It
/// scans the store as `leasehold ls` does.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold metrics [OPTIONS] [PREFIX]",
    after_help = "Exit codes: `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct MetricsArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,

    /// The beginning of the names
    #[arg(value_name = "PREFIX", num_args = 0..)]
    pub(crate) prefixes: Vec<OsString>,
}

const EXAMPLE: &str = "\
If the store cannot be reached, nothing is printed and the exit code is 69.

Example: in a crontab, each minute:
  leasehold metrics >/var/lib/node_exporter/locks.new && mv /var/lib/node_exporter/locks.new /var/lib/node_exporter/locks.prom";
