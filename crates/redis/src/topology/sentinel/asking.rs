//! Requests to one sentinel.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, FaultCause};
use leasehold_credentials::Password;
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, RedisConnectionInfo, RedisError, ServerError, Value, cmd,
    from_redis_value_ref,
};

use super::{ASKED_FOR, SentinelReply, Sentinels};
use crate::address::server::ServerAddr;
use crate::connection::dial::{ANSWERS_WITHIN, Watched, complaint, dial};
use crate::connection::send::driven;
use crate::fault::of_login;

/// The permissions that a user of a sentinel needs. `docs/wire.md` has the complete line.
pub(crate) const ALLOWED: &str =
    "&+switch-master +sentinel|get-master-addr-by-name +sentinel|masters +subscribe +unsubscribe";

/// The limit of the domain name system.
const LONGEST_HOST: usize = 253;

/// The most names of masters in an error.
const SHOWN: usize = 10;

impl Sentinels {
    /// Asks one sentinel, on a separate connection, because that is rare.
    pub(super) async fn reply_of(&self, nth: usize) -> Result<SentinelReply, Fault> {
        let asked = self.addrs.len().div_ceil(2);
        let share = ASKED_FOR / u32::try_from(asked).unwrap_or(u32::MAX);
        self.speak(&self.addrs[nth], share, |connection| self.converse(connection)).await
    }

    /// An exchange with one sentinel within a limit, on a connection of its own.
    pub(super) async fn speak<T, Exchange: Future<Output = Result<T, Fault>>>(
        &self,
        addr: &ServerAddr,
        limit: Duration,
        converse: impl FnOnce(MultiplexedConnection) -> Exchange,
    ) -> Result<T, Fault> {
        let exchange = async {
            let stream = dial(addr, self.access.tls.as_ref(), &self.faults, &*self.runtime, limit).await?;
            let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
            let login = RedisConnectionInfo::default().set_skip_set_lib_name();
            let stream = Watched::on(stream, Arc::default(), Arc::clone(&self.runtime));
            let made = MultiplexedConnection::new_with_config(&login, stream, config).await;
            let (connection, driver) = made.map_err(|error| self.broken(error))?;
            let word = driven(converse(connection), driver).await;
            let closed = || self.faults.passing("it closed the connection").caused_by(FaultCause::Connection);
            match word.unwrap_or_else(|| Err(closed())) {
                Err(fault) if !fault.is_lasting() => {
                    let tls = self.access.tls.as_ref();
                    let complaint = complaint(addr, tls, &self.faults, &*self.runtime).await;
                    Err(complaint.unwrap_or_else(|| of_login(fault, tls.is_none())))
                }
                word => word,
            }
        };
        let said = self.runtime.within(limit, exchange).await;
        let hint = match self.access.tls {
            Some(_) => "; a sentinel without TLS never answers a rediss+sentinel: URL",
            None => "",
        };
        said.unwrap_or_else(|| Err(self.faults.timed_out(format_args!("no answer within {limit:?}{hint}"))))
    }

    async fn converse(&self, mut connection: MultiplexedConnection) -> Result<SentinelReply, Fault> {
        let by_name = cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&self.master).take();
        match self.answer_to(by_name, &mut connection).await? {
            Value::Nil => {
                let masters = cmd("SENTINEL").arg("MASTERS").take();
                let masters = connection.req_packed_command(&masters).await;
                // Only to list the known names in the error.
                Ok(SentinelReply::Unknown(masters.map(|masters| names_of(&masters)).unwrap_or_default()))
            }
            answer => place_of(&answer)
                .map(SentinelReply::Master)
                .ok_or_else(|| self.faults.lasting("its answer names no server: is this a sentinel?")),
        }
    }

    /// Logs in and asks, in one round trip.
    pub(super) async fn answer_to(
        &self,
        asked: Cmd,
        connection: &mut MultiplexedConnection,
    ) -> Result<Value, Fault> {
        let mut question = Pipeline::new();
        if let Some(password) = self.password()? {
            question.add_command(self.access.auth(&password));
        }
        question.add_command(asked);
        let count = question.len();
        let answers = connection.req_packed_commands(&question, 0, count).await;
        let mut answers = answers.map_err(|error| self.broken(error))?;
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                return Err(self.refused(error));
            }
        }
        answers.pop().ok_or_else(|| self.faults.passing("it gave no answer"))
    }

    /// A subscription to its reports of failovers.
    pub(super) async fn listen(&self, nth: usize) -> Result<PubSub, Fault> {
        let password = self.password()?;
        let login = self.access.login(password.as_ref());
        let (addr, tls) = (&self.addrs[nth], self.access.tls.as_ref());
        let stream = dial(addr, tls, &self.faults, &*self.runtime, ANSWERS_WITHIN).await?;
        let mut connection = PubSub::new(&login, stream).await.map_err(|error| self.broken(error))?;
        connection.subscribe("+switch-master").await.map_err(|error| self.broken(error))?;
        Ok(connection)
    }

    /// A reason why there is none begins with the parameter that names the file.
    fn password(&self) -> Result<Option<Password>, Fault> {
        self.access.password().map_err(|reason| self.faults.lasting(format_args!("sentinel-{reason}")))
    }

    fn broken(&self, error: RedisError) -> Fault {
        match ServerError::try_from(error) {
            Ok(refusal) => self.refused(&refusal),
            Err(error) => self.faults.of_connection(&error),
        }
    }

    fn refused(&self, error: &ServerError) -> Fault {
        let user = self.access.user.as_deref().unwrap_or("default").escape_debug();
        let says = |words| error.details().is_some_and(|details| details.contains(words));
        match error.code() {
            "NOAUTH" => self.faults.lasting(
                "it asks for a password: add sentinel-password-file, and sentinel-user if it has users, to the URL",
            ),
            "WRONGPASS" => self.faults.lasting(format_args!(
                "it refuses user {user} or its password: check sentinel-user and its password in the URL against its ACL"
            )),
            "NOPERM" => self.faults.lasting(format_args!("user {user} may not ask it: allow it {ALLOWED}")),
            _ if says("without any password configured") => {
                self.faults.lasting("it has no password: leave the one for the sentinels out of the URL")
            }
            _ if says("unknown command") => self.faults.lasting(
                "it is not a sentinel: name the sentinels' ports (26379 by default) and not the servers'",
            ),
            _ => self.faults.of_refusal(error),
        }
    }
}

fn place_of(answer: &Value) -> Option<ServerAddr> {
    let (host, port): (String, u16) = from_redis_value_ref(answer).ok()?;
    if host.is_empty() || host.len() > LONGEST_HOST || host.contains(char::is_control) {
        return None;
    }
    Some(ServerAddr::Tcp { host, port })
}

fn names_of(masters: &Value) -> Vec<String> {
    let Value::Array(masters) = masters else { return Vec::new() };
    let name = |master| {
        let name = fields_of(master)?.remove("name")?;
        Some(String::from_utf8_lossy(&name[..name.len().min(LONGEST_HOST)]).escape_debug().to_string())
    };
    masters.iter().filter_map(name).take(SHOWN).collect()
}

/// The fields of a master, which are a list: name, value, name, value.
pub(super) fn fields_of(master: &Value) -> Option<HashMap<String, Vec<u8>>> {
    from_redis_value_ref(master).ok()
}
