//! Closes connections: by the process, by a cut, or because the process or the node has ended.

use std::time::Duration;

use crate::message::{Letter, Says, channel_of};
use crate::network::{Connection, Network};
use crate::world::World;

impl World {
    /// The process closes a connection. The node is told, if the message gets through.
    pub(crate) fn closes(&self, connection: u64) {
        self.send(connection, Says::Bye, None);
        let mut network = self.network();
        let Some(socket) = network.connections.get_mut(&connection) else { return };
        socket.open = false;
        let calls = std::mem::take(&mut socket.calls);
        let reader = socket.reader.take();
        drop(network);
        drop(calls);
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Breaks the connections of a process to a node. Each end notices soon, or much later.
    pub(crate) fn cuts(&self, process: usize, node: usize) {
        let mut network = self.network();
        let Network { connections, dice, .. } = &mut *network;
        for (number, socket) in connections.iter_mut() {
            if socket.process != process || socket.node != node || socket.broken || !socket.open {
                continue;
            }
            socket.broken = true;
            let (number, soon) = (*number, Duration::from_micros(dice.within(100..20_000)));
            let later = Duration::from_millis(dice.within(2_000..20_000));
            let here = if dice.percent(80) { soon } else { later };
            let there = if dice.percent(70) { soon } else { later };
            self.after(here, move |world| world.comes_back(number, Letter::Closed));
            self.after(there, move |world| {
                world.network().nodes[node].listening.remove(&channel_of(number));
            });
        }
    }

    /// Ends a process's connections to a node: soon if `politely`; else it sees them for seconds.
    pub(crate) fn abandons(&self, process: usize, node: usize, politely: bool) {
        let mut network = self.network();
        let Network { connections, dice, .. } = &mut *network;
        let mut calls = Vec::new();
        let of_it = |socket: &Connection| socket.process == process && socket.node == node && socket.open;
        for (number, socket) in connections.iter_mut().filter(|(_, socket)| of_it(socket)) {
            socket.open = false;
            calls.push(std::mem::take(&mut socket.calls));
            let range = if politely { 100..20_000 } else { 3_000_000..20_000_000 };
            let (number, later) = (*number, Duration::from_micros(dice.within(range)));
            self.after(later, move |world| {
                world.network().nodes[node].listening.remove(&channel_of(number));
            });
        }
        drop(network);
        drop(calls);
    }

    /// Breaks all connections of a node that died. The processes notice soon.
    pub(crate) fn hangs_up(&self, node: usize) {
        let mut network = self.network();
        let Network { connections, dice, .. } = &mut *network;
        for (number, socket) in
            connections.iter_mut().filter(|(_, socket)| socket.node == node && socket.open)
        {
            socket.broken = true;
            let (number, soon) = (*number, Duration::from_micros(dice.within(100..20_000)));
            self.after(soon, move |world| world.comes_back(number, Letter::Closed));
        }
    }
}
