//! Creates a connection to an address, logs in, and reads the server's time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Channel, Fault, Reading, Runtime, Stamp};
use leasehold_credentials::Password;
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisError, ServerError,
    Value, cmd,
};

use crate::address::access::{Access, Channels, Protocol};
use crate::address::server::ServerAddr;
use crate::connection::dial::{ANSWERS_WITHIN, BoxStream, CONNECT_LIMIT, Latest, Watched, complaint, dial};
use crate::connection::send::{driven, unanswered};
use crate::connection::subscription::{OnPush, Subscription, reader};
use crate::fault::{Faults, of_login, refusal};
use crate::reply::{is_master, time_of};

/// The number of requests that may be on their way to the socket before a caller waits for room.
const QUEUE: usize = 1024;

/// Connecting may take as long as this many calls. So the first connection to a distant server
/// fits, and a renewal of a short TTL is not delayed for longer than its lease.
pub(crate) const CALLS_TO_CONNECT: u32 = 5;

/// Creates connections to the servers that a topology names.
#[derive(Debug)]
pub(crate) struct Connector {
    /// True if a server must prove that it is a master, because only sentinels say so.
    pub(crate) minds_roles: bool,
    access: Access,
    faults: Faults,
    runtime: Arc<dyn Runtime>,
    /// The server refused RESP3 once, and is not asked for it again.
    resp2: AtomicBool,
}

/// The task that reads and writes for a connection; it must run as long as the connection is used.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection that has logged in.
pub(crate) struct Connected {
    pub(crate) addr: ServerAddr,
    pub(crate) connection: MultiplexedConnection,
    pub(crate) driver: Driver,
    pub(crate) reading: Reading,
    pub(crate) answered: Arc<Latest>,
    pub(crate) last_read: Arc<Latest>,
    pub(crate) has_push: bool,
}

impl Connector {
    pub(crate) fn new(minds_roles: bool, access: Access, faults: Faults, runtime: Arc<dyn Runtime>) -> Self {
        let resp2 = AtomicBool::new(access.protocol == Protocol::Resp2);
        Self { minds_roles, access, faults, runtime, resp2 }
    }

    pub(crate) async fn connect_to(&self, addr: &ServerAddr, tell: &OnPush) -> Result<Connected, Fault> {
        let resp2 = self.resp2.load(Ordering::Relaxed);
        let mut connected = self.speak(addr, tell, resp2).await;
        if let Err(Failed::Refused(error)) = &connected
            && !resp2
            && self.may_lack_resp3(error)
        {
            connected = self.speak(addr, tell, true).await;
            self.resp2.fetch_or(connected.is_ok(), Ordering::Relaxed);
        }
        match connected {
            Ok(connected) => Ok(connected),
            Err(failed) => Err(self.fault(failed, addr).await),
        }
    }

    /// Returns true if RESP2 is worth trying after this answer to `HELLO`. A wrong password stays
    /// wrong, and a server that is full says nothing about RESP3.
    fn may_lack_resp3(&self, error: &ServerError) -> bool {
        let other = ["WRONGPASS", "NOAUTH", "NOPERM", "LOADING", "MASTERDOWN", "BUSY", "DENIED"];
        let is_full = error.details().is_some_and(|details| details.contains("max number of clients"));
        self.access.protocol == Protocol::Either && !other.contains(&error.code()) && !is_full
    }

    /// The time of the server at this place, whatever its role.
    pub(crate) async fn time_at(&self, place: &str) -> Result<Stamp, Fault> {
        let strange = || self.faults.lasting(format_args!("{place} is not an address"));
        let (host, port) = place.rsplit_once(':').ok_or_else(strange)?;
        let addr = ServerAddr::Tcp { host: host.into(), port: port.parse().map_err(|_| strange())? };
        let (access, faults, runtime) = (self.access.clone(), self.faults.clone(), Arc::clone(&self.runtime));
        let tell: OnPush = Arc::new(|_, _, _| {});
        let any_role = Self::new(false, access, faults, runtime);
        let connected = self.runtime.within(CONNECT_LIMIT, any_role.connect_to(&addr, &tell)).await;
        Ok(connected.unwrap_or_else(|| Err(self.no_connection(CONNECT_LIMIT)))?.reading.server)
    }

    async fn fault(&self, failed: Failed, addr: &ServerAddr) -> Fault {
        match failed {
            Failed::Fault(fault) => fault,
            Failed::Broken(error) => {
                let tls = self.access.tls.as_ref();
                let complaint = complaint(addr, tls, &self.faults, &*self.runtime).await;
                let is_plain = tls.is_none() && addr.is_tcp();
                complaint.unwrap_or_else(|| of_login(self.faults.of_connection(&error), is_plain))
            }
            Failed::Refused(error) => self.faults.of_refusal(&error),
        }
    }

    /// The fault of a connection that was not made within this time.
    pub(crate) fn no_connection(&self, limit: Duration) -> Fault {
        let hint = match self.access.tls {
            Some(_) => "; a server without TLS never answers a rediss: URL, use redis: for it",
            None => "",
        };
        self.faults.timed_out(format_args!("no connection within {limit:?}{hint}"))
    }

    pub(crate) const fn channels(&self) -> &Channels {
        &self.access.channels
    }

    async fn speak(&self, addr: &ServerAddr, tell: &OnPush, resp2: bool) -> Result<Connected, Failed> {
        let db = self.access.db;
        let password = self.password()?;
        // With RESP3, redis-rs sends the login in its first command. The other commands are sent
        // here, to get the server's own refusals.
        let mut login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let mut greeting = Pipeline::new();
        if !resp2 {
            login = self.access.login(password.as_ref()).set_protocol(ProtocolVersion::RESP3);
        } else if let Some(password) = &password {
            greeting.add_command(self.access.auth(password));
        }
        if db != 0 {
            greeting.add_command(cmd("SELECT").arg(db).take());
        }
        if self.minds_roles {
            greeting.add_command(cmd("ROLE"));
        }
        greeting.add_command(Cmd::new().arg("TIME").take());

        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let answered = Arc::new(Latest::default());
        if !resp2 {
            config = config.set_push_sender(reader(Arc::clone(&answered), Arc::clone(tell)));
        }
        let last_read = Arc::new(Latest::default());
        let stream = Watched::on(self.dial(addr).await?, Arc::clone(&last_read), Arc::clone(&self.runtime));
        let made = MultiplexedConnection::new_with_config(&login, stream, config).await;
        let (mut connection, driver) = made.map_err(Failed::of)?;
        let mut driver: Driver = Box::pin(driver);

        let sent = self.runtime.now();
        let count = greeting.len();
        let greeted = driven(connection.req_packed_commands(&greeting, 0, count), &mut driver).await;
        let answers = greeted.unwrap_or_else(|| Err(unanswered())).map_err(Failed::of)?;
        let heard = self.runtime.now();
        for answer in &answers {
            if let Value::ServerError(error) = answer {
                return Err(Failed::Refused(error.clone()));
            }
        }
        let Some(server) = answers.last().and_then(time_of) else {
            return Err(Failed::Fault(self.faults.unexpected("TIME")));
        };
        let role = answers.len().checked_sub(2).filter(|_| self.minds_roles);
        if role.is_some_and(|role| is_master(&answers[role]) != Some(true)) {
            let why = "the server is a replica, and no master (any more, or yet)";
            return Err(Failed::Fault(self.faults.passing(why)));
        }
        answered.note(sent);
        let reading = Reading { sent, heard, server };
        Ok(Connected {
            addr: addr.clone(),
            connection,
            driver,
            reading,
            answered,
            last_read,
            has_push: !resp2,
        })
    }

    fn password(&self) -> Result<Option<Password>, Failed> {
        self.access.password().map_err(|reason| Failed::Fault(self.faults.lasting(reason)))
    }

    /// Opens a second connection for pushes, because a RESP2 connection with a subscription cannot
    /// send other commands.
    pub(crate) async fn listen(&self, addr: &ServerAddr, channel: &Channel) -> Result<Subscription, Fault> {
        let listening = async {
            let login = self.access.login(self.password()?.as_ref());
            let stream = self.dial(addr).await?;
            let mut connection = PubSub::new(&login, stream).await.map_err(Failed::of)?;
            let since = self.runtime.now();
            connection.subscribe(channel.as_bytes()).await.map_err(Failed::of)?;
            // If the user may not subscribe to this, the next renewal finds out instead.
            let _ = connection.subscribe(self.channels().broken()).await;
            let (sink, stream) = connection.split();
            Ok(Subscription { sink, stream, since })
        };
        match listening.await {
            Ok(subscription) => Ok(subscription),
            Err(failed) => Err(self.fault(failed, addr).await),
        }
    }

    async fn dial(&self, addr: &ServerAddr) -> Result<BoxStream, Failed> {
        let limit = if self.minds_roles { ANSWERS_WITHIN } else { CONNECT_LIMIT };
        dial(addr, self.access.tls.as_ref(), &self.faults, &*self.runtime, limit).await.map_err(Failed::Fault)
    }
}

enum Failed {
    Fault(Fault),
    Broken(RedisError),
    Refused(ServerError),
}

impl Failed {
    fn of(error: RedisError) -> Self {
        match ServerError::try_from(error) {
            Ok(refusal) => Self::Refused(refusal),
            // redis-rs drops the server's message only if the server does not know HELLO.
            Err(error) if error.kind() == redis::ErrorKind::RESP3NotSupported => {
                Self::Refused(refusal("ERR", "unknown command 'HELLO'".into()))
            }
            Err(error) => Self::Broken(error),
        }
    }
}
