//! Sends a call and sorts its outcome: an answer, a refusal, silence, or the end of the connection.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use leasehold_core::{Fault, Instant, Key, Quarantined, Reading, Stamp};
use redis::{Cmd, RedisError, ServerError, Value, cmd};

use super::{Client, Source};
use crate::connection::link::Live;
use crate::connection::route::Route;
use crate::connection::send::{ServerReply, one, say_all, say_one, several};
use crate::fault::{is_of_a_script, is_wrong_type, leads_astray, of_a_script, of_wrong_type};
use crate::redirect::Redirect;
use crate::reply::{Decoded, time_of};
use crate::script::{Call, is_unknown_script, opening_call};

impl Client {
    pub(crate) async fn call(&self, route: &mut Route, call: &Call) -> Result<ServerReply, Fault> {
        let (sent, limit) = (self.runtime.now(), route.limit);
        let (asks, connection) = (route.asks, route.connection());
        let saying = async {
            match say_one(connection, asks, call.by_sha()).await {
                Ok(Err(error)) if is_unknown_script(&error) => {
                    // Once for each script and server.
                    Box::pin(async { say_one(connection, asks, &call.by_text()).await }).await
                }
                said => said,
            }
        };
        let said = self.runtime.within(limit, pin!(saying)).await;
        let heard = self.heard(route, sent, said, limit)?;
        match heard {
            Err(error) => Ok(Err(Box::pin(self.located(route, call, error)).await)),
            heard => Ok(heard),
        }
    }

    /// The same refusal, with the key at which a script found data that is not ours: an operator
    /// must know where to repair it.
    async fn located(&self, route: &mut Route, call: &Call, error: ServerError) -> ServerError {
        if is_wrong_type(&error) {
            let sides: Vec<_> = call.keys().filter_map(|name| Some((name, looks_at(name)?))).collect();
            let (asks, connection) = (route.asks, route.connection());
            let looking = say_all(connection, asks, sides.iter().map(|(_, look)| look.clone()));
            let seen = self.runtime.within(self.call_limit, looking).await;
            let seen = seen.and_then(Result::ok).unwrap_or_default();
            let wrong = |heard: &ServerReply| heard.as_ref().is_err_and(is_wrong_type);
            let wrong = sides.iter().zip(&seen).find(|(_, heard)| wrong(heard));
            return wrong.map_or(error, |((name, _), _)| of_wrong_type(name));
        }
        if is_of_a_script(&error) {
            let queue = call.keys().find(|name| kind_of(name) == Some(b'l'));
            return queue.map_or_else(|| error.clone(), |queue| of_a_script(queue, &error));
        }
        error
    }

    pub(crate) async fn call_all(
        &self,
        route: &mut Route,
        calls: &[Call],
    ) -> Result<Vec<ServerReply>, Fault> {
        let (sent, limit) = (self.runtime.now(), route.limit);
        let (asks, connection) = (route.asks, route.connection());
        let saying = async {
            let mut said = match calls {
                [only] => vec![say_one(connection, asks, only.by_sha()).await?],
                _ => say_all(connection, asks, calls.iter().map(|call| call.by_sha().clone())).await?,
            };
            let unknown = |heard: &ServerReply| heard.as_ref().is_err_and(is_unknown_script);
            let again: Vec<_> = (0..said.len()).filter(|&nth| unknown(&said[nth])).collect();
            if !again.is_empty() {
                let by_text = again.iter().map(|&nth| calls[nth].by_text());
                for (nth, heard) in again.iter().zip(say_all(connection, asks, by_text).await?) {
                    said[*nth] = heard;
                }
            }
            Ok(said)
        };
        let said = self.runtime.within(limit, saying).await;
        let heard = self.sorted(route.live(), sent, said, limit)?;
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
            self.drop_connection(route.live());
        }
        if self.is_node()
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
        said: Option<Result<ServerReply, RedisError>>,
        limit: Duration,
    ) -> Result<ServerReply, Fault> {
        let heard = self.sorted(route.live(), sent, said, limit)?;
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
                let was_silent = live.is_some_and(|live| live.was_silent.load(Ordering::Relaxed));
                Err(match was_silent {
                    true => {
                        self.faults.timed_out("no answer: the connection was silent, and so it was closed")
                    }
                    false => self.faults.of_connection(&error),
                })
            }
            Some(Ok(heard)) => {
                live.into_iter().for_each(|live| live.answered.note(sent));
                Ok(heard)
            }
        }
    }

    /// Sends one command, within this time limit.
    pub(crate) async fn say_once(
        &self,
        route: &mut Route,
        command: &Cmd,
        limit: Duration,
    ) -> Result<ServerReply, Fault> {
        let sent = self.runtime.now();
        let said = self.runtime.within(limit, one(route.connection(), command)).await;
        self.heard(route, sent, said, limit)
    }

    /// Sends several commands at once, within the time limit of one call.
    pub(crate) async fn say(&self, route: &mut Route, commands: Vec<Cmd>) -> Result<Vec<ServerReply>, Fault> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let (limit, sent) = (route.limit, self.runtime.now());
        let count = commands.len();
        let said = self.runtime.within(limit, several(route.connection(), commands.into_iter())).await;
        let heard = self.sorted(route.live(), sent, said, limit)?;
        if heard.len() == count {
            return Ok(heard);
        }
        Err(self.faults.passing("the server gave fewer answers than it was asked"))
    }

    /// Makes a call, and decodes its answer.
    pub(crate) async fn ask<T>(
        &self,
        route: &mut Route,
        call: &Call,
        decode: impl FnOnce(Value) -> Result<Decoded<T>, String>,
    ) -> Result<T, Fault> {
        let heard = self.call(route, call).await?;
        self.read(heard, decode)
    }

    /// Decodes the answer of a script. Keys that it has not handed over yet are handed over in the
    /// background.
    pub(crate) fn read<T>(
        &self,
        heard: ServerReply,
        decode: impl FnOnce(Value) -> Result<Decoded<T>, String>,
    ) -> Result<T, Fault> {
        let (answer, unfinished) = self.read_all(heard, decode)?;
        if !unfinished.is_empty() {
            self.advance_later(unfinished);
        }
        Ok(answer)
    }

    /// The same; returns these keys.
    pub(crate) fn read_all<T>(
        &self,
        heard: ServerReply,
        decode: impl FnOnce(Value) -> Result<Decoded<T>, String>,
    ) -> Result<(T, Vec<Key>), Fault> {
        let value = heard.map_err(|error| self.faults.of_refusal(&error))?;
        let Decoded { answer, unfinished } = decode(value).map_err(|strange| self.faults.lasting(strange))?;
        match answer {
            Ok(answer) => Ok((answer, unfinished)),
            Err(Quarantined { left }) => Err(self.faults.quarantined(left)),
        }
    }

    /// Connects if necessary, and checks that scripts may be run.
    pub(crate) async fn open(&self) -> Result<(), Fault> {
        let mut route = self.any_route().await?;
        let heard = self.call(&mut route, &opening_call()).await?;
        self.time_in(heard, "a script").map(drop)
    }

    /// The server's time in its answer to such a request.
    pub(crate) fn time_in(&self, heard: ServerReply, request: &str) -> Result<Stamp, Fault> {
        let value = heard.map_err(|error| self.faults.of_refusal(&error))?;
        time_of(&value).ok_or_else(|| self.faults.unexpected(request))
    }

    /// The server's clock, known more precisely than the limit of a call, and the time on ours. If
    /// the uncertainty is greater (after some minutes without a grant, or at first on the program's
    /// own connection), the server is asked; otherwise giving up would take longer than calls do.
    pub(crate) async fn reading(&self, route: &mut Route) -> Result<(Reading, Instant), Fault> {
        let now = self.runtime.now();
        if let Some(reading) =
            route.endpoint.clock.reading().filter(|reading| reading.doubt(now) <= route.limit)
        {
            return Ok((reading, now));
        }
        let reading = Box::pin(self.read_clock(route, now)).await?;
        Ok((reading, self.runtime.now()))
    }

    pub(crate) async fn read_clock(&self, route: &mut Route, sent: Instant) -> Result<Reading, Fault> {
        let heard = self.say_once(route, &cmd("TIME"), route.limit).await?;
        let server = self.time_in(heard, "TIME")?;
        let reading = Reading { sent, heard: self.runtime.now(), server };
        route.endpoint.clock.note(reading);
        Ok(reading)
    }

    /// Drops the open connection if a request of this instant had no answer and nothing has come since.
    pub(crate) fn drop_if_silent_since(&self, sent: Instant) {
        if let Source::Ours(link) = &self.source
            && let Some(live) = link.up()
        {
            link.drop_if_silent_since(sent, &live);
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

/// A command that finds out whether a side key has its type. Every user that may lock may run it.
fn looks_at(name: &[u8]) -> Option<Cmd> {
    let mut look = match kind_of(name)? {
        b'c' | b'm' | b'b' => cmd("GET"),
        b'l' | b'h' => cmd("ZCARD"),
        b'f' | b'w' | b'i' => cmd("HGET"),
        _ => return None,
    };
    look.arg(name);
    if matches!(kind_of(name)?, b'f' | b'w' | b'i') {
        look.arg("n");
    }
    Some(look)
}
