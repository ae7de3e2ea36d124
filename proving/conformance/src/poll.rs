//! Drops a future at each of its await points in turn.

use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

/// Polls a future up to `times`, whenever it is ready to go on, and then drops it; says whether it
/// had come to its end.
///
/// Between polls the rest of the world goes on: the future is polled again when it is woken, or
/// after a hundredth of a second.
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

/// Gives way once: the waker that the future took is this task's own, so its wake-up brings us
/// back.
async fn woken_or_late() {
    let mut first = true;
    let woken =
        std::future::poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) });
    let _ = tokio::time::timeout(Duration::from_millis(10), woken).await;
}
