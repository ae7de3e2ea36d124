//! Locking a mutex whose data a panic cannot leave half changed.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, even if a thread panicked while it held it.
///
/// A panic of one caller must not take every other caller's locks with it. So whoever uses this
/// leaves the data valid wherever it can panic.
pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
