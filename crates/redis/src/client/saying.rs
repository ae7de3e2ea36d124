//! Sends a call and sorts its outcome: an answer, a refusal, silence, or the end of the connection.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{ConnectionId, Fault, Instant, Key};
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, ServerError, Value, cmd};

use super::{BoxConnection, Client, Source};
use crate::clock::ServerClock;
use crate::deadline::within;
use crate::fault::{is_of_a_script, is_wrong_type, leads_astray, of_a_script, of_wrong_type};
use crate::link::Live;
use crate::script::{Call, is_unknown_script};
use crate::topology::cluster::{Redirect, say_all, say_one};

/// The connection of a call.
pub(crate) struct Route {
    connection: Option<BoxConnection>,
    pub(super) clock: Arc<ServerClock>,
    pub(crate) live: Option<Arc<Live>>,
    /// Whether a node of a cluster is asked for keys of a slot that it does not own yet.
    pub(crate) asks: bool,
    /// Redirects that a node of a cluster returned instead of answers, by the number of the call.
    pub(crate) redirects: Vec<(usize, Redirect)>,
}

impl Route {
    /// A route on our own connection.
    pub(super) fn on(live: Arc<Live>) -> Self {
        let clock = Arc::clone(&live.clock);
        Self { connection: None, clock, live: Some(live), asks: false, redirects: Vec::new() }
    }

    /// A route on the program's own connection.
    pub(super) const fn on_lent(connection: BoxConnection, clock: Arc<ServerClock>) -> Self {
        Self { connection: Some(connection), clock, live: None, asks: false, redirects: Vec::new() }
    }

    pub(crate) fn connection(&mut self) -> &mut (dyn ConnectionLike + Send + Sync) {
        let live = &self.live;
        let ours = || -> BoxConnection {
            let live = live.as_ref().unwrap_or_else(|| unreachable!("what was lent is there"));
            Box::new(live.connection.clone())
        };
        &mut **self.connection.get_or_insert_with(ours)
    }

    pub(crate) fn id(&self) -> Option<ConnectionId> {
        self.live.as_ref().map(|live| live.id)
    }
}

/// The server's answer; if it refused, the request was not executed.
pub(crate) type Heard = Result<Value, ServerError>;

impl Client {
    pub(crate) async fn call(&self, route: &mut Route, call: &Call, limit: Duration) -> Result<Heard, Fault> {
        let sent = self.runtime.now();
        let (asks, connection) = (route.asks, route.connection());
        let saying = async {
            match say_one(connection, asks, &call.by_sha()).await {
                Ok(Err(error)) if is_unknown_script(&error) => {
                    // Once for each script and server.
                    Box::pin(async { say_one(connection, asks, &call.by_text()).await }).await
                }
                said => said,
            }
        };
        let said = within(&*self.runtime, limit, pin!(saying)).await;
        let heard = self.heard(route, sent, said, limit)?;
        match heard {
            Err(error) => Ok(Err(Box::pin(self.located(route, call, error)).await)),
            heard => Ok(heard),
        }
    }

    /// The same refusal, with the key at which a script found data that is not ours: whoever
    /// repairs it must know where it is.
    async fn located(&self, route: &mut Route, call: &Call, error: ServerError) -> ServerError {
        if is_wrong_type(&error) {
            let sides: Vec<_> = call.keys.iter().filter_map(|name| Some((name, looks_at(name)?))).collect();
            let (asks, connection) = (route.asks, route.connection());
            let looking = say_all(connection, asks, sides.iter().map(|(_, look)| look.clone()));
            let seen = within(&*self.runtime, self.call_limit, looking).await;
            let seen = seen.and_then(Result::ok).unwrap_or_default();
            let wrong = |heard: &Heard| heard.as_ref().is_err_and(is_wrong_type);
            let wrong = sides.iter().zip(&seen).find(|(_, heard)| wrong(heard));
            return wrong.map_or(error, |((name, _), _)| of_wrong_type(name));
        }
        if is_of_a_script(&error) {
            let line = call.keys.iter().find(|name| kind_of(name) == Some(b'l'));
            return line.map_or_else(|| error.clone(), |line| of_a_script(line, &error));
        }
        error
    }

    pub(crate) async fn call_all(
        &self,
        route: &mut Route,
        calls: &[Call],
        limit: Duration,
    ) -> Result<Vec<Heard>, Fault> {
        let sent = self.runtime.now();
        let (asks, connection) = (route.asks, route.connection());
        let saying = async {
            let mut said = say_all(connection, asks, calls.iter().map(Call::by_sha)).await?;
            let unknown = |heard: &Heard| heard.as_ref().is_err_and(is_unknown_script);
            let again: Vec<_> = (0..said.len()).filter(|&nth| unknown(&said[nth])).collect();
            if !again.is_empty() {
                let by_text = again.iter().map(|&nth| calls[nth].by_text());
                for (nth, heard) in again.iter().zip(say_all(connection, asks, by_text).await?) {
                    said[*nth] = heard;
                }
            }
            Ok(said)
        };
        let said = within(&*self.runtime, limit, saying).await;
        let heard = self.sorted(route.live.as_ref(), sent, said, limit)?;
        if heard.len() != calls.len() {
            return Err(self.faults.passing("the server gave fewer answers than it was asked"));
        }
        for (nth, heard) in heard.iter().enumerate() {
            heard.as_ref().err().into_iter().for_each(|refusal| self.note_refusal(route, nth, refusal));
        }
        let mut located = Vec::with_capacity(heard.len());
        for (heard, call) in heard.into_iter().zip(calls) {
            located.push(match heard {
                Err(error) => Err(Box::pin(self.located(route, call, error)).await),
                heard => heard,
            });
        }
        Ok(located)
    }

    /// Handles what a refusal says about the connection and about the location of the key.
    pub(crate) fn note_refusal(&self, route: &mut Route, nth: usize, refusal: &ServerError) {
        if leads_astray(refusal) {
            self.drop_connection(route.live.as_ref());
        }
        if self.cluster.is_some()
            && let Some(redirect) = Redirect::of(refusal)
        {
            route.redirects.push((nth, redirect));
        }
    }

    /// Sorts the outcome of a call with a time limit, and drops a connection that is of no use any
    /// more.
    pub(crate) fn heard(
        &self,
        route: &mut Route,
        sent: Instant,
        said: Option<Result<Heard, RedisError>>,
        limit: Duration,
    ) -> Result<Heard, Fault> {
        let heard = self.sorted(route.live.as_ref(), sent, said, limit)?;
        heard.as_ref().err().into_iter().for_each(|refusal| self.note_refusal(route, 0, refusal));
        Ok(heard)
    }

    /// The same for any command and answer.
    pub(crate) fn sorted<T>(
        &self,
        live: Option<&Arc<Live>>,
        sent: Instant,
        said: Option<Result<T, RedisError>>,
        limit: Duration,
    ) -> Result<T, Fault> {
        match said {
            None => {
                if let (Source::Ours(link), Some(live)) = (&self.source, live) {
                    link.drop_if_silent_since(sent, live);
                }
                Err(self.faults.timed_out(format_args!("no answer within {limit:?}")))
            }
            Some(Err(error)) => {
                self.drop_connection(live);
                Err(self.faults.of_connection(&error))
            }
            Some(Ok(heard)) => {
                live.into_iter().for_each(|live| live.answered.note(sent));
                Ok(heard)
            }
        }
    }

    pub(crate) fn drop_connection(&self, live: Option<&Arc<Live>>) {
        if let (Source::Ours(link), Some(live)) = (&self.source, live) {
            link.drop_connection(live);
        }
    }
}

/// The kind of a script's key, if it is a side key: the letter after the prefix.
fn kind_of(name: &[u8]) -> Option<u8> {
    name.strip_prefix(Key::RESERVED.as_bytes())?.first().copied()
}

/// A command that finds out whether a side key has its type. Every user that may lock may run
/// these.
fn looks_at(name: &[u8]) -> Option<Cmd> {
    let mut look = match kind_of(name)? {
        b'f' | b'm' | b'b' => cmd("GET"),
        b'l' | b'h' => cmd("ZCARD"),
        b'w' | b'i' => cmd("HGET"),
        _ => return None,
    };
    look.arg(name);
    if matches!(kind_of(name)?, b'w' | b'i') {
        look.arg("n");
    }
    Some(look)
}

pub(crate) async fn one(
    connection: &mut (dyn ConnectionLike + Send + Sync),
    command: &Cmd,
) -> Result<Heard, RedisError> {
    match connection.req_packed_command(command).await {
        Ok(Value::ServerError(error)) => Ok(Err(error)),
        Ok(value) => Ok(Ok(value)),
        Err(error) => ServerError::try_from(error).map(Err),
    }
}

pub(crate) async fn several(
    connection: &mut (dyn ConnectionLike + Send + Sync),
    commands: impl ExactSizeIterator<Item = Cmd>,
) -> Result<Vec<Heard>, RedisError> {
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
