//! macOS does not count how often a single thread sleeps.

/// It is unknown how often the current thread has slept so far.
pub(crate) const fn sleeps() -> Option<i64> {
    None
}
