//! Where the locks are when nothing says where.

use std::path::PathBuf;

use nix::unistd::{Uid, User};

use crate::exit::Failure;
use crate::store_url::StoreUrl;

/// The file store of this user on this machine.
///
/// In the home that the user database gives for the effective user, whatever the environment says: cron, a service and a
/// shell with other ideas of `HOME` and `XDG_STATE_HOME` must never lock in two files.
pub(crate) fn default_store() -> Result<StoreUrl, Failure> {
    let user = Uid::effective();
    store_of(user, User::from_uid(user).map(|entry| entry.map(|entry| entry.dir)))
}

fn store_of(user: Uid, home: nix::Result<Option<PathBuf>>) -> Result<StoreUrl, Failure> {
    let fact = match home {
        Ok(Some(home)) if home.is_absolute() => {
            match home.join(".local/state/leasehold/leases.db").to_str() {
                Some(path) => return Ok(StoreUrl::file(path)),
                None => format!("the home of user {user} is not UTF-8"),
            }
        }
        Ok(Some(_)) => format!("user {user} has no home in the user database"),
        Ok(None) => format!("user {user} is not in the user database"),
        Err(error) => format!("the home of user {user} cannot be looked up ({error})"),
    };
    Err(Failure::usage(format!(
        "{fact}, so there is no default store: name one with --store or LEASEHOLD_STORE"
    )))
}

#[cfg(test)]
mod tests {
    use nix::errno::Errno;

    use super::*;

    #[test]
    fn the_file_lies_in_the_users_home() {
        let store = store_of(Uid::from_raw(7), Ok(Some("/home/seven".into()))).unwrap();
        assert_eq!(store.reveal(), "file:/home/seven/.local/state/leasehold/leases.db");
    }

    #[test]
    fn who_has_no_home_must_name_a_store() {
        for home in [Ok(None), Ok(Some(PathBuf::new())), Err(Errno::EIO)] {
            let failure = store_of(Uid::from_raw(7), home).unwrap_err();
            assert!(format!("{failure:?}").contains("name one with --store"), "{failure:?}");
        }
    }
}
