//! What a release tells other programs.

use crate::Key;

/// How other programs that wait for a key hear that it was let go, where they do not look by themselves.
///
/// Only servers have such waiters: a store that they cannot reach has nothing to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Signal {
    /// As python-redis-lock does it: who waits for `lock:NAME` sleeps on the list `lock-signal:NAME`, and an element wakes one of them.
    PythonRedisLock,
}

impl Signal {
    /// Where those sleep who wait for a key in this way; `None` where nobody does.
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
    fn who_waits_as_python_redis_lock_does_sleeps_beside_keys_of_its_own_kind_only() {
        let place = |key: &str| Signal::PythonRedisLock.place(&Key::new(key).unwrap());
        assert_eq!(place("lock:invoice:42").unwrap(), b"lock-signal:invoice:42");
        assert_eq!(place("lock:").unwrap(), b"lock-signal:");
        assert_eq!(place("invoice:42"), None);
        assert_eq!(place("mutex:lock:x"), None);
    }
}
