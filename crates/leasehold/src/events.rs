//! The stream of events.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::ReusableBoxFuture;

use crate::event::Event;

/// The events of the locks of a process since this was created by
/// [`Locks::events`](crate::Locks::events).
///
/// It is a [`Stream`], and has its own [`next`](Self::next) for programs that do not use streams. A
/// slow reader loses the oldest events, and [`Event::Missed`] says how many; nothing waits for a
/// reader. The stream ends once the locks and all their guards are gone.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use leasehold::{Event, Locks};
///
/// let locks = Locks::in_memory();
/// let mut events = locks.events();
/// let logging = tokio::spawn(async move {
///     while let Some(event) = events.next().await {
///         if let Event::Lost { request, why, .. } = event {
///             eprintln!("{request}: lost: {why}");
///         }
///     }
/// });
/// drop(locks);
/// logging.await?; // the events have ended
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
pub struct Events(ReusableBoxFuture<'static, (Result<Event, RecvError>, Receiver<Event>)>);

impl Events {
    pub(crate) fn new(receiver: Receiver<Event>) -> Self {
        Self(ReusableBoxFuture::new(receive(receiver)))
    }

    /// The next event; `None` once no more can come.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no event is lost.
    pub async fn next(&mut self) -> Option<Event> {
        poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let Poll::Ready((received, receiver)) = self.0.poll(context) else { return Poll::Pending };
        self.0.set(receive(receiver));
        Poll::Ready(match received {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(events)) => Some(Event::Missed { events }),
            Err(RecvError::Closed) => None,
        })
    }
}

async fn receive(mut receiver: Receiver<Event>) -> (Result<Event, RecvError>, Receiver<Event>) {
    (receiver.recv().await, receiver)
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}
