//! The environment that a program must provide: a clock, timers, tasks and randomness.

use std::fmt;
use std::future::{Future, poll_fn};
use std::ops::{Add, Sub};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use crate::compact::Compact;

/// A boxed future that may move between threads.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Starts a cleanup, and starts it again after an interruption.
pub type BeginCleanup = Box<dyn FnMut() -> BoxFuture<'static, ()> + Send>;

/// A point on this process's lease clock, which never steps and continues while the machine sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Compact);

impl Instant {
    /// The instant this many nanoseconds after the clock's beginning; the last one, which means
    /// "without limit", is `u64::MAX - 1`, and stands for a greater number too.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(Compact::new(nanos))
    }

    /// Nanoseconds since the clock's own beginning.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0.get()
    }

    /// The time since an earlier instant; zero if that is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.as_nanos().saturating_sub(earlier.as_nanos()))
    }
}

/// Saturates at the end of time, which means "without limit".
impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_add(u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Saturates at the clock's beginning.
impl Sub<Duration> for Instant {
    type Output = Self;

    fn sub(self, before: Duration) -> Self {
        Self::from_nanos(self.as_nanos().saturating_sub(u64::try_from(before.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A point on a store's clock, in microseconds. It cannot be compared with an [`Instant`]: the two
/// clocks have nothing in common.
///
/// ```
/// use leasehold_core::Stamp;
/// use std::time::{Duration, SystemTime};
///
/// let stamp = Stamp::from_micros(1_700_000_000_000_000); // on a wall clock: since 1970
/// let time = SystemTime::UNIX_EPOCH + Duration::from_micros(stamp.as_micros());
/// assert!(time < SystemTime::now());
/// assert_eq!(stamp.saturating_until(stamp + Duration::from_secs(2)), Duration::from_secs(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(Compact);

impl Stamp {
    /// The point this many microseconds after the clock's beginning; the last one is `u64::MAX - 1`,
    /// and stands for a greater number too.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(Compact::new(micros))
    }

    /// Microseconds since the clock's beginning.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0.get()
    }

    /// The time until a later point; zero if that is earlier.
    #[must_use]
    pub const fn saturating_until(self, later: Self) -> Duration {
        Duration::from_micros(later.as_micros().saturating_sub(self.as_micros()))
    }
}

impl Add<Duration> for Stamp {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self::from_micros(
            self.as_micros().saturating_add(u64::try_from(after.as_micros()).unwrap_or(u64::MAX)),
        )
    }
}

/// Clock, timers, tasks and randomness: everything that Leasehold needs from its environment
/// besides stores.
///
/// The library has one for tokio. A simulation has its own, and so controls every source of chance.
pub trait Runtime: fmt::Debug + Send + Sync + 'static {
    /// The lease clock: it never steps, and includes the time during which the machine sleeps.
    fn now(&self) -> Instant;

    /// Wall-clock time since 1970. Only fences depend on it, and only as a floor.
    fn since_epoch(&self) -> Duration;

    /// Resolves when the lease clock has reached `at`, or, if the machine slept then, within a
    /// second of waking.
    fn sleep_until(&self, at: Instant) -> BoxFuture<'static, ()>;

    /// Runs a task to its end, concurrently with others. If the runtime has ended, the task is
    /// dropped; this never panics.
    fn spawn(&self, task: BoxFuture<'static, ()>);

    /// A number that changes once the async runtime has ended and cleanups run elsewhere. A task of
    /// an earlier number, such as the driver of a connection, no longer runs.
    fn generation(&self) -> u64 {
        0
    }

    /// Runs a cleanup to its end, which releases what others wait for. If the runtime ends first,
    /// it is started again elsewhere if possible, which delays the shutdown for a bounded time.
    fn spawn_cleanup(&self, mut begin: BeginCleanup) {
        self.spawn(Box::pin(async move { begin().await }));
    }

    /// 128 bits that nobody can guess.
    fn random(&self) -> u128;
}

impl dyn Runtime + '_ {
    /// 64 random bits: enough to spread pauses, too few for an id.
    #[must_use]
    pub fn random_bits(&self) -> u64 {
        self.random() as u64
    }

    /// The result of the future, or `None` if it took longer than `limit`. A result that is ready
    /// counts even if the time is up.
    ///
    /// Cancel safe if the future is; it is dropped when the time is up.
    pub async fn within<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        self.before(self.now() + limit, future).await
    }

    /// The same with the end of the time.
    pub async fn before<T>(&self, end: Instant, future: impl Future<Output = T>) -> Option<T> {
        let (mut future, mut timer) = (pin!(future), None);
        poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => {
                let timer = timer.get_or_insert_with(|| self.sleep_until(end));
                timer.as_mut().poll(context).map(|()| None)
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_hand::ByHand;

    #[tokio::test]
    async fn a_result_that_is_ready_counts_although_the_time_is_up() {
        let runtime: &dyn Runtime = &ByHand::default();
        assert_eq!(runtime.within(Duration::ZERO, std::future::ready(7)).await, Some(7));
        assert_eq!(runtime.within(Duration::ZERO, std::future::pending::<()>()).await, None);
    }

    #[test]
    fn instants_saturate_instead_of_wrapping() {
        let start = Instant::from_nanos(10);
        assert_eq!(start + Duration::MAX, Instant::from_nanos(u64::MAX));
        assert_eq!(start - Duration::from_secs(1), Instant::from_nanos(0));
        assert_eq!(start.saturating_since(start + Duration::from_secs(1)), Duration::ZERO);
        assert_eq!(Stamp::from_micros(7) + Duration::MAX, Stamp::from_micros(u64::MAX));
    }
}
