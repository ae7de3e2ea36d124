//! The network between processes and nodes: the state of its connections and links.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::task::Waker;

use tokio::sync::oneshot;

use crate::dice::Dice;
use crate::message::{Letter, Reply};
use crate::node::Node;

#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) nodes: Vec<Node>,
    pub(crate) connections: BTreeMap<u64, Connection>,
    /// For each process, its link to each node.
    pub(crate) links: Vec<Vec<Link>>,
    last_number: u64,
    pub(crate) dice: Dice,
}

/// The path between a process and a node.
#[derive(Debug, Default)]
pub(crate) struct Link {
    /// The usual delay, in microseconds.
    pub(crate) takes: Range<u64>,
    /// The delay while the link is slow.
    pub(crate) slow: Option<Range<u64>>,
    /// Until then, nothing passes in either direction.
    pub(crate) cut_off: Option<u64>,
    /// Nothing passes from the node to the process.
    pub(crate) deaf: bool,
    pub(crate) loses_requests: u32,
    pub(crate) loses_replies: u32,
    pub(crate) loses_pushes: u32,
    pub(crate) repeats: u32,
}

/// One connection: the state of both ends, and of the path between them.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    pub(crate) process: usize,
    pub(crate) node: usize,
    pub(crate) run: u64,
    pub(crate) open: bool,
    /// It was cut: messages in flight arrive late or never.
    pub(crate) broken: bool,
    /// A message from the node was lost, so nothing after it arrives.
    pub(crate) torn: bool,
    pub(crate) last_to_node: u64,
    pub(crate) last_to_process: u64,
    pub(crate) calls: BTreeMap<u64, oneshot::Sender<Reply>>,
    pub(crate) inbox: VecDeque<Letter>,
    pub(crate) reader: Option<Waker>,
}

impl Link {
    pub(crate) fn new(takes: Range<u64>) -> Self {
        Self { takes, ..Self::default() }
    }

    pub(crate) fn heals(&mut self) {
        *self = Self::new(self.takes.clone());
    }

    pub(crate) fn delay(&self, dice: &mut Dice) -> u64 {
        dice.within(self.slow.clone().unwrap_or_else(|| self.takes.clone())) * 1000
    }
}

impl Network {
    pub(crate) fn new(nodes: Vec<Node>, links: Vec<Vec<Link>>, dice: Dice) -> Self {
        Self { nodes, connections: BTreeMap::new(), links, last_number: 0, dice }
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}
