//! The closed state of locks, and the tasks that wait for it.

use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};

use leasehold_core::locked;

/// The closed state of locks, and its reason.
///
/// Every waiter for a lock also waits for this, so it uses less memory per waiter than a general
/// notification.
#[derive(Debug, Default)]
pub(super) struct Closing {
    /// Set when the locks are closed.
    pub(super) reason: OnceLock<Arc<str>>,
    callers: Mutex<Callers>,
}

#[derive(Debug, Default)]
struct Callers {
    all: Vec<Option<Waker>>,
    /// The unused numbers of places.
    free: Vec<NonZeroUsize>,
}

impl Closing {
    /// Closes the locks, unless they are closed already.
    pub(super) fn close(&self, reason: &str) {
        self.reason.get_or_init(|| reason.into());
        // A task that registers later sees the reason.
        let callers: Vec<_> = locked(&self.callers).all.iter_mut().filter_map(Option::take).collect();
        callers.into_iter().for_each(Waker::wake);
    }

    /// Resolves when the locks are closed.
    pub(super) const fn closed(&self) -> Closed<'_> {
        Closed { closing: self, number: None }
    }
}

/// Resolves when locks are closed.
#[derive(Debug)]
#[must_use = "a future does nothing until it is awaited"]
pub(crate) struct Closed<'a> {
    closing: &'a Closing,
    /// The number of its place among the registered tasks; the first is 1.
    number: Option<NonZeroUsize>,
}

impl Future for Closed<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let closing = self.closing;
        let mut callers = locked(&closing.callers);
        // Check while holding the mutex, so that a concurrent close finds the waker.
        if closing.reason.get().is_some() {
            return Poll::Ready(());
        }
        let number = *self.number.get_or_insert_with(|| {
            callers.free.pop().unwrap_or_else(|| {
                callers.all.push(None);
                NonZeroUsize::MIN.saturating_add(callers.all.len() - 1)
            })
        });
        match &mut callers.all[number.get() - 1] {
            Some(waker) => waker.clone_from(context.waker()),
            place => *place = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut callers = locked(&self.closing.callers);
            let waker = callers.all[number.get() - 1].take();
            callers.free.push(number);
            drop(callers);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicU32);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn every_waiter_is_called_once_and_a_later_one_is_not() {
        let (closing, counted) = (Closing::default(), Arc::new(Counted::default()));
        let waker = Waker::from(counted.clone());
        let mut context = Context::from_waker(&waker);
        let mut waiting: Vec<_> = (0..3).map(|_| closing.closed()).collect();
        for closed in &mut waiting {
            assert_eq!(Pin::new(&mut *closed).poll(&mut context), Poll::Pending);
            assert_eq!(Pin::new(closed).poll(&mut context), Poll::Pending);
        }
        drop(waiting.pop());
        closing.close("the day is over");
        closing.close("again");
        assert_eq!(counted.0.load(Ordering::SeqCst), 2);
        waiting.push(closing.closed());
        for closed in &mut waiting {
            assert_eq!(Pin::new(closed).poll(&mut context), Poll::Ready(()));
        }
        assert_eq!(closing.reason.get().map(|reason| &**reason), Some("the day is over"));
    }

    #[test]
    fn a_waiter_that_another_task_polls_is_called_there() {
        let (closing, counted) = (Closing::default(), Arc::new(Counted::default()));
        let mut closed = closing.closed();
        assert_eq!(Pin::new(&mut closed).poll(&mut Context::from_waker(Waker::noop())), Poll::Pending);
        let waker = Waker::from(counted.clone());
        assert_eq!(Pin::new(&mut closed).poll(&mut Context::from_waker(&waker)), Poll::Pending);
        closing.close("the day is over");
        assert_eq!(counted.0.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn the_slot_of_a_waiter_that_left_is_used_by_the_next() {
        let closing = Closing::default();
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..10 {
            let (mut one, mut other) = (closing.closed(), closing.closed());
            assert_eq!(Pin::new(&mut one).poll(&mut context), Poll::Pending);
            assert_eq!(Pin::new(&mut other).poll(&mut context), Poll::Pending);
        }
        assert_eq!(locked(&closing.callers).all.len(), 2);
    }
}
