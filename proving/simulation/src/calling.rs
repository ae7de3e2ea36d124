//! A process's shared connection to a node: opened when needed, dropped when a call on it fails.

use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Answer, Fault, Proof, Push, Reading, Request, Runtime as _};
use tokio::sync::{oneshot, watch};

use crate::connection::{Connection, ConnectionState};
use crate::message::{Letter, Reply, Says};
use crate::store::{CONNECT, NodeStore};

impl NodeStore {
    /// Returns the open connection, or opens one.
    pub(crate) async fn connection(&self, limit: Duration) -> Result<Arc<Connection>, Fault> {
        let mut opening = match &mut *self.connection_state() {
            ConnectionState::Up(connection) => return Ok(connection.clone()),
            ConnectionState::Opening(opening) => opening.clone(),
            state @ ConnectionState::Down => {
                let (opened, opening) = watch::channel(None);
                *state = ConnectionState::Opening(opening.clone());
                if let Some(this) = self.this.upgrade() {
                    self.machine.spawn(Box::pin(async move { this.opens(&opened).await }));
                }
                opening
            }
        };
        let end = self.machine.sleep_until(self.machine.now() + limit);
        tokio::select! {
            biased;
            opened = opening.wait_for(Option::is_some) => match opened.as_deref() {
                Ok(Some(opened)) => opened.clone(),
                _ => Err(self.fault("the connecting task ended")),
            },
            () = end => Err(self.fault("no connection in time")),
        }
    }

    async fn opens(self: Arc<Self>, opened: &watch::Sender<Option<Result<Arc<Connection>, Fault>>>) {
        let number = self.world.connect(self.machine.number, self.node);
        let reader = self.clone();
        self.machine.spawn(Box::pin(async move { reader.read(number).await }));
        let sent = self.machine.now();
        let made = match self.say(number, Says::Hello, CONNECT).await {
            Ok(Reply { stamp: server, .. }) => {
                let reading = Reading { sent, heard: self.machine.now(), server };
                Ok(Arc::new(Connection::new(number, reading)))
            }
            Err(fault) => {
                self.world.closes(number);
                Err(fault)
            }
        };
        *self.connection_state() =
            made.as_ref().map_or(ConnectionState::Down, |connection| ConnectionState::Up(connection.clone()));
        opened.send_replace(Some(made));
        // Pushes on the previous connection may be lost, so every waiter asks again.
        self.waiting.ask_for_all();
    }

    /// Reads replies and pushes from a connection, in order.
    async fn read(self: Arc<Self>, number: u64) {
        loop {
            match self.world.reads(number).await {
                Letter::Reply(call, reply) => self.world.hands_out(number, call, reply),
                Letter::Push(push) => self.hears(number, push),
                Letter::Closed => {
                    self.drops(number);
                    return;
                }
            }
        }
    }

    fn hears(&self, number: u64, push: Push) {
        let connection = match &*self.connection_state() {
            ConnectionState::Up(connection) if connection.number == number => connection.clone(),
            _ => return,
        };
        let proof = push.to.zip(push.nonce).map(|(channel, nonce)| Proof { channel, nonce });
        let (since, now) = (connection.since().sent, self.machine.now());
        self.waiting.hears(push.holder, push.event, proof.as_ref(), since, now);
    }

    /// Closes a connection, and forgets it unless another has replaced it.
    fn drops(&self, number: u64) {
        {
            let mut connection = self.connection_state();
            if matches!(&*connection, ConnectionState::Up(up) if up.number == number) {
                *connection = ConnectionState::Down;
            }
        }
        self.world.closes(number);
    }

    async fn say(&self, number: u64, says: Says, limit: Duration) -> Result<Reply, Fault> {
        let (tell, told) = oneshot::channel();
        let end = self.machine.sleep_until(self.machine.now() + limit);
        self.world.send(number, says, Some(tell));
        tokio::select! {
            biased;
            reply = told => reply.map_err(|_| self.fault("the connection broke")),
            () = end => Err(self.fault("no answer in time")),
        }
    }

    /// Makes one round trip. A connection on which an answer is missing is dropped.
    pub(crate) async fn call(
        &self,
        connection: &Connection,
        requests: Vec<Request>,
        limit: Duration,
    ) -> Result<Vec<Answer>, Fault> {
        let sent = self.machine.now();
        match self.say(connection.number, Says::Ask(requests), limit).await {
            Ok(Reply { stamp: server, answers }) => {
                let reading = Reading { sent, heard: self.machine.now(), server };
                connection.learns(reading);
                Ok(answers)
            }
            Err(fault) => {
                self.drops(connection.number);
                Err(fault)
            }
        }
    }

    pub(crate) async fn call_one(
        &self,
        connection: &Connection,
        request: Request,
        limit: Duration,
    ) -> Result<Answer, Fault> {
        let answer = self.call(connection, vec![request], limit).await?.pop();
        answer.ok_or_else(|| self.fault("an answer is missing"))
    }
}
