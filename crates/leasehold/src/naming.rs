//! The keys under which locks are stored.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;

use leasehold_core::{Key, Misuse, Signal, locked};

/// How the name of a lock becomes its key in the store. Locks of another program's library exclude
/// ours only if both use the same key, so each naming copies one library.
///
/// | naming | the key of the lock `NAME` | written |
/// |---|---|---|
/// | [`Verbatim`](Self::Verbatim) | `NAME`: redlock (Node), redislock, redlock-universal, redis-py, redsync, rslock | `verbatim` |
/// | [`RedLockNet`](Self::RedLockNet) | `redlock:NAME` | `redlock.net` |
/// | [`Pottery`](Self::Pottery) | `redlock:NAME` | `pottery` |
/// | [`RedisSemaphore`](Self::RedisSemaphore) | `mutex:NAME` | `redis-semaphore` |
/// | [`PythonRedisLock`](Self::PythonRedisLock) | `lock:NAME` | `python-redis-lock` |
/// | [`ShedLock`](Self::ShedLock) | `job-lock:ENVIRONMENT:NAME` | `shedlock`, `shedlock:ENVIRONMENT` |
/// | [`ExclusiveLock`](Self::ExclusiveLock) | `exclusive-lock:NAME`, with a `-` for everything but English letters, digits and `_` | `exclusive-lock` |
///
/// These are the libraries' defaults. If a library was configured with another prefix, set the same
/// one with [`LocksBuilder::prefix`](crate::LocksBuilder::prefix).
///
/// ```
/// use leasehold::Naming;
/// let naming: Naming = "shedlock:prod".parse()?;
/// assert_eq!(naming.key("nightly")?.to_string(), "job-lock:prod:nightly");
/// # Ok::<(), leasehold::Misuse>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Naming {
    /// The key is the name.
    #[default]
    Verbatim,
    /// RedLock.net, with its default `RedisKeyFormat`.
    RedLockNet,
    /// pottery's `Redlock`.
    Pottery,
    /// redis-semaphore's `Mutex`.
    RedisSemaphore,
    /// python-redis-lock. Its waiters sleep until a release wakes them, so our releases wake them
    /// too: [`Signal::PythonRedisLock`].
    PythonRedisLock,
    /// ShedLock on Redis, with its default key prefix.
    ///
    /// Unless its provider was built with `safeUpdate`, it unlocks by the key alone: a job there
    /// that outlasts its `lockAtMostFor` deletes the lock of the current holder. If that is ours,
    /// it is [lost](crate::Loss::Gone), at the latest by the next renewal.
    ShedLock {
        /// The environment that its provider was configured with; `default` if none was.
        environment: String,
    },
    /// exclusive-lock. Different names may become the same key there, and so the same lock: `a b`,
    /// `a.b` and `a/b` are `exclusive-lock:a-b`, and all names without an English letter or a digit
    /// are `exclusive-lock:-`. If a process uses two such names, that is an
    /// [event](crate::Event::NamesCollide) and a [warning](crate::Locks::warnings). The lock is
    /// acquired nevertheless, because exclusive-lock would acquire it.
    ///
    /// It never checks whose lock it refreshes or deletes. If a process that uses it has lost its
    /// lock without knowing, it refreshes and deletes ours, which is then
    /// [lost](crate::Loss::Gone).
    ExclusiveLock,
}

impl Naming {
    /// The key of the lock with this name.
    ///
    /// # Errors
    ///
    /// [`Misuse`] if the name is empty, or the result cannot be a key.
    pub fn key(&self, name: impl AsRef<[u8]>) -> Result<Key, Misuse> {
        match name.as_ref() {
            [] => Err(Misuse::EmptyKey),
            name if *self == Self::Verbatim => Key::new(name),
            name => Key::new(self.beginning(name)),
        }
    }

    /// The prefix of all keys whose names have this prefix.
    #[must_use]
    pub fn beginning(&self, prefix: impl AsRef<[u8]>) -> Vec<u8> {
        let prefix = prefix.as_ref();
        match self {
            Self::ExclusiveLock => [b"exclusive-lock:", &*slug(prefix)].concat(),
            _ => [self.prefix().as_bytes(), prefix].concat(),
        }
    }

    /// How the library's waiters are woken by a release, if they do not poll.
    #[must_use]
    pub const fn signal(&self) -> Option<Signal> {
        match self {
            Self::PythonRedisLock => Some(Signal::PythonRedisLock),
            _ => None,
        }
    }

    fn prefix(&self) -> Cow<'static, str> {
        match self {
            Self::Verbatim => "".into(),
            Self::RedLockNet | Self::Pottery => "redlock:".into(),
            Self::RedisSemaphore => "mutex:".into(),
            Self::PythonRedisLock => "lock:".into(),
            Self::ShedLock { environment } => format!("job-lock:{environment}:").into(),
            Self::ExclusiveLock => "exclusive-lock:".into(),
        }
    }
}

/// A name as exclusive-lock writes it: each run of bytes that are not English letters, digits or
/// `_` becomes one `-`.
fn slug(name: &[u8]) -> Vec<u8> {
    let mut slug = Vec::with_capacity(name.len());
    for &byte in name {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            slug.push(byte);
        } else if slug.last() != Some(&b'-') {
            slug.push(b'-');
        }
    }
    slug
}

/// Parses the forms in the table of [`Naming`].
impl FromStr for Naming {
    type Err = Misuse;

    fn from_str(text: &str) -> Result<Self, Misuse> {
        Ok(match text {
            "verbatim" => Self::Verbatim,
            "redlock.net" => Self::RedLockNet,
            "pottery" => Self::Pottery,
            "redis-semaphore" => Self::RedisSemaphore,
            "python-redis-lock" => Self::PythonRedisLock,
            "shedlock" => Self::ShedLock { environment: "default".into() },
            "exclusive-lock" => Self::ExclusiveLock,
            _ => match text.strip_prefix("shedlock:") {
                Some(environment) => Self::ShedLock { environment: environment.into() },
                None => return Err(Misuse::UnknownNaming { naming: text.escape_debug().to_string() }),
            },
        })
    }
}

/// Prints the form that is [parsed](Self::from_str).
impl fmt::Display for Naming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verbatim => f.write_str("verbatim"),
            Self::RedLockNet => f.write_str("redlock.net"),
            Self::Pottery => f.write_str("pottery"),
            Self::RedisSemaphore => f.write_str("redis-semaphore"),
            Self::PythonRedisLock => f.write_str("python-redis-lock"),
            Self::ShedLock { environment } => write!(f, "shedlock:{environment}"),
            Self::ExclusiveLock => f.write_str("exclusive-lock"),
        }
    }
}

/// How the names of locks become keys, and the names that were used under a naming where two names
/// may be one key.
#[derive(Debug)]
pub(crate) struct Names {
    /// The prefix of each name.
    prefix: Vec<u8>,
    naming: Naming,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    first: BTreeMap<Key, Box<[u8]>>,
    others: BTreeSet<Box<[u8]>>,
}

/// Applications use few such names, which describe themselves. If there are more, the first ones
/// are enough to show the problem.
const REMEMBERED: usize = 1024;

impl Names {
    pub(crate) fn new(prefix: Vec<u8>, naming: Naming) -> Self {
        Self { prefix, naming, used: Mutex::default() }
    }

    /// The key of this name, with the prefix.
    pub(crate) fn key(&self, name: &[u8]) -> Result<Key, Misuse> {
        if self.prefix.is_empty() || name.is_empty() {
            return self.naming.key(name);
        }
        self.naming.key([&self.prefix, name].concat())
    }

    /// The prefix of all keys whose names have this prefix.
    pub(crate) fn beginning(&self, name: &[u8]) -> Vec<u8> {
        self.naming.beginning([&self.prefix, name].concat())
    }

    /// Records that a name was used for a key. Returns the key's first name if this is another name
    /// that was not used before.
    pub(crate) fn used(&self, name: &[u8], key: &Key) -> Option<Box<[u8]>> {
        if self.naming != Naming::ExclusiveLock {
            return None;
        }
        let mut used = locked(&self.used);
        let Used { first, others } = &mut *used;
        if let Some(first) = first.get(key) {
            let is_new = **first != *name && others.len() < REMEMBERED && others.insert(name.into());
            return is_new.then(|| first.clone());
        }
        if first.len() < REMEMBERED {
            first.insert(key.clone(), name.into());
        }
        None
    }

    /// All names that collided with another one at their key.
    pub(crate) fn collided(&self) -> Vec<Box<[u8]>> {
        locked(&self.used).others.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(naming: &str, name: &str) -> String {
        naming.parse::<Naming>().unwrap().key(name).unwrap().to_string()
    }

    #[test]
    fn each_library_has_its_key() {
        for (naming, of_invoice) in [
            ("verbatim", "invoice:42"),
            ("redlock.net", "redlock:invoice:42"),
            ("pottery", "redlock:invoice:42"),
            ("redis-semaphore", "mutex:invoice:42"),
            ("python-redis-lock", "lock:invoice:42"),
            ("shedlock", "job-lock:default:invoice:42"),
            ("shedlock:prod", "job-lock:prod:invoice:42"),
            ("exclusive-lock", "exclusive-lock:invoice-42"),
        ] {
            assert_eq!(key(naming, "invoice:42"), of_invoice);
        }
    }

    #[test]
    fn names_that_exclusive_lock_considers_equal_are_one_key() {
        for name in ["a b", "a.b", "a/b", "a -.- b", "aäb"] {
            assert_eq!(key("exclusive-lock", name), "exclusive-lock:a-b", "{name}");
        }
        for name in ["請求書", "!", "-"] {
            assert_eq!(key("exclusive-lock", name), "exclusive-lock:-", "{name}");
        }
        assert_eq!(key("exclusive-lock", "My_App 2"), "exclusive-lock:My_App-2");
    }

    #[test]
    fn a_beginning_of_a_name_is_one_of_its_key() {
        for naming in ["verbatim", "pottery", "shedlock:prod", "exclusive-lock"] {
            let naming: Naming = naming.parse().unwrap();
            let name = "請求 a. -b";
            for (at, _) in name.char_indices() {
                let key = naming.key(name).unwrap();
                assert!(key.as_bytes().starts_with(&naming.beginning(&name[..at])), "{naming}: {at}");
            }
        }
    }

    #[test]
    fn a_written_naming_reads_back_and_unknown_names_are_refused() {
        for text in
            ["verbatim", "redlock.net", "pottery", "redis-semaphore", "python-redis-lock", "exclusive-lock"]
        {
            assert_eq!(text.parse::<Naming>().unwrap().to_string(), text);
        }
        assert_eq!("shedlock".parse::<Naming>().unwrap().to_string(), "shedlock:default");
        assert_eq!("shedlock:a:b".parse::<Naming>().unwrap().to_string(), "shedlock:a:b");
        let refused = "redlok".parse::<Naming>().unwrap_err().to_string();
        assert!(refused.starts_with("redlok: ") && refused.contains("redlock.net"), "{refused}");
    }

    #[test]
    fn a_name_without_bytes_is_none_whatever_stands_before_it() {
        assert_eq!(Naming::Pottery.key(""), Err(Misuse::EmptyKey));
    }

    #[test]
    fn the_second_name_of_a_key_is_reported_once() {
        let (names, key) =
            (Names::new(Vec::new(), Naming::ExclusiveLock), Naming::ExclusiveLock.key("a b").unwrap());
        assert_eq!(names.used(b"a b", &key), None);
        assert_eq!(names.used(b"a b", &key), None);
        assert_eq!(names.used(b"a.b", &key).as_deref(), Some(&b"a b"[..]));
        assert_eq!(names.used(b"a.b", &key), None);
        assert_eq!(names.used(b"a/b", &key).as_deref(), Some(&b"a b"[..]));
        assert_eq!(names.collided(), [b"a.b"[..].into(), b"a/b"[..].into()] as [Box<[u8]>; 2]);
    }

    #[test]
    fn names_without_an_end_are_not_all_remembered() {
        let names = Names::new(Vec::new(), Naming::ExclusiveLock);
        for number in 0..5000 {
            let name = format!("{number}");
            names.used(name.as_bytes(), &Naming::ExclusiveLock.key(&name).unwrap());
        }
        assert_eq!(names.used.lock().unwrap().first.len(), REMEMBERED);
    }
}
