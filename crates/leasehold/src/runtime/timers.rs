//! The timers of one tokio runtime. Most of them are limits that are never reached, so they use no
//! timer of tokio's each: a single task sleeps until the first is due.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_core::{Instant, locked};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use super::clock::Clock;

/// The longest single sleep. Tokio's timers do not advance while the machine sleeps. Reading the
/// lease clock each second finds an end that passed meanwhile within a second of waking.
const LONGEST_NAP: Duration = Duration::from_secs(1);

/// The end of a time without a limit.
pub(super) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// The timers of a runtime. The last clone ends the task.
#[derive(Clone, Debug)]
pub(super) struct Timers(Arc<Runs>);

#[derive(Debug)]
struct Runs {
    handle: Handle,
    clock: Clock,
    queue: Arc<Queue>,
    task: AbortHandle,
}

impl Timers {
    pub(super) fn of(handle: Handle, clock: Clock) -> Self {
        let queue = Arc::new(Queue::default());
        let task = Task { queue: queue.clone(), handle: handle.clone(), clock };
        let task = handle.spawn(async move { task.run().await }).abort_handle();
        Self(Arc::new(Runs { handle, clock, queue, task }))
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.0.handle
    }

    pub(super) fn clock(&self) -> Clock {
        self.0.clock
    }

    pub(super) fn now(&self) -> Instant {
        self.0.clock.now(&self.0.handle)
    }

    /// Notes that the runtime has ended, which may be long before it drops the task.
    pub(super) fn end(&self) {
        self.0.queue.end();
    }

    /// Resolves when the clock has reached `at`. If the runtime has ended, this uses the timers of
    /// the runtime in which it is polled; outside of any, it blocks.
    pub(super) async fn sleep_until(self, at: Instant) {
        let mut timer = Timer { queue: &self.0.queue, at, number: 0 };
        // It is due whether or not the task has come to it.
        poll_fn(
            |context| {
                if self.now() >= at { Poll::Ready(()) } else { Pin::new(&mut timer).poll(context) }
            },
        )
        .await;
        if self.now() < at {
            Box::pin(self.sleep_elsewhere(at)).await;
        }
    }

    async fn sleep_elsewhere(&self, at: Instant) {
        loop {
            let left = at.saturating_since(self.now()).min(LONGEST_NAP);
            if left.is_zero() {
                return;
            }
            match Handle::try_current() {
                Ok(_) => tokio::time::sleep(left).await,
                Err(_) => std::thread::sleep(left),
            }
        }
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug, Default)]
struct Queue(Mutex<State>);

#[derive(Debug)]
struct State {
    /// By the time at which they are due, and their numbers.
    timers: BTreeMap<(Instant, u64), Waker>,
    latest: u64,
    /// Until when the task sleeps. `None`: the runtime has ended, and nothing wakes a timer.
    sleeps_until: Option<Instant>,
    task: Option<Waker>,
}

impl Default for State {
    fn default() -> Self {
        Self { timers: BTreeMap::new(), latest: 0, sleeps_until: Some(NEVER), task: None }
    }
}

impl Queue {
    /// Wakes the timers that are due. Returns until when the task may sleep; `None` if the runtime
    /// has ended.
    fn wake_due(&self, now: Instant) -> Option<Instant> {
        let mut state = locked(&self.0);
        state.sleeps_until?;
        let mut due = Vec::new();
        while let Some(first) = state.timers.first_entry().filter(|first| first.key().0 <= now) {
            due.push(first.remove());
        }
        let until = state.timers.first_key_value().map_or(NEVER, |(&(at, _), _)| at);
        state.sleeps_until = Some(until);
        drop(state);
        due.into_iter().for_each(Waker::wake);
        Some(until)
    }

    /// Wakes all timers, which go on elsewhere: the runtime has ended, or nobody needs them.
    fn end(&self) {
        let mut state = locked(&self.0);
        state.sleeps_until = None;
        let timers = mem::take(&mut state.timers);
        drop(state);
        timers.into_values().for_each(Waker::wake);
    }

    /// Resolves when a timer is due before the end of the sleep.
    async fn earlier(&self, until: Instant) {
        poll_fn(|context| {
            let mut state = locked(&self.0);
            if state.sleeps_until != Some(until) {
                return Poll::Ready(());
            }
            state.task = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Wakes the timers.
struct Task {
    queue: Arc<Queue>,
    handle: Handle,
    clock: Clock,
}

impl Task {
    async fn run(&self) {
        loop {
            let now = self.clock.now(&self.handle);
            let Some(until) = self.queue.wake_due(now) else { return };
            let earlier = self.queue.earlier(until);
            if until == NEVER {
                earlier.await;
                continue;
            }
            let nap = until.saturating_since(now).min(LONGEST_NAP);
            // Either way the task looks what is due.
            let _ = tokio::time::timeout(nap, earlier).await;
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.queue.end();
    }
}

/// Resolves when it is due, or the runtime has ended.
struct Timer<'a> {
    queue: &'a Queue,
    at: Instant,
    /// 0: it is not in the queue.
    number: u64,
}

impl Future for Timer<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let queue = self.queue;
        let mut state = locked(&queue.0);
        let Some(sleeps_until) = state.sleeps_until else { return Poll::Ready(()) };
        if self.number == 0 {
            state.latest += 1;
            self.number = state.latest;
            state.timers.insert((self.at, self.number), context.waker().clone());
            if self.at < sleeps_until {
                state.sleeps_until = Some(self.at);
                let task = state.task.take();
                drop(state);
                task.into_iter().for_each(Waker::wake);
            }
            return Poll::Pending;
        }
        match state.timers.get_mut(&(self.at, self.number)) {
            None => Poll::Ready(()),
            Some(waker) => {
                waker.clone_from(context.waker());
                Poll::Pending
            }
        }
    }
}

impl Drop for Timer<'_> {
    fn drop(&mut self) {
        if self.number != 0 {
            let waker = locked(&self.queue.0).timers.remove(&(self.at, self.number));
            // Outside of the mutex: it may be the last owner of a task.
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counts(AtomicUsize);

    impl Wake for Counts {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }

    fn polled(timer: &mut Timer<'_>, counts: &Arc<Counts>) -> Poll<()> {
        Pin::new(timer).poll(&mut Context::from_waker(&Waker::from(counts.clone())))
    }

    #[test]
    fn those_that_are_due_are_woken_once_and_the_task_only_for_an_earlier_one() {
        let queue = Queue::default();
        assert_eq!(queue.wake_due(at(0)), Some(NEVER));
        let [task, one, two] = [(); 3].map(|()| Arc::new(Counts::default()));
        let mut earlier = Box::pin(queue.earlier(NEVER));
        let task_waker = Waker::from(task.clone());
        let mut rests = || earlier.as_mut().poll(&mut Context::from_waker(&task_waker)).is_pending();
        assert!(rests());
        let [mut first, mut second, mut third] =
            [5, 7, 7].map(|due| Timer { queue: &queue, at: at(due), number: 0 });
        assert!(polled(&mut second, &two).is_pending() && polled(&mut third, &two).is_pending());
        assert!(task.0.load(Ordering::Relaxed) == 1 && !rests());

        let mut earlier = Box::pin(queue.earlier(queue.wake_due(at(1)).unwrap()));
        let mut rests = || earlier.as_mut().poll(&mut Context::from_waker(&task_waker)).is_pending();
        assert!(rests() && polled(&mut first, &one).is_pending());
        assert!(task.0.load(Ordering::Relaxed) == 2 && !rests());
        assert_eq!(queue.wake_due(at(5)), Some(at(7)));
        assert_eq!([&one, &two].map(|woken| woken.0.load(Ordering::Relaxed)), [1, 0]);
        assert!(polled(&mut first, &one).is_ready() && polled(&mut second, &one).is_pending());
        drop(third);
        assert_eq!(queue.wake_due(at(9)), Some(NEVER));
        assert_eq!([&one, &two].map(|woken| woken.0.load(Ordering::Relaxed)), [2, 0]);
    }
}
