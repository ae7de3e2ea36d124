//! Counts the releases in the background, so that a program that ends can wait for them.

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::locked;

/// The releases that a store makes after it has answered: it took less than it asked for, or
/// another request overtook a call.
///
/// A release counts from before the answer that made it necessary until its first result. Retries
/// after that are not counted: nobody waits for a server that is down.
#[derive(Clone, Debug, Default)]
pub struct BackgroundReleases(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    count: usize,
    waiting: Vec<Waker>,
}

impl BackgroundReleases {
    /// Counts one more release until the returned value is dropped.
    #[must_use]
    pub fn begin(&self) -> BackgroundRelease {
        locked(&self.0).count += 1;
        BackgroundRelease(self.clone())
    }

    /// The number of releases.
    #[must_use]
    pub fn count(&self) -> usize {
        locked(&self.0).count
    }

    /// Resolves when there are none. Cancel safe.
    pub async fn none_left(&self) {
        std::future::poll_fn(|context| self.poll_none_left(context)).await;
    }

    fn poll_none_left(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = locked(&self.0);
        if state.count == 0 {
            return Poll::Ready(());
        }
        if !state.waiting.iter().any(|waiting| waiting.will_wake(context.waker())) {
            state.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// One release in the background; it ends when this is dropped.
#[derive(Debug)]
pub struct BackgroundRelease(BackgroundReleases);

impl Drop for BackgroundRelease {
    fn drop(&mut self) {
        let mut state = locked(&self.0.0);
        state.count -= 1;
        let waiting = if state.count == 0 { std::mem::take(&mut state.waiting) } else { Vec::new() };
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;
    use crate::by_hand::Woken;

    #[test]
    fn the_last_release_wakes_every_waiter_once() {
        let releases = BackgroundReleases::default();
        let (one, other) = (releases.begin(), releases.begin());
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = Context::from_waker(&waker);
        let mut waits = pin!(releases.none_left());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        assert!(waits.as_mut().poll(&mut context).is_pending());
        drop(one);
        assert_eq!((releases.count(), woken.times()), (1, 0));
        drop(other);
        assert_eq!((releases.count(), woken.times()), (0, 1));
        assert!(waits.as_mut().poll(&mut context).is_ready());
    }
}
