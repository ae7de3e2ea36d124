//! A client of the fred crate as a connection: it takes commands and returns answers in the form of
//! redis-rs. Commands, answers and faults are the same for both libraries.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::{Client, WithOptions};
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike as _;
use fred::types::config::Options;
use fred::types::{ClusterHash, CustomCommand, Resp3Frame, Value as Word};
use futures_util::future::join_all;
use leasehold_core::{Runtime, StoreFuture};
use redis::aio::ConnectionLike;
use redis::{Arg, Cmd, Pipeline, RedisError, RedisFuture, Value, VerbatimFormat};
use tokio::sync::oneshot;

use super::lent::Lend;
use super::route::BoxConnection;

pub(crate) struct LentFred {
    pub(crate) client: Client,
    pub(crate) runtime: Arc<dyn Runtime>,
}

impl Lend for LentFred {
    fn connection(&self, limit: Duration) -> StoreFuture<'_, BoxConnection> {
        let connection = ByFred::new(&self.client, limit, Arc::clone(&self.runtime));
        Box::pin(std::future::ready(Ok(Box::new(connection) as _)))
    }
}

struct ByFred {
    client: WithOptions<Client>,
    runtime: Arc<dyn Runtime>,
}

impl ByFred {
    /// For calls with this time limit.
    ///
    /// By default, fred resends commands that were unanswered when a connection broke, and keeps
    /// commands that it cannot send until it can. Ours are sent at most once, within the limit.
    fn new(client: &Client, limit: Duration, runtime: Arc<dyn Runtime>) -> Self {
        let once = Options {
            // Zero attempts would mean the number in the client's configuration; the same holds for
            // redirects.
            max_attempts: Some(1),
            max_redirections: Some(1),
            timeout: Some(limit),
            fail_fast: true,
            ..Options::default()
        };
        Self { client: client.with_options(&once), runtime }
    }

    /// One answer for each command.
    ///
    /// fred also sends commands that nobody waits for any more, unless their limit has passed, and
    /// it notices that only while somebody waits. So a task waits, even if the caller does not.
    fn say(&self, commands: Vec<(CustomCommand, Vec<Word>)>) -> RedisFuture<'static, Vec<Value>> {
        let (client, runtime) = (self.client.clone(), Arc::clone(&self.runtime));
        Box::pin(async move {
            let (tell, heard) = oneshot::channel();
            runtime.spawn(Box::pin(async move {
                // In this order, on one connection, before the first answer.
                let saying = commands.into_iter().map(|(name, words)| client.custom_raw(name, words));
                let _ = tell.send(join_all(saying).await);
            }));
            let ended = |_| io::Error::other("the async runtime has ended");
            let heard = heard.await.map_err(ended)?.into_iter();
            heard.map(|frame| answer(frame.map_err(|error| broken(&error))?)).collect()
        })
    }
}

impl ConnectionLike for ByFred {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        let said = self.say(vec![words(command)]);
        Box::pin(async move { Ok(said.await?.pop().unwrap_or_default()) })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        let said = self.say(pipeline.cmd_iter().map(words).collect());
        Box::pin(async move { Ok(said.await?.into_iter().skip(offset).take(count).collect()) })
    }

    fn get_db(&self) -> i64 {
        self.client.client_config().database.unwrap_or_default().into()
    }
}

fn words(command: &Cmd) -> (CustomCommand, Vec<Word>) {
    let mut words = command.args_iter().map(|word| match word {
        Arg::Simple(word) => word,
        _ => b"0",
    });
    let name = String::from_utf8_lossy(words.next().unwrap_or_default()).into_owned();
    let words = words.map(|word| Word::Bytes(word.to_vec().into())).collect();
    (CustomCommand::new(name, ClusterHash::FirstKey, false), words)
}

/// fred returns everything in the form of RESP3, whichever protocol it uses with the server.
fn answer(frame: Resp3Frame) -> Result<Value, RedisError> {
    let several = |frames: Vec<_>| frames.into_iter().map(answer).collect::<Result<Vec<_>, _>>();
    Ok(match frame {
        Resp3Frame::Null => Value::Nil,
        Resp3Frame::Number { data, .. } => Value::Int(data),
        Resp3Frame::BlobString { data, .. } => Value::BulkString(data.to_vec()),
        Resp3Frame::SimpleString { data, .. } if *data == *b"OK" => Value::Okay,
        Resp3Frame::SimpleString { data, .. } => {
            Value::SimpleString(String::from_utf8_lossy(&data).into_owned())
        }
        Resp3Frame::SimpleError { data, .. } => refusal(data.as_bytes())?,
        Resp3Frame::BlobError { data, .. } => refusal(&data)?,
        Resp3Frame::Array { data, .. } => Value::Array(several(data)?),
        Resp3Frame::Set { data, .. } => Value::Set(several(data.into_iter().collect())?),
        Resp3Frame::Map { data, .. } => {
            let pair = |(name, value)| Ok((answer(name)?, answer(value)?));
            Value::Map(data.into_iter().map(pair).collect::<Result<_, RedisError>>()?)
        }
        Resp3Frame::Double { data, .. } => Value::Double(data),
        Resp3Frame::Boolean { data, .. } => Value::Boolean(data),
        Resp3Frame::VerbatimString { data, .. } => Value::VerbatimString {
            format: VerbatimFormat::Text,
            text: String::from_utf8_lossy(&data).into_owned(),
        },
        _ => {
            return Err((
                redis::ErrorKind::Parse,
                "fred gave an answer of a kind that no command of ours has",
            )
                .into());
        }
    })
}

/// Reads an error line as redis-rs does.
fn refusal(line: &[u8]) -> Result<Value, RedisError> {
    let line = line.iter().map(|&byte| if byte.is_ascii_control() { b' ' } else { byte });
    redis::parse_redis_value(&b"-".iter().copied().chain(line).chain(*b"\r\n").collect::<Vec<_>>())
}

/// A fault between fred and the server; the command may have been executed.
///
/// For most errors only the kind and the server's code are reported. They include errors of logins,
/// and some servers repeat the login there, with the password.
fn broken(error: &Error) -> RedisError {
    let told = match error.kind() {
        ErrorKind::Timeout => return io::Error::from(io::ErrorKind::TimedOut).into(),
        ErrorKind::IO | ErrorKind::Backpressure => error.details().to_owned(),
        ErrorKind::Canceled => {
            "the fred client has no connection now; one that never had must be started first, by `init`"
                .to_owned()
        }
        kind => {
            let code = error.details().split(' ').next().unwrap_or_default();
            let is_code = !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase());
            format!("fred: {}{}", kind.to_str(), if is_code { format!(" ({code})") } else { String::new() })
        }
    };
    io::Error::other(told).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_that_a_server_repeats_is_not_shown() {
        let line = "ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `web`, `s3cret`,";
        for kind in
            [ErrorKind::Unknown, ErrorKind::Auth, ErrorKind::Protocol, ErrorKind::Config, ErrorKind::Url]
        {
            let told = broken(&Error::new(kind, line)).to_string();
            assert!(told.contains("(ERR)") && !told.contains("s3cret") && !told.contains("web"), "{told}");
        }
        let told = broken(&Error::new(ErrorKind::Unknown, "s3cret")).to_string();
        assert_eq!(told, "fred: Unknown Error");
    }

    #[test]
    fn a_refusal_has_the_code_and_the_words_that_the_server_gave_it() {
        let frame =
            Resp3Frame::SimpleError { data: "NOSCRIPT No\r\nmatching script".into(), attributes: None };
        let Ok(Value::ServerError(error)) = answer(frame) else { panic!() };
        assert_eq!(error.kind(), Some(redis::ServerErrorKind::NoScript));
        assert_eq!(error.details(), Some("No  matching script"));
    }
}
