//! From an address to a connection that has logged in and knows the server's time.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_core::{Channel, Fault, Runtime};
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub};
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use redis::{
    AsyncConnectionConfig, Cmd, Pipeline, ProtocolVersion, RedisConnectionInfo, RedisError, ServerError,
    Value, cmd,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::address::{Address, Place, Protocol};
use crate::clock::Reading;
use crate::deadline::within;
use crate::ear::{Answered, Subscription, Tell, reader};
use crate::fault::Faults;
use crate::native::{DeleteIfEqual, probed, probes};
use crate::script;

/// Beyond a few round trips and a resend of the first packet, which the kernel does after one second.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Calls have limits of their own; this only lets the kernel drop what nobody calls on any more.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// Requests that may be on their way to the socket before a caller waits for room.
const QUEUE: usize = 1024;

/// Makes connections to one address.
#[derive(Debug)]
pub(crate) struct Connector {
    address: Address,
    faults: Faults,
    /// The server refused RESP3 once; it is not asked again.
    resp2: AtomicBool,
}

/// What reads and writes for a connection; it must be run for as long as that is to live.
pub(crate) type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection that has logged in.
pub(crate) struct Connected {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) driver: Driver,
    pub(crate) reading: Reading,
    pub(crate) answered: Arc<Answered>,
    /// What the server has to delete a key that still has a certain value.
    pub(crate) delete_if_equal: Option<DeleteIfEqual>,
    /// Whether the server can push on it beside its answers.
    pub(crate) hears: bool,
}

trait Stream: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}
type BoxStream = Pin<Box<dyn Stream>>;

impl Connector {
    pub(crate) fn new(address: Address, faults: Faults) -> Self {
        let resp2 = AtomicBool::new(address.protocol == Protocol::Resp2);
        Self { address, faults, resp2 }
    }

    pub(crate) async fn connect(&self, runtime: &Arc<dyn Runtime>, tell: &Tell) -> Result<Connected, Fault> {
        let resp2 = self.resp2.load(Ordering::Relaxed);
        match self.speak(runtime, tell, resp2).await {
            Err(Failed::Refused(error)) if !resp2 && self.may_lack_resp3(&error) => {
                let connected = self.speak(runtime, tell, true).await;
                let connected = connected.map_err(|failed| self.fault(&failed))?;
                self.resp2.store(true, Ordering::Relaxed);
                Ok(connected)
            }
            connected => connected.map_err(|failed| self.fault(&failed)),
        }
    }

    /// Whether RESP2 is worth trying after this answer to `HELLO`. A wrong password stays wrong.
    fn may_lack_resp3(&self, error: &ServerError) -> bool {
        let other = ["WRONGPASS", "NOAUTH", "NOPERM", "LOADING", "MASTERDOWN", "BUSY"];
        self.address.protocol == Protocol::Either && !other.contains(&error.code())
    }

    fn fault(&self, failed: &Failed) -> Fault {
        match failed {
            Failed::Fault(fault) => fault.clone(),
            Failed::Broken(error) => self.faults.of_connection(error),
            Failed::Refused(error) => self.faults.of_refusal(error),
        }
    }

    async fn speak(&self, runtime: &Arc<dyn Runtime>, tell: &Tell, resp2: bool) -> Result<Connected, Failed> {
        let Address { user, db, .. } = &self.address;
        let password = self.password();
        // RESP3 logs in with its first word, which redis-rs says. The rest is said here, to hear the server's own refusals.
        let mut login = RedisConnectionInfo::default().set_skip_set_lib_name();
        let mut greeting = Pipeline::new();
        if !resp2 {
            login = self.login(login.set_protocol(ProtocolVersion::RESP3));
        } else if let Some(password) = password {
            greeting.add_command(
                user.iter().fold(cmd("AUTH"), |mut auth, user| auth.arg(user).take()).arg(password).take(),
            );
        }
        if *db != 0 {
            greeting.add_command(cmd("SELECT").arg(*db).take());
        }
        greeting.add_command(Cmd::new().arg("TIME").take());
        let asked = greeting.len();
        for probe in probes() {
            greeting.add_command(probe);
        }

        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE);
        let answered = Arc::new(Answered::default());
        if !resp2 {
            config = config.set_push_sender(reader(Arc::clone(&answered), Arc::clone(tell)));
        }
        let stream = self.stream(runtime).await?;
        let made = MultiplexedConnection::new_with_config(&login, stream, config).await;
        let (mut connection, driver) = made.map_err(Failed::of)?;
        let mut driver: Driver = Box::pin(driver);

        let sent = runtime.now();
        let count = greeting.len();
        let answers = tokio::select! {
            biased;
            answers = connection.req_packed_commands(&greeting, 0, count) => answers.map_err(Failed::of)?,
            () = &mut driver => return Err(Failed::Broken(closed())),
        };
        let heard = runtime.now();
        let (answers, of_probes) = answers.split_at(asked.min(answers.len()));
        for answer in answers {
            if let Value::ServerError(error) = answer {
                return Err(Failed::Refused(error.clone()));
            }
        }
        let Some(server) = answers.last().and_then(script::time_of) else {
            return Err(Failed::Fault(
                self.faults.lasting("the answer to TIME is no time: this is no Redis server"),
            ));
        };
        answered.note(sent);
        let reading = Reading { sent, heard, server };
        let delete_if_equal = probed(of_probes);
        Ok(Connected { connection, driver, reading, answered, delete_if_equal, hears: !resp2 })
    }

    /// A user without a password is one that needs none; the protocol wants a word all the same.
    fn password(&self) -> Option<&str> {
        let Address { user, password, .. } = &self.address;
        password.as_ref().map(|password| &*password.0).or(user.as_ref().map(|_| ""))
    }

    fn login(&self, login: RedisConnectionInfo) -> RedisConnectionInfo {
        let login = self.address.user.iter().fold(login, RedisConnectionInfo::set_username);
        self.password().iter().fold(login, RedisConnectionInfo::set_password)
    }

    /// One more connection, to hear on: whoever has subscribed in RESP2 can ask nothing else there.
    pub(crate) async fn listen(
        &self,
        runtime: &Arc<dyn Runtime>,
        channel: &Channel,
    ) -> Result<Subscription, Fault> {
        let listening = async {
            let login = self.login(RedisConnectionInfo::default().set_skip_set_lib_name());
            let stream = self.stream(runtime).await?;
            let mut connection = PubSub::new(&login, stream).await.map_err(Failed::of)?;
            let since = runtime.now();
            connection.subscribe(channel.as_bytes()).await.map_err(Failed::of)?;
            let (sink, stream) = connection.split();
            Ok(Subscription { sink, stream, since })
        };
        listening.await.map_err(|failed| self.fault(&failed))
    }

    async fn stream(&self, runtime: &Arc<dyn Runtime>) -> Result<BoxStream, Failed> {
        match &self.address.place {
            Place::Tcp { host, port } => Ok(Box::pin(self.tcp(host, *port, runtime).await?)),
            #[cfg(feature = "tls")]
            Place::Tls { host, port, authority } => {
                let lasting = |reason| Failed::Fault(self.faults.lasting(reason));
                let connector = crate::tls::connector(authority.as_deref()).map_err(lasting)?;
                let name = crate::tls::server_name(host).map_err(lasting)?;
                let stream = self.tcp(host, *port, runtime).await?;
                match connector.connect(name, stream).await {
                    Ok(stream) => Ok(Box::pin(stream)),
                    Err(error) => Err(Failed::Fault(match crate::tls::cause(&error) {
                        Some(cause) => self.faults.lasting(cause),
                        None => self.faults.of_socket(&error),
                    })),
                }
            }
            #[cfg(not(feature = "tls"))]
            Place::Tls { .. } => {
                Err(Failed::Fault(self.faults.lasting("this program was built without TLS")))
            }
            Place::Unix { path } => match UnixStream::connect(path).await {
                Ok(stream) => Ok(Box::pin(stream)),
                Err(error) => Err(Failed::Fault(self.faults.of_socket(&error))),
            },
        }
    }

    /// The first address of the host that takes us. One that swallows everything must not use up the time of the others.
    async fn tcp(&self, host: &str, port: u16, runtime: &Arc<dyn Runtime>) -> Result<TcpStream, Failed> {
        let mut last = self.faults.passing(format_args!("{host} has no address"));
        let found = tokio::net::lookup_host((host, port)).await;
        let found: Vec<_> = match found {
            Ok(found) => found.collect(),
            Err(error) => {
                return Err(Failed::Fault(
                    self.faults.passing(format_args!("cannot look up {host}: {error}")),
                ));
            }
        };
        let share = CONNECT_LIMIT / u32::try_from(found.len().max(1)).unwrap_or(u32::MAX);
        for address in found {
            let connected = async {
                let stream = TcpStream::connect(address).await?;
                stream.set_nodelay(true)?;
                let socket = SockRef::from(&stream);
                socket.set_tcp_keepalive(
                    &TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL),
                )?;
                #[cfg(target_os = "linux")]
                socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
                Ok(stream)
            };
            match within(&**runtime, share, connected).await {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => last = self.faults.of_socket(&error),
                None => {
                    last = self.faults.passing(format_args!("cannot connect: no answer within {share:?}"));
                }
            }
        }
        Err(Failed::Fault(last))
    }
}

/// Why there is no connection.
enum Failed {
    Fault(Fault),
    Broken(RedisError),
    Refused(ServerError),
}

impl Failed {
    fn of(error: RedisError) -> Self {
        match ServerError::try_from(error) {
            Ok(refusal) => Self::Refused(refusal),
            // redis-rs takes the server's words away where it does not know HELLO, and then alone.
            Err(error) if error.kind() == redis::ErrorKind::RESP3NotSupported => Self::Refused(
                ServerError::try_from(redis::make_extension_error(
                    "ERR".into(),
                    Some("unknown command 'HELLO'".into()),
                ))
                .unwrap_or_else(|_| unreachable!("an extension error is a server's")),
            ),
            Err(error) => Self::Broken(error),
        }
    }
}

fn closed() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()
}
