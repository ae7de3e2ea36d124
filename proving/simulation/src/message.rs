//! The messages between processes and nodes.

use leasehold_core::{Answer, Channel, Push, Request, Stamp};

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) connection: u64,
    pub(crate) number: u64,
    pub(crate) says: Says,
}

#[derive(Clone, Debug)]
pub(crate) enum Says {
    /// The first message: the node also listens on the connection's channel.
    Hello,
    Ask(Vec<Request>),
    /// The last message.
    Bye,
}

#[derive(Debug)]
pub(crate) enum Letter {
    Reply(u64, Reply),
    Push(Push),
    Closed,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) stamp: Stamp,
    pub(crate) answers: Vec<Answer>,
}

pub(crate) fn channel_of(connection: u64) -> Channel {
    Channel::new(connection.to_be_bytes())
}
