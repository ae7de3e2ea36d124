//! Who waits in this process, and whom a release wakes. For stores that wake their waiters themselves.
//!
//! A waiter stands in the line of one key: the one that it found taken when it last asked. Only that key's release can help it,
//! and it keeps nobody from the other keys of its claim. A release wakes the first of the line. A waiter that is woken and
//! does not ask any more, or finds itself kept out by another key, passes the wake-up on.
//!
//! Releases by other processes wake nobody here: a waiter also asks by itself from time to time.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::{Holder, Key, Line, Stamp, Wake};

/// The waiters of one store in this process.
///
/// A store says what it answered; the waiter's future is [`Waiting::called`].
#[derive(Debug, Default)]
pub struct Waiting(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    lines: HashMap<Key, Line>,
    waiters: HashMap<Holder, Waiter>,
}

#[derive(Debug)]
struct Waiter {
    key: Key,
    call: Call,
    task: Option<Waker>,
}

/// How far a wake-up has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    None,
    /// It is to be told to the waiter.
    Due,
    /// The waiter was told, and has not been answered since.
    Told,
}

impl Waiting {
    /// A waiter was answered that a key is taken: it waits for that one, at its place if it stood there already.
    pub fn wait_for(&self, holder: Holder, key: &Key, now: Stamp) {
        let mut lines = self.lines();
        let next = match lines.waiters.get_mut(&holder) {
            Some(waiter) if waiter.key == *key => {
                waiter.call = Call::None;
                return;
            }
            Some(_) => lines.remove(holder),
            None => None,
        };
        lines.lines.entry(key.clone()).or_default().join(holder, now);
        lines.waiters.insert(holder, Waiter { key: key.clone(), call: Call::None, task: None });
        drop(lines);
        next.into_iter().for_each(Waker::wake);
    }

    /// A waiter has been granted what it waited for: it goes, and its wake-up with it.
    pub fn granted(&self, holder: Holder) {
        let mut lines = self.lines();
        if let Some(waiter) = lines.waiters.get_mut(&holder) {
            waiter.call = Call::None;
            lines.remove(holder);
        }
    }

    /// A waiter goes without having been granted anything.
    pub fn leave(&self, holder: Holder) {
        let next = self.lines().remove(holder);
        next.into_iter().for_each(Waker::wake);
    }

    /// A key was released.
    pub fn released(&self, key: &Key) {
        let next = self.lines().call_first(key);
        next.into_iter().for_each(Waker::wake);
    }

    /// Resolves when the waiter is called; never for one that does not wait.
    pub async fn called(&self, holder: Holder) -> Wake {
        poll_fn(|context| {
            let mut lines = self.lines();
            let Some(waiter) = lines.waiters.get_mut(&holder) else { return Poll::Pending };
            if waiter.call == Call::Due {
                waiter.call = Call::Told;
                waiter.task = None;
                return Poll::Ready(Wake::AskAgain { key: waiter.key.clone() });
            }
            waiter.task = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// How many wait.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether there are none")]
    pub fn len(&self) -> usize {
        self.lines().waiters.len()
    }

    /// Nothing that can panic halfway is done under the lock.
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakers are handed out, to be woken when the lock is free again.
impl Lines {
    fn remove(&mut self, holder: Holder) -> Option<Waker> {
        let Waiter { key, call, .. } = self.waiters.remove(&holder)?;
        let line = self.lines.get_mut(&key)?;
        line.leave(holder);
        if line.is_empty() {
            self.lines.remove(&key);
            return None;
        }
        if call == Call::None { None } else { self.call_first(&key) }
    }

    fn call_first(&mut self, key: &Key) -> Option<Waker> {
        let first = self.lines.get(key)?.head()?;
        let waiter = self.waiters.get_mut(&first)?;
        waiter.call = Call::Due;
        waiter.task.take()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    const NOW: Stamp = Stamp::from_micros(1);

    fn holder(n: u128) -> Holder {
        Holder::from_bits(n)
    }

    fn key(name: &str) -> Key {
        Key::new(name).unwrap()
    }

    fn is_called(waiting: &Waiting, n: u128) -> bool {
        let future = pin!(waiting.called(holder(n)));
        future.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn three_wait_for_a() -> Waiting {
        let waiting = Waiting::default();
        (1..=3).for_each(|n| waiting.wait_for(holder(n), &key("a"), NOW));
        waiting
    }

    #[test]
    fn a_release_calls_the_first_in_line_once() {
        let waiting = three_wait_for_a();
        assert!(!is_called(&waiting, 1));
        waiting.released(&key("a"));
        assert_eq!([1, 2, 3].map(|n| is_called(&waiting, n)), [true, false, false]);
        assert!(!is_called(&waiting, 1));
    }

    #[test]
    fn a_call_that_nobody_heard_yet_is_not_lost() {
        let waiting = Waiting::default();
        waiting.wait_for(holder(1), &key("a"), NOW);
        waiting.released(&key("a"));
        assert!(is_called(&waiting, 1));
    }

    #[test]
    fn whoever_is_called_and_gives_up_passes_the_call_on_heard_or_not() {
        for heard in [false, true] {
            let waiting = three_wait_for_a();
            waiting.released(&key("a"));
            assert!(!heard || is_called(&waiting, 1));
            waiting.leave(holder(1));
            assert_eq!([2, 3].map(|n| is_called(&waiting, n)), [true, false]);
        }
    }

    #[test]
    fn whoever_is_granted_takes_the_call_along() {
        let waiting = three_wait_for_a();
        waiting.released(&key("a"));
        waiting.granted(holder(1));
        assert!(!is_called(&waiting, 2));
        waiting.released(&key("a"));
        assert!(is_called(&waiting, 2));
    }

    #[test]
    fn whoever_is_called_and_finds_the_key_taken_again_keeps_the_first_place() {
        let waiting = three_wait_for_a();
        waiting.released(&key("a"));
        waiting.wait_for(holder(1), &key("a"), NOW);
        assert!(!is_called(&waiting, 1));
        waiting.released(&key("a"));
        assert_eq!([1, 2].map(|n| is_called(&waiting, n)), [true, false]);
    }

    #[test]
    fn whoever_is_kept_out_by_another_key_waits_there_and_lets_the_next_one_in() {
        let waiting = three_wait_for_a();
        waiting.released(&key("a"));
        waiting.wait_for(holder(1), &key("b"), NOW);
        assert_eq!([1, 2].map(|n| is_called(&waiting, n)), [false, true]);
        waiting.released(&key("b"));
        assert!(is_called(&waiting, 1));
    }

    #[test]
    fn nothing_is_left_of_those_who_went() {
        let waiting = three_wait_for_a();
        waiting.granted(holder(2));
        [1, 3, 3].into_iter().for_each(|n| waiting.leave(holder(n)));
        let lines = waiting.lines();
        assert!(lines.lines.is_empty() && lines.waiters.is_empty());
    }
}
