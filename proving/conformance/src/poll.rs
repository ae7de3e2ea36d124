//! Drops a future at each of its await points in turn.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Polls up to `times`, when woken or after 10 ms, and then drops it. Other tasks run in between.
pub async fn poll_and_drop<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..times {
        let polled = std::future::poll_fn(|context| match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Poll::Ready(None),
        });
        if let Some(done) = polled.await {
            return Some(done);
        }
        woken_or_late().await;
    }
    None
}

/// Yields once. The waker that the future got is this task's, so its wake-up brings us back.
async fn woken_or_late() {
    let mut first = true;
    let woken =
        std::future::poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) });
    let _ = tokio::time::timeout(Duration::from_millis(10), woken).await;
}
