//! The environment of the command, and the variables that an outer run set for us.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::slice;
use std::time::Duration;

use leasehold::Key;

use crate::exit::Failure;
use crate::keys::Keys;
use crate::options::{time_of, value_of};
use crate::stores::Stores;

pub(crate) const KEY: &str = "LEASEHOLD_KEY";
pub(crate) const KEYS: &str = "LEASEHOLD_KEYS";
pub(crate) const FENCE: &str = "LEASEHOLD_FENCE";
pub(crate) const LABEL: &str = "LEASEHOLD_LABEL";
pub(crate) const STORE: &str = "LEASEHOLD_STORE";
pub(crate) const MAX_TTL: &str = "LEASEHOLD_MAX_TTL";

/// The label from the environment, unless an outer run set it for its own use.
pub(crate) fn label() -> Option<String> {
    value_of(LABEL).filter(|_| !is_nested())
}

pub(crate) fn max_ttl() -> Result<Option<Duration>, Failure> {
    time_of(MAX_TTL, value_of(MAX_TTL))
}

/// The locks that outer runs hold at the same store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OuterLocks(Vec<u8>);

impl OuterLocks {
    pub(crate) fn at(store: &Stores) -> Self {
        let Some(keys) = env::var_os(KEYS) else { return Self::default() };
        let theirs = env::var(STORE).ok().and_then(|text| Stores::new(Stores::urls_in(&text), None).ok());
        if theirs.is_some_and(|theirs| theirs.is_same_place_as(store)) {
            Self(keys.into_vec())
        } else {
            Self::default()
        }
    }

    /// Refuses keys that an outer run holds, because we would wait for ourselves.
    pub(crate) fn check(&self, keys: &Keys) -> Result<(), Failure> {
        let Some(key) = keys.iter().find(|key| self.has(key)) else { return Ok(()) };
        Err(Failure::usage(format!(
            "{key}: a run around this one holds it, so this one would wait forever: leave the inner run out, or unset \
             {KEYS} if the outer one has ended"
        )))
    }

    fn has(&self, key: &Key) -> bool {
        let key = line(key);
        self.0.split(|byte| *byte == b'\n').any(|line| line == key)
    }

    fn and(&self, keys: &Keys) -> OsString {
        let around = Some(self.0.clone()).filter(|around| !around.is_empty());
        let all: Vec<_> = around.into_iter().chain(keys.iter().map(line)).collect();
        OsString::from_vec(all.join(&b'\n'))
    }
}

/// A key on one line, which `printf %b` turns back into the key.
fn line(key: &Key) -> Vec<u8> {
    fn escaped(byte: &u8) -> &[u8] {
        match byte {
            b'\n' => b"\\n",
            b'\\' => b"\\\\",
            _ => slice::from_ref(byte),
        }
    }
    key.as_bytes().iter().flat_map(escaped).copied().collect()
}

/// Returns true if we run under another run, which removed the password from the store's URL.
pub(crate) fn is_nested() -> bool {
    env::var_os(KEYS).is_some()
}

pub(crate) fn of_command(
    keys: &Keys,
    around: &OuterLocks,
    fence: leasehold::Fence,
    label: &str,
    store: &Stores,
) -> Vec<(&'static str, OsString)> {
    let max_ttl = store.is_several().then(|| (MAX_TTL, format!("{}ms", store.max_ttl.as_millis()).into()));
    let told: [(_, OsString); 5] = [
        (KEY, OsStr::from_bytes(keys.first().as_bytes()).into()),
        (KEYS, around.and(keys)),
        (FENCE, fence.to_string().into()),
        (LABEL, label.into()),
        (STORE, store.without_password().into()),
    ];
    told.into_iter().chain(max_ttl).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: each of its lines counted as a key that is held.
    #[test]
    fn a_key_with_a_line_break_is_one_line_and_is_found_again() {
        let keys = |names: &[&str]| {
            Keys::of(names.iter().map(OsString::from).collect(), &leasehold::Naming::Verbatim).unwrap()
        };
        let around = OuterLocks(OuterLocks::default().and(&keys(&["one\ntwo", "\\x"])).into_vec());
        assert_eq!(around, OuterLocks(b"\\\\x\none\\ntwo".to_vec()));
        assert!(around.check(&keys(&["one\ntwo"])).is_err() && around.check(&keys(&["\\x"])).is_err());
        for other in ["one", "two", "one\\ntwo", "one\ntw"] {
            assert_eq!(around.check(&keys(&[other])), Ok(()), "{other}");
        }
    }
}
