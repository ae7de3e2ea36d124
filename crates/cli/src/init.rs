//! `leasehold init`: creates a store that several users share, or the tables of a store in a
//! database.

use std::ffi::OsString;
use std::path::absolute;
use std::sync::Arc;

use clap::Args;
use leasehold::{TokioRuntime, postgres};
use leasehold_file::Ledger;
use nix::unistd::{Group, Uid};

use crate::environment;
use crate::exit::{End, Failure};
use crate::options::value_of;
use crate::print::print;
use crate::store_url::StoreUrl;
use crate::stores::Stores;

/// Create a store that several users of this machine share, or the tables of a PostgreSQL database
///
/// For users of one machine, run it as root: it creates the directory DIR for the users of a group,
/// with the file leases.db in it, and prints the store's URL. Without such a store, each user has
/// their own default store, and `leasehold run deploy` and `sudo leasehold run deploy` do not
/// exclude each other. Only root can replace the file. The users of the group can write to it: each
/// of them can acquire, break or damage any lock in it, block the file, and end processes that use
/// it. They cannot reach anything else of each other's.
///
/// With --store, or without DIR if LEASEHOLD_STORE names a PostgreSQL database, it creates the tables
/// in the schema that the URL names, in one transaction, unless they exist. This needs a user who may
/// create a schema; users of the locks need less (docs/postgres.md). --print-sql prints the
/// statements without connecting.
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

    /// The PostgreSQL database in which to create the tables: postgres://HOST/DATABASE [default:
    /// $LEASEHOLD_STORE]
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,

    /// Print the SQL that creates the tables, for migrating by hand
    #[arg(long)]
    pub(crate) print_sql: bool,

    /// The directory, which must be empty or not exist; one that init made for the same group is
    /// completed
    #[arg(value_name = "DIR", num_args = 0..)]
    pub(crate) directories: Vec<OsString>,
}

impl InitArgs {
    /// The database, and who named it: `--store`, or the environment if nothing else is asked for.
    pub(crate) fn database(&self) -> Option<(String, &'static str)> {
        if let Some(url) = &self.store {
            return Some((url.clone(), "--store"));
        }
        let text =
            value_of(environment::STORE).filter(|_| self.group.is_none() && self.directories.is_empty())?;
        match *Stores::urls_in(&text) {
            [url] if StoreUrl::is_begun_as_postgres(url) => Some((url.into(), environment::STORE)),
            _ => None,
        }
    }
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

pub(crate) async fn init(args: InitArgs) -> Result<End, Failure> {
    let Some((url, origin)) = args.database() else { return make_for_a_group(args).await };
    let (store, schema_sql) = database_at(&url).map_err(|failure| failure.about(origin))?;
    if args.print_sql {
        print(&schema_sql)?;
    } else {
        postgres::init(store.reveal()).await.map_err(Failure::refused)?;
        print(&format!("{store}\n"))?;
    }
    Ok(End::SUCCESS)
}

/// The database at a URL, and the SQL that creates its tables.
fn database_at(url: &str) -> Result<(StoreUrl, String), Failure> {
    if Stores::is_a_quorum(url) {
        return Err(Failure::usage("a quorum has no tables of its own: name its databases, one at a time"));
    }
    let store = StoreUrl::new(url)?;
    if !StoreUrl::is_begun_as_postgres(store.reveal()) {
        return Err(Failure::usage(
            "only a PostgreSQL store has tables to make: the others are made when they are first used",
        ));
    }
    // An invalid URL is a mistake of the caller, and not a refusal of the server.
    let schema_sql = postgres::schema_sql(store.reveal())?;
    Ok((store, schema_sql))
}

async fn make_for_a_group(args: InitArgs) -> Result<End, Failure> {
    let name = args.group.unwrap_or_default();
    let directory = absolute(args.directories.into_iter().next().unwrap_or_default()).map_err(|error| {
        Failure::usage(format!("the working directory is unknown ({error}): give an absolute path"))
    })?;
    let group = match Group::from_name(&name) {
        Ok(Some(group)) => group.gid,
        Ok(None) => {
            return Err(Failure::usage(format!(
                "--group {name}: there is no such group: name an existing one"
            ))
            .hint(format!("groupadd {name} makes it, and usermod -aG {name} USER puts a user into it")));
        }
        Err(error) => {
            return Err(Failure::usage(format!("--group {name}: it cannot be looked up ({error})")));
        }
    };
    if !Uid::effective().is_root() {
        return Err(Failure::usage(
            "only root can make a store that its users cannot replace: run it as root",
        ));
    }
    let file = leasehold_file::make_group_store(&directory, group.as_raw()).map_err(Failure::refused)?;
    let url = StoreUrl::file(&file);
    // The file belongs to whoever creates it.
    let runtime = TokioRuntime::current().expect("this runs on tokio");
    Ledger::at(&file, Arc::new(runtime)).open().map_err(Failure::refused)?;
    print(&format!("{url}\n"))?;
    Ok(End::SUCCESS)
}
