//! Tracks when something last happened on a connection, for any caller.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use leasehold_core::{Instant, Runtime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::dial::BoxStream;

/// The latest of the instants that were noted.
#[derive(Debug, Default)]
pub(crate) struct Latest(AtomicU64);

impl Latest {
    pub(crate) fn note(&self, instant: Instant) {
        // No other memory depends on it.
        self.0.fetch_max(instant.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A stream that notes when something was read from it, even the answer to a call that nobody waits
/// for any more.
pub(crate) struct Watched {
    pub(crate) stream: BoxStream,
    pub(crate) last_read: Arc<Latest>,
    pub(crate) runtime: Arc<dyn Runtime>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = self.stream.as_mut().poll_read(context, into);
        if into.filled().len() > before {
            self.last_read.note(self.runtime.now());
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}
