//! The arguments of `leasehold init`.

use std::ffi::OsString;

use clap::Args;

/// Create a store that several users of this machine share, or the tables of a PostgreSQL database
///
/// For users of one machine, run it as root: it creates the directory DIR for the users of a group,
/// with the file leases.db in it, and prints the store's URL. Without such a store, each user has
/// their own default store, and `leasehold run deploy` and `sudo leasehold run deploy` do not
/// exclude each other. Only root can replace the file. The users of the group can write to it: each
/// of them can acquire, break or damage any lock in it, block the file, and end processes that use
/// it. They cannot reach anything else of each other's.
///
/// With --store, it creates the tables in the schema that the URL names, in one transaction, unless
/// they exist. This needs a user who may create a schema; users of the locks need less
/// (docs/postgres.md). --print-sql prints the statements without connecting.
#[derive(Args, Debug)]
#[command(
    override_usage = "leasehold init [OPTIONS] DIR --group NAME\n       leasehold init --store URL [--print-sql]",
    after_help = "Exit codes: 0 it is there; `leasehold help exit-codes`.",
    after_long_help = EXAMPLE
)]
pub(crate) struct InitArgs {
    /// The group whose users share the store
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,

    /// The PostgreSQL database in which to create the tables: postgres://HOST/DATABASE
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Print the SQL that creates the tables, for migrating by hand
    #[arg(long, requires = "store")]
    pub(crate) print_sql: bool,

    /// The directory, which must be empty or not exist; one that init made for the same group is
    /// completed
    #[arg(value_name = "DIR", num_args = 0..)]
    pub(crate) directories: Vec<OsString>,
}

const EXAMPLE: &str = "\
Exit codes: 0 it is there, 64 there is no such group, or it was not root; 69 it cannot be made; `leasehold help exit-codes`.

Example: one store for all who deploy. The first three lines are root's:
  groupadd deployers
  usermod -aG deployers anne
  leasehold init --group deployers /var/lib/leasehold
  leasehold run --store file:/var/lib/leasehold/leases.db deploy -- ./deploy

Example: locks in a database:
  leasehold init --store postgres://owner@db/app
  leasehold run --store postgres://web@db/app deploy -- ./deploy";
