//! The requested keys, which are taken together or not at all.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStringExt as _;

use leasehold::{Key, Loss, Misuse, Naming};

use crate::exit::Failure;
use crate::json::text_of;
use crate::options::or_variable;
use crate::store_url::StoreUrl;

/// One key or several, without duplicates, in byte order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys(Vec<Key>);

impl Keys {
    pub(crate) fn of(mut names: Vec<OsString>, naming: &Naming) -> Result<Self, Failure> {
        names.sort();
        names.dedup();
        let keys: Result<Vec<_>, _> = names.into_iter().map(|name| key(name, naming)).collect();
        let mut keys = keys?;
        keys.sort();
        if let Some(twice) = keys.windows(2).find(|two| two[0] == two[1]) {
            return Err(Failure::usage(format!(
                "two of the names are one lock to {naming}, at {}: leave one out",
                twice[0]
            )));
        }
        if keys.is_empty() { Err(Misuse::NoKeys.into()) } else { Ok(Self(keys)) }
    }

    pub(crate) fn first(&self) -> &Key {
        &self.0[0]
    }

    pub(crate) fn texts(&self) -> Vec<String> {
        self.iter().map(text_of).collect()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Key> {
        self.0.iter()
    }

    /// Why their lease was lost, for a line that begins with them: does not name an only key again.
    pub(crate) fn why(&self, loss: &Loss) -> String {
        let why = loss.to_string();
        why.strip_prefix(&format!("{self}: ")).map(str::to_owned).unwrap_or(why)
    }
}

pub(crate) fn naming(named: Option<String>) -> Result<Naming, Failure> {
    let (name, named) = or_variable("--naming", named);
    let naming = named.as_deref().map_or(Ok(Naming::Verbatim), str::parse);
    naming.map_err(|misuse: Misuse| Failure::from(misuse).about(name))
}

/// The prefix of all keys whose names have the prefix that was given to a task, if one was.
pub(crate) fn beginning(given: Vec<OsString>, named: Option<String>) -> Result<Vec<u8>, Failure> {
    let naming = naming(named)?;
    let prefix = given.into_iter().next().unwrap_or_default();
    let beginning = naming.beginning(prefix.as_encoded_bytes());
    if !prefix.is_empty() {
        key(prefix, &naming).map_err(|failure| failure.about("PREFIX"))?;
    }
    Ok(beginning)
}

pub(crate) fn only_key(given: Vec<OsString>, named: Option<String>) -> Result<Key, Failure> {
    key(given.into_iter().next().unwrap_or_default(), &naming(named)?)
}

/// Converts a name to a key. Refuses a store's URL with a password, which is in the wrong place.
pub(crate) fn key(name: OsString, naming: &Naming) -> Result<Key, Failure> {
    let url = name.to_str().and_then(|name| StoreUrl::new(name).ok());
    if url.is_some_and(|url| url.has_password()) {
        return Err(Failure::usage(
            "a store's URL with a password is in the place of a key: write --store before it",
        ));
    }
    Ok(naming.key(name.into_vec())?)
}

/// The first few keys and the number of further ones, on one line.
impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 4;
        let shown: Vec<_> = self.0.iter().take(SHOWN).map(ToString::to_string).collect();
        f.write_str(&shown.join(", "))?;
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_keys_are_shown_by_the_first_of_them() {
        let names = ["6", "5", "4", "3", "2", "1"].map(OsString::from);
        let keys = Keys::of(names.into(), &Naming::Verbatim).unwrap();
        assert_eq!(keys.to_string(), "1, 2, 3, 4 and 2 more");
    }
}
