//! `leasehold init`: creates a store that several users share, or the tables of a store in a
//! database.

use std::path::absolute;

use leasehold::{Locks, postgres};
use nix::unistd::{Group, Uid};

use crate::args::InitArgs;
use crate::exit::{End, Failure};
use crate::print::print;
use crate::store_url::StoreUrl;

/// Creates it, and prints its URL.
pub(crate) async fn init(args: InitArgs) -> Result<End, Failure> {
    match &args.store {
        Some(url) => make_tables(url, args.print_sql).await,
        None => make_for_a_group(args).await,
    }
}

async fn make_tables(url: &str, only_print: bool) -> Result<End, Failure> {
    let store = StoreUrl::new(url)?;
    if !store.is_postgres() {
        return Err(Failure::usage(
            "only a PostgreSQL store has tables to make: the others are made when they are first used",
        ));
    }
    if only_print {
        print(&postgres::schema_sql(store.reveal())?)?;
        return Ok(End::SUCCESS);
    }
    postgres::init(store.reveal()).await.map_err(Failure::refused)?;
    print(&format!("{store}\n"))?;
    Ok(End::SUCCESS)
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
    let url = StoreUrl::file(&file)
        .ok_or_else(|| Failure::usage("the path is not UTF-8, as a store URL must be: choose another"))?;
    // The file belongs to its first user.
    Locks::builder().connect(url.reveal()).await?;
    print(&format!("{url}\n"))?;
    Ok(End::SUCCESS)
}
