//! Receives pushes from the server, and bounds their age.

use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::{FutureExt as _, Stream, StreamExt as _};
use leasehold_core::{Channel, Instant, Runtime};
use redis::aio::{PubSubSink, PubSubStream};
use redis::{Msg, PushInfo, PushKind, Value};
use tokio::sync::{Mutex, Notify};
use tokio::task::unconstrained;

use crate::connection::dial::Latest;

/// Receives the channel of a push, its content, and an instant that is certainly before the event
/// that it reports.
pub(crate) type OnPush = Arc<dyn Fn(&[u8], &[u8], Instant) + Send + Sync>;

/// Handles data on a RESP3 connection that is not an answer. Called during decoding, and so in
/// order with the answers before and behind. `answered` tells when the latest of the answered
/// commands on this connection was sent.
///
/// A server answers and pushes on a connection in the order in which it works. So the event of a
/// push happened after the commands whose answers came before it, and these were executed after
/// they were sent. That is the earliest instant at which a lease in the push can have started, and
/// it needs no clock of the server.
///
/// The caller notes it in its own task, and the connection's reader reads it when it decodes a
/// push. The reader returns an answer before it decodes what follows, so no answer from behind the
/// push can be noted. An answer may be noted too late; then the lease only appears shorter.
pub(crate) fn reader(
    answered: Arc<Latest>,
    tell: OnPush,
) -> impl Fn(PushInfo) -> Result<(), redis::aio::SendError> {
    move |push| {
        if let (PushKind::Message, [Value::BulkString(channel), Value::BulkString(payload)]) =
            (&push.kind, &push.data[..])
        {
            tell(channel, payload, answered.get());
        }
        Ok(())
    }
}

/// The subscription of a connection.
#[derive(Debug, Default)]
pub(crate) struct OwnChannel {
    /// The channel, once there is a subscription.
    pub(crate) channel: OnceLock<Channel>,
    /// Held while subscribing. It contains the time of the next try after a refusal.
    pub(crate) subscribing: Mutex<Option<Instant>>,
    /// Makes the second connection, if there is one, check that the server is still there.
    pub(crate) beat: Arc<Notify>,
}

/// A subscription on a separate connection, for RESP2.
pub(crate) struct Subscription<S = PubSubStream> {
    pub(crate) sink: PubSubSink,
    pub(crate) stream: S,
    /// When it was requested. Everything that comes on it happened later.
    pub(crate) since: Instant,
}

impl<S: Stream<Item = Msg> + Unpin> Subscription<S> {
    /// Receives until the connection ends, or a PING is not answered within the limit.
    ///
    /// The order between two connections is unknown, so answers on the other one do not count here;
    /// the subscription's own PINGs do.
    pub(crate) async fn hear(
        mut self,
        beat: Arc<Notify>,
        limit: Duration,
        tell: OnPush,
        runtime: Arc<dyn Runtime>,
    ) {
        loop {
            tokio::select! {
                biased;
                message = self.stream.next() => match message {
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

    async fn ping(&mut self, limit: Duration, tell: &OnPush, runtime: &dyn Runtime) -> bool {
        let sent = runtime.now();
        let mut pong = pin!(runtime.within(limit, self.sink.ping::<Value>()));
        let answered = loop {
            tokio::select! {
                biased;
                message = self.stream.next() => match message {
                    Some(message) => say(tell, &message, self.since),
                    None => return false,
                },
                // A refusal is an answer too, and not an error of the connection.
                pong = &mut pong => break matches!(pong, Some(Ok(_))),
            }
        };
        // Everything that came before the pong is in the stream now: read it before the pong
        // counts. Without tokio's budget, which would make the stream appear empty.
        while let Some(message) = unconstrained(self.stream.next()).now_or_never() {
            let Some(message) = message else { return false };
            say(tell, &message, self.since);
        }
        self.since = sent;
        answered
    }
}

fn say(tell: &OnPush, message: &Msg, since: Instant) {
    tell(message.get_channel_name().as_bytes(), message.get_payload_bytes(), since);
}

#[cfg(test)]
mod tests;
