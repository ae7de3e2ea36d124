//! Delivers messages: connections delay, lose, repeat and break. As with TCP, a connection's messages
//! arrive in order or not at all; but those in flight when it broke may arrive long after those on the
//! next one, and a node may think that a process which is gone is connected.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::message::{Letter, Message, Reply, Says, channel_of};
use crate::network::{Connection, Network};
use crate::plan::FaultKind;
use crate::words;
use crate::world::World;

/// Consumes one of the faults that are still to hit a message; returns true if there was one.
fn takes_one(count: &mut u32) -> bool {
    let hit = *count > 0;
    *count = count.saturating_sub(1);
    hit
}

impl World {
    /// Creates a connection. The node does not know of it yet.
    pub(crate) fn connect(&self, process: usize, node: usize) -> u64 {
        let mut network = self.network();
        let number = network.number();
        let run = network.nodes[node].run;
        let connection = Connection { process, node, run, open: true, ..Connection::default() };
        network.connections.insert(number, connection);
        number
    }

    /// Sends a message. `tell` is dropped once no answer can arrive any more.
    pub(crate) fn send(&self, connection: u64, says: Says, tell: Option<oneshot::Sender<Reply>>) {
        let now = self.executor.now();
        let mut network = self.network();
        let number = network.number();
        let Network { connections, links, dice, .. } = &mut *network;
        let Some(socket) = connections.get_mut(&connection).filter(|socket| socket.open) else { return };
        let link = &mut links[socket.process][socket.node];
        if let Some(tell) = tell {
            socket.calls.insert(number, tell);
        }
        let asks = matches!(says, Says::Ask(_));
        if asks && takes_one(&mut link.loses_requests) {
            self.happened(FaultKind::RequestLost);
            self.trace.say(now, || format!("lost      #{number} {}", words::says(&says)));
            return;
        }
        let mut at = now + link.delay(dice);
        if let Some(until) = link.cut_off {
            if dice.percent(60) {
                self.trace.say(now, || format!("cut off   #{number} {}", words::says(&says)));
                return;
            }
            at = until + link.delay(dice);
        }
        at = at.max(socket.last_to_node + 1);
        socket.last_to_node = at;
        let message = Message { connection, number, says };
        self.trace.say(now, || {
            let (p, n, says) = (socket.process, socket.node, words::says(&message.says));
            format!("p{p} -> n{n}  #{number} on {connection}: {says}")
        });
        if asks && takes_one(&mut link.repeats) {
            self.happened(FaultKind::RequestRepeated);
            let again = message.clone();
            self.at(at, move |world| world.arrives(again, false));
        }
        self.at(at, move |world| world.arrives(message, false));
    }

    fn arrives(self: &Arc<Self>, message: Message, stray: bool) {
        let now = self.executor.now();
        let mut network = self.network();
        let Network { connections, nodes, dice, .. } = &mut *network;
        let Some(socket) = connections.get(&message.connection) else { return };
        let node = &mut nodes[socket.node];
        if socket.run != node.run {
            return;
        }
        if socket.broken && !stray {
            if dice.percent(40) {
                let late = Duration::from_micros(dice.within(1_000..1_500_000));
                self.happened(FaultKind::RequestStrayed);
                self.after(late, move |world| world.arrives(message, true));
            }
            return;
        }
        if !node.up {
            drop(network);
            return self.goes_back(message.connection, Letter::Closed);
        }
        if node.paused {
            node.backlog.push_back((message, stray));
            return;
        }
        drop(network);
        self.serve(message, stray, now);
    }

    /// Resumes a paused node, which then serves its backlog.
    pub(crate) fn catches_up(self: &Arc<Self>, node: usize) {
        let now = self.executor.now();
        let mut network = self.network();
        network.nodes[node].paused = false;
        let backlog = std::mem::take(&mut network.nodes[node].backlog);
        drop(network);
        for (message, stray) in backlog {
            self.serve(message, stray, now);
        }
    }

    fn serve(self: &Arc<Self>, message: Message, stray: bool, now: u64) {
        let mut network = self.network();
        let Network { connections, nodes, .. } = &mut *network;
        let Some(socket) = connections.get(&message.connection) else { return };
        let number = socket.node;
        let node = &mut nodes[number];
        let channel = channel_of(message.connection);
        let mut told = Vec::new();
        let mut answers = Vec::new();
        match message.says {
            Says::Hello if stray || socket.broken => return,
            Says::Hello => {
                node.listening.insert(channel);
            }
            Says::Bye => {
                node.listening.remove(&channel);
                return;
            }
            Says::Ask(requests) => {
                for request in requests {
                    let (answer, pushes) = node.serve(request, now);
                    answers.push(answer);
                    told.extend(pushes);
                }
            }
        }
        let reply = Reply { stamp: node.stamp(now), answers };
        self.trace.say(now, || {
            let late = if stray { "stray " } else { "" };
            format!(
                "n{number} serves  {late}#{}: {}{}",
                message.number,
                words::answers(&reply.answers),
                words::pushes(&told)
            )
        });
        self.watch().look_at(number, node, now);
        told.retain(|push| push.to.as_ref().is_some_and(|to| node.listening.contains(to)));
        drop(network);
        for push in told {
            let to = push.to.as_ref().and_then(|to| to.as_bytes().try_into().ok()).map(u64::from_be_bytes);
            if let Some(connection) = to {
                self.goes_back(connection, Letter::Push(push));
            }
        }
        self.goes_back(message.connection, Letter::Reply(message.number, reply));
    }

    fn goes_back(&self, connection: u64, letter: Letter) {
        let now = self.executor.now();
        let mut network = self.network();
        let Network { connections, links, dice, .. } = &mut *network;
        let Some(socket) = connections.get_mut(&connection).filter(|socket| socket.open && !socket.broken)
        else {
            return;
        };
        let link = &mut links[socket.process][socket.node];
        let (count, kind) = match letter {
            Letter::Push(_) => (&mut link.loses_pushes, FaultKind::PushLost),
            _ => (&mut link.loses_replies, FaultKind::ReplyLost),
        };
        if takes_one(count) {
            self.happened(kind);
            self.trace.say(now, || format!("lost      {letter:?}"));
            return;
        }
        if link.cut_off.is_some() || link.deaf {
            socket.torn = true;
        }
        if socket.torn {
            return;
        }
        let at = (now + link.delay(dice)).max(socket.last_to_process + 1);
        socket.last_to_process = at;
        self.at(at, move |world| world.comes_back(connection, letter));
    }

    pub(crate) fn comes_back(&self, connection: u64, letter: Letter) {
        let mut network = self.network();
        let Some(socket) = network.connections.get_mut(&connection) else { return };
        if !socket.open || socket.broken && !matches!(letter, Letter::Closed) {
            return;
        }
        socket.inbox.push_back(letter);
        let reader = socket.reader.take();
        drop(network);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Waits for the next message that the process reads from a connection.
    pub(crate) async fn reads(&self, connection: u64) -> Letter {
        poll_fn(|context| {
            let mut network = self.network();
            let Some(socket) = network.connections.get_mut(&connection).filter(|socket| socket.open) else {
                return Poll::Ready(Letter::Closed);
            };
            match socket.inbox.pop_front() {
                Some(letter) => Poll::Ready(letter),
                None => {
                    socket.reader = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Passes a reply to its caller.
    pub(crate) fn hands_out(&self, connection: u64, number: u64, reply: Reply) {
        let mut network = self.network();
        let call = network.connections.get_mut(&connection).and_then(|socket| socket.calls.remove(&number));
        drop(network);
        if let Some(call) = call {
            // The caller may be gone.
            let _ = call.send(reply);
        }
    }
}
