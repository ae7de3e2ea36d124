//! What the command finds in its environment, and what an outer run left in ours.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use leasehold::Key;

use crate::exit::Failure;
use crate::store_url::StoreUrl;

pub(crate) const KEY: &str = "LEASEHOLD_KEY";
pub(crate) const KEYS: &str = "LEASEHOLD_KEYS";
pub(crate) const FENCE: &str = "LEASEHOLD_FENCE";
pub(crate) const LABEL: &str = "LEASEHOLD_LABEL";
pub(crate) const STORE: &str = "LEASEHOLD_STORE";

/// The locks that are held around us at the same place, by the runs that we run under.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Around(Vec<u8>);

impl Around {
    /// What our environment says of that place.
    pub(crate) fn at(store: &StoreUrl) -> Self {
        let Some(keys) = env::var_os(KEYS) else { return Self::default() };
        let theirs = env::var(STORE).ok().and_then(|text| StoreUrl::new(&text).ok());
        if theirs.is_some_and(|theirs| theirs.is_same_place_as(store)) {
            Self(keys.into_vec())
        } else {
            Self::default()
        }
    }

    /// Refuses a key that we would wait for until we ended.
    pub(crate) fn check(&self, key: &Key) -> Result<(), Failure> {
        if !self.0.split(|byte| *byte == b'\n').any(|held| held == key.as_bytes()) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{key}: a run around this one holds it, and would wait for this one as this one for it: leave the inner run \
             out, or unset {KEYS} if the outer one has ended"
        )))
    }

    /// These, and one more.
    fn and(&self, key: &Key) -> OsString {
        let mut keys = self.0.clone();
        if !keys.is_empty() {
            keys.push(b'\n');
        }
        keys.extend_from_slice(key.as_bytes());
        OsString::from_vec(keys)
    }
}

/// Whether we run under another run, which took the password out of the store's URL.
pub(crate) fn is_nested() -> bool {
    env::var_os(KEYS).is_some()
}

/// What the command is told.
pub(crate) fn of_command(
    key: &Key,
    around: &Around,
    fence: leasehold::Fence,
    label: &str,
    store: &StoreUrl,
) -> [(&'static str, OsString); 5] {
    [
        (KEY, OsStr::from_bytes(key.as_bytes()).into()),
        (KEYS, around.and(key)),
        (FENCE, fence.to_string().into()),
        (LABEL, label.into()),
        (STORE, store.without_password().into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_held_around_us_is_refused_also_two_runs_further_out() {
        let [one, two, three] = ["one", "two", "on"].map(|name| Key::new(name).unwrap());
        let around = Around(Around(Around::default().and(&one).into_vec()).and(&two).into_vec());
        assert_eq!(around, Around(b"one\ntwo".to_vec()));
        assert!(around.check(&one).is_err() && around.check(&two).is_err());
        assert_eq!(around.check(&three), Ok(()));
        assert_eq!(Around::default().check(&one), Ok(()));
    }
}
