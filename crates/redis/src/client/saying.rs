//! How a call goes out, and what may come of that: an answer, a refusal, silence, or the end of the connection.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, Instant};
use redis::aio::ConnectionLike;
use redis::{Cmd, Pipeline, RedisError, ServerError, ServerErrorKind, Value};

use super::{BoxConnection, Client, Source};
use crate::clock::ServerClock;
use crate::deadline::within;
use crate::fault::leads_astray;
use crate::link::Live;
use crate::script::Call;
use crate::settle::ConnectionId;
use crate::topology::cluster::{Redirect, say_all, say_one};

/// What a call goes out on.
pub(crate) struct Route {
    pub(super) connection: BoxConnection,
    pub(super) clock: Arc<ServerClock>,
    pub(crate) live: Option<Arc<Live>>,
    /// Whether a node of a cluster is asked for keys of a slot that it does not own yet.
    pub(crate) asks: bool,
    /// What else a node of a cluster said instead of answers, by the number of the call.
    pub(crate) redirects: Vec<(usize, Redirect)>,
}

impl Route {
    pub(crate) const fn new(
        connection: BoxConnection,
        clock: Arc<ServerClock>,
        live: Option<Arc<Live>>,
    ) -> Self {
        Self { connection, clock, live, asks: false, redirects: Vec::new() }
    }

    pub(crate) fn connection(&mut self) -> &mut (dyn ConnectionLike + Send + Sync) {
        &mut *self.connection
    }

    pub(crate) fn id(&self) -> Option<ConnectionId> {
        self.live.as_ref().map(|live| live.id)
    }

    /// What was sent at this instant has been answered.
    fn answered(&self, sent: Instant) {
        if let Some(live) = &self.live {
            live.answered.note(sent);
        }
    }
}

/// What the server said; if it refused, then what was asked was not done.
pub(crate) type Heard = Result<Value, ServerError>;

impl Client {
    pub(crate) async fn call(&self, route: &mut Route, call: &Call, limit: Duration) -> Result<Heard, Fault> {
        let sent = self.runtime.now();
        let (connection, asks) = (&mut *route.connection, route.asks);
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
        self.heard(route, sent, said, limit)
    }

    pub(crate) async fn call_all(
        &self,
        route: &mut Route,
        calls: &[Call],
        limit: Duration,
    ) -> Result<Vec<Heard>, Fault> {
        let sent = self.runtime.now();
        let (connection, asks) = (&mut *route.connection, route.asks);
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
        let heard = match said {
            None => return Err(self.silent(route, sent, limit)),
            Some(Err(error)) => return Err(self.broken(route, &error)),
            Some(Ok(heard)) if heard.len() == calls.len() => heard,
            Some(Ok(_)) => {
                return Err(self.faults.passing("the server gave fewer answers than it was asked"));
            }
        };
        route.answered(sent);
        if heard.iter().any(|heard| heard.as_ref().is_err_and(leads_astray)) {
            self.drop_connection(route);
        }
        for (nth, heard) in heard.iter().enumerate() {
            self.note_redirect(route, nth, heard);
        }
        Ok(heard)
    }

    fn note_redirect(&self, route: &mut Route, nth: usize, heard: &Heard) {
        let Some(redirect) = heard.as_ref().err().and_then(Redirect::of) else { return };
        if self.cluster.is_some() {
            route.redirects.push((nth, redirect));
        }
    }

    /// Sorts what came of saying something within a limit, and drops the connection where it is of no use any more.
    pub(crate) fn heard(
        &self,
        route: &mut Route,
        sent: Instant,
        said: Option<Result<Heard, RedisError>>,
        limit: Duration,
    ) -> Result<Heard, Fault> {
        match said {
            None => Err(self.silent(route, sent, limit)),
            Some(Err(error)) => Err(self.broken(route, &error)),
            Some(Ok(heard)) => {
                route.answered(sent);
                if heard.as_ref().is_err_and(leads_astray) {
                    self.drop_connection(route);
                }
                self.note_redirect(route, 0, &heard);
                Ok(heard)
            }
        }
    }

    /// There was no answer to what was sent at an instant.
    pub(super) fn silent(&self, route: &Route, sent: Instant, limit: Duration) -> Fault {
        if let (Source::Ours(link), Some(live)) = (&self.source, &route.live) {
            link.drop_if_silent_since(sent, live);
        }
        self.faults.passing(format_args!("no answer within {limit:?}"))
    }

    pub(super) fn broken(&self, route: &Route, error: &RedisError) -> Fault {
        self.drop_connection(route);
        self.faults.of_connection(error)
    }

    fn drop_connection(&self, route: &Route) {
        if let (Source::Ours(link), Some(live)) = (&self.source, &route.live) {
            link.drop_connection(live);
        }
    }
}

fn is_unknown_script(error: &ServerError) -> bool {
    error.kind() == Some(ServerErrorKind::NoScript)
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
