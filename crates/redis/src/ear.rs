//! Hearing what the server says unasked, and how long it has been true at most.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use futures_core::Stream;
use leasehold_core::{Channel, Instant, Runtime};
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, PushInfo, PushKind, Value};
use tokio::sync::{Mutex, Notify};
use tokio::task::unconstrained;

use crate::deadline::within;

/// Takes the channel of a push, the push, and an instant that surely lies before what it tells of was done.
pub(crate) type Tell = Arc<dyn Fn(&[u8], &[u8], Instant) + Send + Sync>;

/// When the latest command was sent of those whose answer has come on one connection.
///
/// A server answers and pushes on a connection in the order in which it works. So what a push tells of was done after the
/// commands were whose answers came before it there, and these were done after they were sent: that is the earliest instant at
/// which a lease can have begun, and takes no clock of the server's.
///
/// It is noted by whoever asked, in a task of its own, and read by the connection's reader when it decodes a push. The reader
/// hands out an answer before it decodes what comes next, so no answer can be noted that stands behind the push. One may be
/// noted too late, and then the lease only seems shorter than it is.
#[derive(Debug, Default)]
pub(crate) struct Answered(AtomicU64);

impl Answered {
    pub(crate) fn note(&self, sent: Instant) {
        // No other memory hangs on it, and the order of the accesses to it is given by the answers.
        self.0.fetch_max(sent.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn since(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// What the reader of a RESP3 connection does with what is no answer. Called while it decodes, and so between the answers
/// before and behind.
pub(crate) fn reader(
    answered: Arc<Answered>,
    tell: Tell,
) -> impl Fn(PushInfo) -> Result<(), redis::aio::SendError> {
    move |push| {
        if let (PushKind::Message, [Value::BulkString(channel), Value::BulkString(payload)]) =
            (&push.kind, &push.data[..])
        {
            tell(channel, payload, answered.since());
        }
        Ok(())
    }
}

/// What a connection has to hear with.
#[derive(Debug, Default)]
pub(crate) struct Ear {
    channel: OnceLock<Channel>,
    /// Whoever has the lock subscribes; inside: when to try again after the server refused.
    pub(crate) subscribing: Mutex<Option<Refused>>,
    /// Tells the second connection, if there is one, to see whether the server is still there.
    pub(crate) beat: Arc<Notify>,
}

/// There is no subscription.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) again: Instant,
}

impl Ear {
    /// The channel, if somebody listens there.
    pub(crate) fn channel(&self) -> Option<&Channel> {
        self.channel.get()
    }

    pub(crate) fn hears_at(&self, channel: Channel) -> &Channel {
        self.channel.get_or_init(|| channel)
    }
}

/// A subscription on a connection of its own, for RESP2.
pub(crate) struct Subscription<S = PubSubStream> {
    pub(crate) sink: PubSubSink,
    pub(crate) stream: S,
    /// When it was asked for. Whatever comes on it happened later.
    pub(crate) since: Instant,
}

impl<S: Stream<Item = Msg> + Unpin> Subscription<S> {
    /// Hears until the connection ends, or a PING is not answered within the limit.
    ///
    /// Nothing is known of the order between two connections, so what was answered on the other does not count here; the
    /// subscription's own PINGs do.
    pub(crate) async fn hear(
        mut self,
        beat: Arc<Notify>,
        limit: Duration,
        tell: Tell,
        runtime: Arc<dyn Runtime>,
    ) {
        loop {
            tokio::select! {
                biased;
                message = next(&mut self.stream) => match message {
                    Some(message) => say(&tell, &message, self.since),
                    None => return,
                },
                () = beat.notified() => {
                    if !self.ping(limit, &tell, &*runtime).await {
                        return;
                    }
                }
            }
        }
    }

    async fn ping(&mut self, limit: Duration, tell: &Tell, runtime: &dyn Runtime) -> bool {
        let sent = runtime.now();
        let mut pong = pin!(within(runtime, limit, self.sink.ping::<Value>()));
        let answered = loop {
            tokio::select! {
                biased;
                message = next(&mut self.stream) => match message {
                    Some(message) => say(tell, &message, self.since),
                    None => return false,
                },
                // A refusal is an answer, too, and no error of the connection.
                pong = &mut pong => break matches!(pong, Some(Ok(_))),
            }
        };
        // What came before the pong lies in the stream now: it is taken out before the pong counts. Without a scheduler's
        // budget, which would make the stream look empty.
        while let Poll::Ready(message) =
            unconstrained(poll_fn(|context| Poll::Ready(Pin::new(&mut self.stream).poll_next(context)))).await
        {
            let Some(message) = message else { return false };
            say(tell, &message, self.since);
        }
        self.since = sent;
        answered
    }
}

fn say(tell: &Tell, message: &Msg, since: Instant) {
    tell(message.get_channel_name().as_bytes(), message.get_payload_bytes(), since);
}

pub(crate) async fn next(stream: &mut (impl Stream<Item = Msg> + Unpin)) -> Option<Msg> {
    poll_fn(|context| Pin::new(&mut *stream).poll_next(context)).await
}

#[cfg(test)]
mod tests;
