//! A process: its connection, and the parts of core that its clients share.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use leasehold_core::{
    Answer, Channel, ConnectionId, Holder, InDoubtGrants, Instant, Push, Request, Sending, Ttl,
    WaiterRegistry,
};

use crate::name::Now;
use crate::server::Listener;

/// A call of a client, by which its answer is recognised.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Call {
    pub(super) who: usize,
    pub(super) holder: Holder,
    pub(super) sent: Instant,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, Hash)]
pub(super) enum Kind {
    Ask(Sending),
    /// A renewal; with a ttl if the holder itself asked for it.
    Hold(Option<Ttl>),
    LetGo,
    ByValue,
    Ping,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct RequestMessage {
    pub(super) call: Call,
    /// `None` for a ping or a release by value, which are not requests of core.
    pub(super) request: Option<Request>,
    /// True if the client knew its place in the queue when it asked.
    pub(super) knew: bool,
    /// True if it is being served for a second time.
    pub(super) again: bool,
}

#[derive(Clone, Debug, Hash)]
pub(super) enum StoreMessage {
    /// An answer; `None` for a ping, or if nothing was deleted.
    Answer(Call, Option<Answer>),
    /// A push, and the time at which the store sent it.
    Push(Push, Instant),
}

#[derive(Clone, Debug)]
pub(super) struct Process {
    pub(super) number: usize,
    pub(super) alive: bool,
    pub(super) connection: u64,
    /// Everything read from now on was sent no earlier than this.
    pub(super) since: Instant,
    /// Messages to the store, in order.
    pub(super) up: VecDeque<RequestMessage>,
    /// Messages of the previous connection that may still arrive, in order.
    pub(super) stray: VecDeque<RequestMessage>,
    /// Messages from the store, in order.
    pub(super) down: VecDeque<StoreMessage>,
    pub(super) waiting: WaiterRegistry,
    pub(super) unsettled: InDoubtGrants,
    /// True if a new connection uses the channel of the previous one.
    pub(super) one_channel: bool,
}

impl Hash for Process {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { alive, connection, up, stray, down, waiting, unsettled, .. } = self;
        (alive, connection, up, stray, down, waiting, unsettled).hash(state);
    }
}

impl Process {
    pub(super) fn new(number: usize, now: Now, one_channel: bool) -> Self {
        Self {
            number,
            alive: true,
            connection: 0,
            since: now.instant(),
            up: VecDeque::new(),
            stray: VecDeque::new(),
            down: VecDeque::new(),
            waiting: WaiterRegistry::new(1),
            unsettled: InDoubtGrants::default(),
            one_channel,
        }
    }

    pub(super) fn channel(&self) -> Channel {
        let connection = if self.one_channel { 0 } else { self.connection };
        Channel::new([u8::try_from(self.number).unwrap_or(0), u8::try_from(connection).unwrap_or(0)])
    }

    pub(super) fn listener(&self) -> Listener {
        Listener { process: self.number, connection: self.connection, channel: self.channel() }
    }

    pub(super) const fn via(&self) -> Option<ConnectionId> {
        Some(ConnectionId(self.connection))
    }

    /// True if a message is in flight that was sent at that time or earlier.
    pub(super) fn has_been_under_way_since(&self, then: Instant) -> bool {
        let down = self.down.iter().map(|word| match word {
            StoreMessage::Answer(call, _) => call.sent,
            StoreMessage::Push(_, said) => *said,
        });
        let sent = self.up.iter().chain(&self.stray).map(|letter| letter.call.sent);
        sent.chain(down).any(|sent| sent <= then)
    }

    pub(super) fn is_silent(&self) -> bool {
        self.up.is_empty() && self.down.is_empty() && self.stray.is_empty()
    }
}

impl RequestMessage {
    pub(super) fn told(&self) -> String {
        let request = self.request.as_ref().map(|request| format!("{request:?}"));
        request.unwrap_or_else(|| format!("{:?}", self.call))
    }
}
