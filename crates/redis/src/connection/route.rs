//! The connection of one request, and commands on it. A refusal by the server is an answer, and not a
//! failure of the connection.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use leasehold_core::ConnectionId;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, Pipeline, RedisError, ServerError, Value, cmd};

use super::link::{Endpoint, Live};
use crate::redirect::Redirect;

pub(crate) type BoxConnection = Box<dyn ConnectionLike + Send + Sync>;

/// The connection of a call.
pub(crate) struct Route {
    connection: Connection,
    /// How long an answer may take.
    pub(crate) limit: Duration,
    pub(crate) endpoint: Arc<Endpoint>,
    /// True if a node of a cluster is asked for keys of a slot that it does not own yet.
    pub(crate) asks: bool,
    /// Redirects that a node of a cluster returned instead of answers, by the number of the call.
    pub(crate) redirects: Vec<(usize, Redirect)>,
}

enum Connection {
    /// Our own connection, and the clone of it that this route uses.
    Ours(Arc<Live>, Option<MultiplexedConnection>),
    /// The program's own connection.
    Lent(BoxConnection),
}

impl Route {
    pub(crate) fn on(live: Arc<Live>, limit: Duration) -> Self {
        let endpoint = Arc::clone(&live.endpoint);
        Self::over(Connection::Ours(live, None), limit, endpoint)
    }

    pub(crate) const fn on_lent(connection: BoxConnection, limit: Duration, endpoint: Arc<Endpoint>) -> Self {
        Self::over(Connection::Lent(connection), limit, endpoint)
    }

    const fn over(connection: Connection, limit: Duration, endpoint: Arc<Endpoint>) -> Self {
        Self { connection, limit, endpoint, asks: false, redirects: Vec::new() }
    }

    pub(crate) fn connection(&mut self) -> &mut (dyn ConnectionLike + Send + Sync) {
        match &mut self.connection {
            Connection::Ours(live, cloned) => cloned.get_or_insert_with(|| live.connection.clone()),
            Connection::Lent(lent) => &mut **lent,
        }
    }

    /// `None` for the program's own connection.
    pub(crate) const fn live(&self) -> Option<&Arc<Live>> {
        match &self.connection {
            Connection::Ours(live, _) => Some(live),
            Connection::Lent(_) => None,
        }
    }

    pub(crate) fn id(&self) -> Option<ConnectionId> {
        self.live().map(|live| live.id)
    }
}

/// The server's answer; if it refused, the request was not executed.
pub(crate) type ServerReply = Result<Value, ServerError>;

pub(crate) async fn one(
    connection: &mut (dyn ConnectionLike + Send + Sync),
    command: &Cmd,
) -> Result<ServerReply, RedisError> {
    match connection.req_packed_command(command).await {
        Ok(Value::ServerError(error)) => Ok(Err(error)),
        Ok(value) => Ok(Ok(value)),
        Err(error) => ServerError::try_from(error).map(Err),
    }
}

pub(crate) async fn several(
    connection: &mut (dyn ConnectionLike + Send + Sync),
    commands: impl ExactSizeIterator<Item = Cmd>,
) -> Result<Vec<ServerReply>, RedisError> {
    let mut pipeline = Pipeline::with_capacity(commands.len());
    for command in commands {
        pipeline.add_command(command);
    }
    let values = connection.req_packed_commands(&pipeline, 0, pipeline.len()).await?;
    let heard = |value| match value {
        Value::ServerError(error) => Err(error),
        value => Ok(value),
    };
    Ok(values.into_iter().map(heard).collect())
}

/// Sends a command, with `ASKING` before it if the slot is moving. Both are sent together, because
/// `ASKING` affects only the next command on the connection.
pub(crate) async fn say_one(
    connection: &mut (dyn ConnectionLike + Send + Sync),
    asks: bool,
    command: &Cmd,
) -> Result<ServerReply, RedisError> {
    if !asks {
        return one(connection, command).await;
    }
    let heard = Box::pin(say_all(connection, true, std::iter::once(command.clone()))).await?;
    heard.into_iter().next().ok_or_else(unanswered)
}

/// The same for several commands.
pub(crate) async fn say_all(
    connection: &mut (dyn ConnectionLike + Send + Sync),
    asks: bool,
    commands: impl ExactSizeIterator<Item = Cmd>,
) -> Result<Vec<ServerReply>, RedisError> {
    if !asks {
        return several(connection, commands).await;
    }
    let said: Vec<_> = commands.flat_map(|command| [cmd("ASKING"), command]).collect();
    let mut heard = several(connection, said.into_iter()).await?.into_iter();
    let mut answers = Vec::new();
    while let (Some(asking), Some(answer)) = (heard.next(), heard.next()) {
        // A user without permission for `ASKING` would be redirected back and forth; this refusal
        // is what must be repaired.
        answers.push(asking.and(answer));
    }
    Ok(answers)
}

/// The result of an exchange on a connection that this driver serves; `None` if the connection ended
/// before. What a server says before it closes a connection counts.
pub(crate) async fn driven<T>(
    exchange: impl Future<Output = T>,
    driver: impl Future<Output = ()>,
) -> Option<T> {
    let mut exchange = pin!(exchange);
    tokio::select! {
        biased;
        done = &mut exchange => Some(done),
        () = driver => exchange.now_or_never(),
    }
}

/// The connection ended before the answer.
pub(crate) fn unanswered() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()
}
