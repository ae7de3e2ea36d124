//! A time limit by the runtime's clock.

use std::future::Future;
use std::time::Duration;

use leasehold_core::Runtime;

/// The result of the future, or `None` if it took longer. A result that is ready counts even if the
/// time is up.
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
