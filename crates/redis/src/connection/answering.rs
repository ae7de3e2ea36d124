//! A stream on which a server speaks only when it is spoken to.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::connection::dial::BoxStream;

/// Reads nothing before something has been written. A server that refuses a connection, because it is
/// full or in protected mode, says so at once and closes it. That must be read as the answer to the first
/// command, because redis-rs drops what comes when nothing was asked.
pub(crate) struct Answering {
    stream: BoxStream,
    has_written: bool,
    reader: Option<Waker>,
}

impl Answering {
    pub(crate) const fn on(stream: BoxStream) -> Self {
        Self { stream, has_written: false, reader: None }
    }
}

impl AsyncRead for Answering {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.has_written {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.stream.as_mut().poll_read(context, into)
    }
}

impl AsyncWrite for Answering {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write(context, bytes);
        if written.is_ready() && !self.has_written {
            self.has_written = true;
            self.reader.take().into_iter().for_each(Waker::wake);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}
