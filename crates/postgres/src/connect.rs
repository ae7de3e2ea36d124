//! Opens a connection to an address and logs in.

use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use leasehold_core::{Fault, FaultCause, Runtime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::oneshot;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};

use crate::address::{Address, ServerAddr};
use crate::fault::Faults;
use crate::tls::Rustls;

/// Longer than a few round trips and one resend of the first packet, which the kernel does after
/// one second.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// The time for each of several hosts: one that hangs must not use up the time of the others.
const EACH_LIMIT: Duration = Duration::from_secs(1);

/// Calls have their own limits; this only lets the kernel close connections that nobody uses any
/// more.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// Receives the name of a channel, and a message on it.
pub(crate) type OnNotification = Arc<dyn Fn(&str, &str) + Send + Sync>;

type Driver = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An open connection; it is closed when it is dropped.
pub(crate) struct Live {
    pub(crate) client: Client,
    /// Ends the task that reads and writes for it.
    _end: oneshot::Sender<()>,
}

/// Connects to the first host that will do, each within a time limit, and starts the task that
/// reads and writes for the connection.
pub(crate) async fn connect(
    address: &Address,
    faults: &Faults,
    runtime: &Arc<dyn Runtime>,
    tell: Option<OnNotification>,
) -> Result<Live, Fault> {
    let limit = if address.server_addrs.len() > 1 { EACH_LIMIT } else { CONNECT_LIMIT };
    let mut failed = Vec::new();
    for server_addr in &address.server_addrs {
        let late = || Err(faults.timed_out(format_args!("no connection within {limit:?}")));
        let reached = Box::pin(reach(address, server_addr, faults, runtime, &tell, limit));
        let answer = runtime.within(limit, reached).await;
        match answer.unwrap_or_else(late) {
            Ok((client, driver)) => return Ok(Live { client, _end: start(runtime, driver) }),
            Err(fault) => failed.push((server_addr, fault)),
        }
    }
    Err(fault_of(failed, faults))
}

/// The fault if no host will do: that of the only one, or what is wrong with each. It passes if that of
/// one of them may pass.
fn fault_of(failed: Vec<(&ServerAddr, Fault)>, faults: &Faults) -> Fault {
    let passing = failed.iter().rev().find(|(_, fault)| !fault.is_lasting());
    let Some((_, mut fault)) = passing.or(failed.last()).cloned() else {
        return faults.lasting("the store URL names no host");
    };
    if failed.iter().all(|(_, other)| other.reason == fault.reason) {
        return fault;
    }
    let each = failed.iter().map(|(host, fault)| format!("{}: {}", host.written(), fault.reason));
    let reason = each.collect::<Vec<_>>().join("; ");
    fault.reason = reason.into();
    fault
}

/// Starts the task that reads and writes for a connection. It ends with the returned value.
fn start(runtime: &Arc<dyn Runtime>, driver: Driver) -> oneshot::Sender<()> {
    let (end, ended) = oneshot::channel::<()>();
    runtime.spawn(Box::pin(async move {
        tokio::select! {
            () = driver => {}
            _ = ended => {}
        }
    }));
    end
}

/// Connects to the first address of a host that will do. One that does not answer must not use up the
/// time of the others.
async fn reach(
    address: &Address,
    server_addr: &ServerAddr,
    faults: &Faults,
    runtime: &Arc<dyn Runtime>,
    tell: &Option<OnNotification>,
    limit: Duration,
) -> Result<(Client, Driver), Fault> {
    let mut addresses = Vec::new();
    if let ServerAddr::Tcp { host, port } = server_addr {
        // The client library reports a failure.
        let found = tokio::net::lookup_host((&**host, *port)).await;
        addresses.extend(found.into_iter().flatten().map(|found| Some(found.ip())));
    }
    if addresses.is_empty() {
        addresses.push(None);
    }
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX);
    let mut last = Err(faults.passing("the host has no address"));
    for ip in addresses {
        let late = || Err(faults.timed_out(format_args!("no connection within {share:?}")));
        let spoken = Box::pin(speak(address, server_addr, ip, faults, tell.clone()));
        last = runtime.within(share, spoken).await.unwrap_or_else(late);
        if last.is_ok() {
            break;
        }
    }
    last
}

async fn speak(
    address: &Address,
    server_addr: &ServerAddr,
    ip: Option<IpAddr>,
    faults: &Faults,
    tell: Option<OnNotification>,
) -> Result<(Client, Driver), Fault> {
    let mut config = config(address, server_addr, faults)?;
    if let Some(ip) = ip {
        config.hostaddr(ip);
    }
    match &address.tls {
        None => {
            let (client, connection) =
                config.connect(NoTls).await.map_err(|error| faults.of_error(&error))?;
            Ok((client, drive(connection, tell)))
        }
        Some(tls) => {
            let lasting = |reason| faults.lasting(reason).caused_by(FaultCause::Tls);
            let tls = Rustls::new(tls).map_err(lasting)?;
            let (client, connection) = config.connect(tls).await.map_err(|error| faults.of_error(&error))?;
            Ok((client, drive(connection, tell)))
        }
    }
}

fn config(address: &Address, server_addr: &ServerAddr, faults: &Faults) -> Result<Config, Fault> {
    let mut config = Config::new();
    match server_addr {
        ServerAddr::Tcp { host, port } => config.host(host).port(*port),
        #[cfg(unix)]
        ServerAddr::Unix { directory, port } => config.host_path(directory).port(*port),
        #[cfg(not(unix))]
        ServerAddr::Unix { .. } => {
            return Err(faults.lasting("this system has no Unix sockets: use postgres://HOST/DATABASE"));
        }
    };
    config
        .application_name("leasehold")
        .keepalives_idle(KEEPALIVE_IDLE)
        .keepalives_interval(KEEPALIVE_INTERVAL)
        .tcp_user_timeout(UNACKNOWLEDGED)
        .ssl_mode(if address.tls.is_some() { SslMode::Require } else { SslMode::Disable })
        .target_session_attrs(if address.read_write {
            TargetSessionAttrs::ReadWrite
        } else {
            TargetSessionAttrs::Any
        });
    if let Some(user) = &address.user {
        config.user(user);
    }
    if let Some(database) = &address.database {
        config.dbname(database);
    }
    if let Some(secret) = &address.password {
        config.password(secret.password().map_err(|reason| faults.lasting(reason))?.0);
    }
    Ok(config)
}

fn drive<S, T>(mut connection: Connection<S, T>, tell: Option<OnNotification>) -> Driver
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    Box::pin(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let (AsyncMessage::Notification(said), Some(tell)) = (message, &tell) {
                tell(said.channel(), said.payload());
            }
        }
    })
}
