//! Sends commands. A refusal by the server is an answer, and not a failure of the connection.

use std::pin::pin;

use futures_util::FutureExt as _;
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, ServerError, Value, cmd};

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
