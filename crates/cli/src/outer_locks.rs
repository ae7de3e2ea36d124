//! The locks that outer runs hold, as the environment tells inner runs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::slice;

use leasehold::{Key, Mode};

use crate::environment::{FENCE, KEY, KEYS, LABEL, MODES, STORE, STORES};
use crate::exit::Failure;
use crate::lock_request::{LockRequest, Patience};
use crate::options::{digits, value_of};
use crate::stores::Stores;

/// The longest variable that Linux passes to a program, without its equals sign and its end.
const MOST_OF_A_VARIABLE: usize = 128 * 1024 - 2;

/// The locks that outer runs hold, wherever that is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OuterLocks(Vec<OuterLock>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct OuterLock {
    key: Vec<u8>,
    mode: Mode,
    /// The URL of its store.
    store: String,
    /// For each store of our own request, true if this lock is held there.
    is_at: Vec<bool>,
}

impl OuterLocks {
    pub(crate) fn at(store: &Stores) -> Self {
        let Some(keys) = env::var_os(KEYS).filter(|keys| !keys.is_empty()) else { return Self::default() };
        let [modes, stores] = [MODES, STORES].map(|name| value_of(name).unwrap_or_default());
        let stores = if stores.is_empty() { value_of(STORE).unwrap_or_default() } else { stores };
        Self::of(keys.as_bytes(), &modes, &stores, store)
    }

    /// A run that does not know of modes leaves a list of another length: then each is exclusive. A
    /// line of the stores that is empty or missing means the store of the line before.
    fn of(keys: &[u8], modes: &str, stores: &str, here: &Stores) -> Self {
        let keys: Vec<_> = keys.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        let modes: Vec<_> = modes.split('\n').map(mode_in).collect();
        let modes = if modes.len() == keys.len() { modes } else { vec![Mode::Exclusive; keys.len()] };
        let (mut stores, mut store, mut is_at) = (stores.split('\n'), String::new(), Vec::new());
        let locks = keys.into_iter().zip(modes).map(|(key, mode)| {
            if let Some(next) = stores.next().filter(|next| !next.is_empty()) {
                let theirs = Stores::new(Stores::urls_in(next), None);
                is_at = theirs.map(|theirs| here.each_in(&theirs)).unwrap_or_default();
                store = next.to_owned();
            }
            OuterLock { key, mode, store: store.clone(), is_at: is_at.clone() }
        });
        Self(locks.collect())
    }

    /// How long to wait for these keys.
    ///
    /// Refuses keys that an outer run holds, because we would wait for ourselves, unless both can
    /// hold them. Then they are granted at once or perhaps never: somebody who waits for the outer
    /// run may be in the queue before us.
    pub(crate) fn patience(&self, request: &LockRequest) -> Result<Patience, Failure> {
        let (keys, stores) = (&request.keys, &request.place.store);
        let leave = |key: &&Key| stores.most(|nth| self.leave(key, request.mode, nth));
        if let Some(key) = keys.iter().find(|key| !leave(key)) {
            return Err(Failure::usage(format!(
                "{key}: a run around this one holds it, so this one would wait forever: leave the inner run out, or \
                 unset {KEYS} if the outer one has ended"
            )));
        }
        let is_free = |key: &Key| stores.most(|nth| self.modes_of(key, nth).next().is_none());
        let is_beside = !keys.iter().all(is_free);
        Ok(match request.patience {
            Patience::Endless if is_beside => Patience::Beside,
            patience => patience,
        })
    }

    /// Refuses more keys than the environment of the command can name.
    pub(crate) fn leave_room_for(&self, request: &LockRequest) -> Result<(), Failure> {
        let lengths = self.and(request).map(|(name, value)| name.len() + value.len());
        if lengths.into_iter().all(|length| length < MOST_OF_A_VARIABLE) {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "{}: these are more keys than the variables {KEYS} and {MODES} have room for, which is 128 KiB each: name \
             fewer",
            request.keys
        )))
    }

    /// Returns true if one of our stores can grant a request in this mode while all of them are held.
    fn leave(&self, key: &Key, mode: Mode, nth: usize) -> bool {
        match mode {
            Mode::Shared => self.modes_of(key, nth).all(|held| held == Mode::Shared),
            Mode::Permits { weight, of } => {
                let left = self.modes_of(key, nth).try_fold(of, |left, held| match held {
                    Mode::Permits { weight, of: theirs } if theirs == of => left.checked_sub(weight),
                    _ => None,
                });
                left.is_some_and(|left| left >= weight)
            }
            _ => self.modes_of(key, nth).next().is_none(),
        }
    }

    /// How they hold a key at one of our stores.
    fn modes_of(&self, key: &Key, nth: usize) -> impl Iterator<Item = Mode> {
        let key = line(key);
        let is_meant = move |held: &&OuterLock| held.key == key && held.is_at.get(nth) == Some(&true);
        self.0.iter().filter(is_meant).map(|held| held.mode)
    }

    /// The keys of these locks and of a request inside them, their modes and their stores.
    fn and(&self, request: &LockRequest) -> [(&'static str, OsString); 3] {
        let store = request.place.store.without_password();
        let inner = request.keys.iter().map(|key| OuterLock {
            key: line(key),
            mode: request.mode,
            store: store.clone(),
            is_at: vec![],
        });
        let all: Vec<_> = self.0.iter().cloned().chain(inner).collect();
        let keys: Vec<_> = all.iter().map(|lock| &*lock.key).collect();
        let modes: Vec<_> = all.iter().map(|lock| written(lock.mode)).collect();
        let mut stores: Vec<_> = all.iter().map(|lock| &*lock.store).collect();
        for nth in (1..stores.len()).rev() {
            if stores[nth] == stores[nth - 1] {
                stores[nth] = "";
            }
        }
        [
            (KEYS, OsString::from_vec(keys.join(&b'\n'))),
            (MODES, modes.join("\n").into()),
            (STORES, stores.join("\n").into()),
        ]
    }
}

fn written(mode: Mode) -> String {
    match mode {
        Mode::Permits { weight, of } => format!("{weight}/{of}"),
        mode => mode.to_string(),
    }
}

/// A mode that is not known counts as exclusive.
fn mode_in(text: &str) -> Mode {
    let permits = || {
        let (weight, of) = text.split_once('/')?;
        Mode::permits(digits(weight)?, digits(of)?).ok()
    };
    if text == "shared" { Mode::Shared } else { permits().unwrap_or(Mode::Exclusive) }
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

pub(crate) fn of_command(
    request: &LockRequest,
    around: &OuterLocks,
    fence: leasehold::Fence,
) -> Vec<(&'static str, OsString)> {
    let told: [(_, OsString); 4] = [
        (KEY, OsStr::from_bytes(request.keys.first().as_bytes()).into()),
        (FENCE, fence.to_string().into()),
        (LABEL, request.label.as_str().into()),
        (STORE, request.place.store.without_password().into()),
    ];
    told.into_iter().chain(around.and(request)).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::command_line::{CommandLine, Task};

    fn request_at(store: &str, words: &[&str]) -> LockRequest {
        let words = [&["leasehold", "hold", "--store", store], words].concat();
        let Task::Hold(args) = CommandLine::try_parse_from(words).unwrap().task else { panic!("a hold") };
        LockRequest::of(args.acquire, OsStr::new("test")).unwrap()
    }

    fn request(words: &[&str]) -> LockRequest {
        request_at("file:/x", words)
    }

    /// The locks around a run at a store inside a request.
    fn inside_at(here: &str, around: &OuterLocks, request: &LockRequest) -> OuterLocks {
        let [(_, keys), (_, modes), (_, stores)] = around.and(request);
        let here = Stores::new([here], None).unwrap();
        OuterLocks::of(keys.as_bytes(), modes.to_str().unwrap(), stores.to_str().unwrap(), &here)
    }

    fn inside(around: &OuterLocks, words: &[&str]) -> OuterLocks {
        inside_at("file:/x", around, &request(words))
    }

    fn held(keys: &[u8], modes: &str) -> OuterLocks {
        OuterLocks::of(keys, modes, "file:/x", &Stores::new(["file:/x"], None).unwrap())
    }

    /// Regression: each of its lines counted as a key that is held.
    #[test]
    fn a_key_with_a_line_break_is_one_line_and_is_found_again() {
        let around = inside(&OuterLocks::default(), &["one\ntwo", "\\x"]);
        assert_eq!(around, held(b"\\\\x\none\\ntwo", ""));
        assert!(around.patience(&request(&["one\ntwo"])).is_err());
        assert!(around.patience(&request(&["\\x"])).is_err());
        for other in ["one", "two", "one\\ntwo", "one\ntw"] {
            assert_eq!(around.patience(&request(&[other])), Ok(Patience::Endless), "{other}");
        }
    }

    #[test]
    fn a_key_is_refused_unless_the_runs_around_leave_it() {
        let around = inside(&OuterLocks::default(), &["--permits", "1/4", "p"]);
        let around = inside(&around, &["--permits", "2/4", "p"]);
        let around = inside(&inside(&around, &["--shared", "s", "t"]), &["x"]);
        for free in [&["--shared", "s"][..], &["--shared", "t", "u"], &["--permits", "1/4", "p"]] {
            assert_eq!(around.patience(&request(free)), Ok(Patience::Beside), "{free:?}");
            let limited = request(&[&["--within", "1"], free].concat());
            assert_eq!(around.patience(&limited), Ok(limited.patience));
        }
        for held in [
            &["s"][..],
            &["--permits", "1/4", "s"],
            &["--shared", "s", "x"],
            &["--permits", "2/4", "p"],
            &["--permits", "1/8", "p"],
            &["--shared", "p"],
            &["p"],
            &["x"],
        ] {
            assert!(around.patience(&request(held)).is_err(), "{held:?}");
        }
    }

    /// Regression: the keys of an outer run at another store were forgotten, so a third run at the first
    /// store waited for the first run.
    #[test]
    fn each_key_is_held_at_its_own_store_only() {
        let around = inside(&OuterLocks::default(), &["k", "l"]);
        let around = inside_at("file:/x", &around, &request_at("file:/y", &["m", "k"]));
        let [(_, keys), _, (_, stores)] = around.and(&request(&["n"]));
        assert_eq!(
            (keys.to_str(), stores.to_str()),
            (Some("k\nl\nk\nm\nn"), Some("file:/x\n\nfile:/y\n\nfile:/x"))
        );
        for (here, refused) in [("file:/x", &["k", "l", "n"][..]), ("file:/y", &["k", "m"]), ("file:/z", &[])]
        {
            let around = inside_at(here, &around, &request(&["n"]));
            for key in ["k", "l", "m", "n"] {
                let is_refused = around.patience(&request_at(here, &[key])).is_err();
                assert_eq!(is_refused, refused.contains(&key), "{here} {key}");
            }
        }
    }

    /// Regression: a run at a single member of an outer run's quorum waited for the outer run.
    #[test]
    fn a_key_is_refused_at_a_member_of_the_quorum_that_holds_it() {
        let quorum = "quorum:file:/x,file:/y,file:/z";
        let around = inside_at("file:/x", &OuterLocks::default(), &request_at(quorum, &["k"]));
        assert!(around.patience(&request_at("file:/x", &["k"])).is_err());
        assert_eq!(around.patience(&request_at("file:/x", &["l"])), Ok(Patience::Endless));
        let around = inside_at("file:/w", &OuterLocks::default(), &request_at(quorum, &["k"]));
        assert_eq!(around.patience(&request_at("file:/w", &["k"])), Ok(Patience::Endless));
    }

    /// Regression: each outer run was compared alone, so a run at a quorum waited for two outer runs that
    /// held its key at a store each.
    #[test]
    fn a_key_is_refused_if_runs_at_several_stores_hold_it_at_most_of_a_quorum() {
        let quorum = "quorum:file:/x,file:/y,file:/z";
        let request = |words: &[&str]| request_at(quorum, words);
        let at_one = inside_at(quorum, &OuterLocks::default(), &request_at("file:/x", &["k"]));
        assert_eq!(at_one.patience(&request(&["k"])), Ok(Patience::Endless));
        let around = |words: &[&str]| {
            let around =
                inside_at(quorum, &OuterLocks::default(), &request_at("file:/x", &["--shared", "k"]));
            inside_at(quorum, &around, &request_at("file:/z", words))
        };
        assert!(around(&["k"]).patience(&request(&["k"])).is_err());
        assert_eq!(around(&["l"]).patience(&request(&["k"])), Ok(Patience::Endless));
        assert_eq!(around(&["k"]).patience(&request(&["--shared", "k"])), Ok(Patience::Beside));
        let twice_at_one = inside_at(quorum, &at_one, &request_at("file:/x", &["k"]));
        assert_eq!(twice_at_one.patience(&request(&["k"])), Ok(Patience::Endless));
    }

    /// Regression: all keys were acquired, and then the command could not be started.
    #[test]
    fn more_keys_than_a_variable_has_room_for_are_refused() {
        let room = |keys: usize| {
            let keys: Vec<_> = (0..keys).map(|nth| nth.to_string()).collect();
            let keys: Vec<_> = keys.iter().map(String::as_str).collect();
            OuterLocks::default().leave_room_for(&request(&keys))
        };
        assert_eq!(room(13_105), Ok(()));
        assert!(room(13_107).is_err_and(|failure| failure.code() == 64));
    }

    #[test]
    fn a_key_whose_mode_is_not_known_is_exclusive() {
        for modes in ["", "shared", "shared\nshared\nshared", "new\nshared"] {
            let around = held(b"k\nl", modes);
            assert!(around.patience(&request(&["--shared", "k"])).is_err(), "{modes}");
        }
    }
}
