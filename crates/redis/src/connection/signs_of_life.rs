//! Tracks when anything was last received from a server, for any caller.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use leasehold_core::{Instant, Runtime};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::dial::BoxStream;

/// When something was last read from one connection, even the answer to a call that nobody waits
/// for any more.
#[derive(Debug, Default)]
pub(crate) struct SignsOfLife(AtomicU64);

impl SignsOfLife {
    /// Returns true if something came after that instant.
    pub(crate) fn came_after(&self, instant: Instant) -> bool {
        // No other memory depends on it.
        self.0.load(Ordering::Relaxed) > instant.as_nanos()
    }

    fn note(&self, now: Instant) {
        self.0.store(now.as_nanos(), Ordering::Relaxed);
    }
}

/// A stream that notes its reads.
pub(crate) struct Watched {
    pub(crate) stream: BoxStream,
    pub(crate) signs: Arc<SignsOfLife>,
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
            self.signs.note(self.runtime.now());
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

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.stream.as_mut().poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}
