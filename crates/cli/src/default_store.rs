//! The default store.

use std::env;

use nix::unistd::{Uid, User};

use crate::exit::Failure;
use crate::store_url::StoreUrl;

/// This user's file store on this machine, in the home directory of the effective user in the user
/// database.
pub(crate) fn default_store() -> Result<StoreUrl, Failure> {
    let home = leasehold_file::home().map_err(|fact| {
        Failure::usage(format!(
            "{fact}, so there is no default store: name one with --store or LEASEHOLD_STORE"
        ))
    })?;
    Ok(StoreUrl::file(&home.join(".local/state/leasehold/leases.db")))
}

/// The user who called sudo to run this as another user, whose default store is a different one.
pub(crate) fn other_user_of_sudo() -> Option<String> {
    let name = env::var("SUDO_USER").ok().filter(|name| !name.is_empty())?;
    let is_same = matches!(User::from_name(&name), Ok(Some(entry)) if entry.uid == Uid::effective());
    (!is_same).then_some(name)
}
