//! Signals: how a release wakes the waiters of other libraries.

use crate::Key;

/// How the waiters of another library are woken by a release, if they do not poll.
///
/// Only servers have such waiters: other programs cannot wait in a store that they cannot reach.
///
/// ```
/// use leasehold_core::{Key, Signal};
///
/// let list = Signal::PythonRedisLock.place(&Key::new("lock:invoice:42")?);
/// assert_eq!(list.unwrap(), b"lock-signal:invoice:42");
/// # Ok::<(), leasehold_core::Misuse>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// python-redis-lock: waiters for `lock:NAME` block on the list `lock-signal:NAME`, and an
    /// element wakes one of them.
    PythonRedisLock,
}

impl Signal {
    /// The list on which waiters for a key block; `None` if this key has none.
    #[must_use]
    pub fn place(self, key: &Key) -> Option<Vec<u8>> {
        match self {
            Self::PythonRedisLock => {
                key.as_bytes().strip_prefix(b"lock:").map(|name| [b"lock-signal:", name].concat())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_of_python_redis_lock_sleeps_only_at_keys_of_its_own_kind() {
        let place = |key: &str| Signal::PythonRedisLock.place(&Key::new(key).unwrap());
        assert_eq!(place("lock:invoice:42").unwrap(), b"lock-signal:invoice:42");
        assert_eq!(place("lock:").unwrap(), b"lock-signal:");
        assert_eq!(place("invoice:42"), None);
        assert_eq!(place("mutex:lock:x"), None);
    }
}
