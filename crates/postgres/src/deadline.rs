//! A limit on waiting, kept by the runtime's clock.

use std::future::Future;
use std::time::Duration;

use leasehold_core::Runtime;

/// What the future came to, or `None` if it took longer. What is ready counts, also when the time is up.
pub(crate) async fn within<T>(
    runtime: &dyn Runtime,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    let end = runtime.sleep_until(runtime.now() + limit);
    tokio::select! {
        biased;
        done = future => Some(done),
        () = end => None,
    }
}
