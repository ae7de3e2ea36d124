//! Opens a stream to a server: sockets, and TLS on top of them. Tracks when something last came on it.

use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use leasehold_core::{Fault, FaultCause, Instant, Runtime};
use leasehold_credentials::Tls;
#[cfg(feature = "tls")]
use leasehold_credentials::tls::{Parameters, server_name};
use redis::io::tcp::socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::address::server::ServerAddr;
use crate::fault::Faults;

/// Longer than a few round trips and one resend of the first packet, after one second.
pub(crate) const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// A server that a sentinel names and that has not answered in this time is skipped; it may be the one
/// that failed.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// Calls have their own limits; this only lets the kernel close connections that nobody uses.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(15);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(5);
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

#[cfg(feature = "tls")]
const IN_THE_URL: Parameters = Parameters { authority: "ca", certificate: "cert", key: "key" };

/// A server that accepts us sends nothing.
const COMPLAINS_WITHIN: Duration = Duration::from_millis(250);

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}
pub(crate) type BoxStream = Pin<Box<dyn Stream>>;

/// Opens a stream. The caller stops waiting at the limit, which is shared by the addresses of the host.
pub(crate) async fn dial(
    addr: &ServerAddr,
    tls: Option<&Tls>,
    faults: &Faults,
    runtime: &dyn Runtime,
    limit: Duration,
) -> Result<BoxStream, Fault> {
    match (addr, tls) {
        (ServerAddr::Tcp { host, port }, None) => {
            Ok(Box::pin(tcp(host, *port, faults, runtime, limit).await?))
        }
        #[cfg(feature = "tls")]
        (ServerAddr::Tcp { host, port }, Some(tls)) => {
            let lasting = |reason| faults.lasting(reason).caused_by(FaultCause::Tls);
            let connector = IN_THE_URL.connector(tls, &[]).map_err(lasting)?;
            let name = server_name(host).map_err(lasting)?;
            let stream = tcp(host, *port, faults, runtime, limit).await?;
            match connector.connect(name, stream).await {
                Ok(stream) => Ok(Box::pin(stream)),
                Err(error) => Err(match IN_THE_URL.cause(&error) {
                    Some(cause) => faults.lasting(cause).caused_by(FaultCause::Tls),
                    None => faults.of_socket(&error),
                }),
            }
        }
        #[cfg(not(feature = "tls"))]
        (ServerAddr::Tcp { .. }, Some(_)) => Err(faults.lasting("this program was built without TLS")),
        (ServerAddr::Unix { path }, _) => unix(path, faults).await,
    }
}

#[cfg(unix)]
async fn unix(path: &Path, faults: &Faults) -> Result<BoxStream, Fault> {
    match tokio::net::UnixStream::connect(path).await {
        Ok(stream) => Ok(Box::pin(stream)),
        Err(error) => Err(faults.of_socket(&error)),
    }
}

#[cfg(not(unix))]
async fn unix(_: &Path, faults: &Faults) -> Result<BoxStream, Fault> {
    Err(faults.lasting("this system has no Unix sockets: use redis://HOST"))
}

/// The reason of a server that closed the connection after the TLS handshake, if it sends one.
///
/// In TLS 1.3, a server checks the client's certificate after the client has started to send. If it
/// closes the connection before it has read that data, its alert is lost; so this connection sends
/// nothing and waits for the alert.
pub(crate) async fn complaint(
    addr: &ServerAddr,
    tls: Option<&Tls>,
    faults: &Faults,
    runtime: &dyn Runtime,
) -> Option<Fault> {
    tls?;
    let mut stream = match dial(addr, tls, faults, runtime, CONNECT_LIMIT).await {
        Ok(stream) => stream,
        Err(fault) => return Some(fault).filter(Fault::is_lasting),
    };
    let mut byte = [0];
    let mut byte = ReadBuf::new(&mut byte);
    let heard = poll_fn(|context| stream.as_mut().poll_read(context, &mut byte));
    match runtime.within(COMPLAINS_WITHIN, heard).await? {
        Ok(()) => None,
        #[cfg(feature = "tls")]
        Err(error) => IN_THE_URL.cause(&error).map(|cause| faults.lasting(cause).caused_by(FaultCause::Tls)),
        #[cfg(not(feature = "tls"))]
        Err(_) => None,
    }
}

/// Connects to the first address of the host that accepts. An address that does not answer must not
/// use up the time of the others.
async fn tcp(
    host: &str,
    port: u16,
    faults: &Faults,
    runtime: &dyn Runtime,
    limit: Duration,
) -> Result<TcpStream, Fault> {
    let mut last = faults.passing(format_args!("{host} has no address"));
    let found: Vec<_> = match tokio::net::lookup_host((host, port)).await {
        Ok(found) => found.collect(),
        Err(error) => {
            let fault = faults.passing(format_args!("cannot look up {host}: {error}"));
            return Err(fault.caused_by(FaultCause::NameResolution));
        }
    };
    let share = limit / u32::try_from(found.len().max(1)).unwrap_or(u32::MAX);
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
        match runtime.within(share, connected).await {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => last = faults.of_socket(&error),
            None => last = faults.timed_out(format_args!("cannot connect: no answer within {share:?}")),
        }
    }
    Err(last)
}

/// The latest of the instants that were noted.
#[derive(Debug, Default)]
pub(crate) struct Latest(AtomicU64);

impl Latest {
    pub(crate) fn note(&self, instant: Instant) {
        // No other memory depends on it.
        self.0.fetch_max(instant.as_nanos(), Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> Instant {
        Instant::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// A stream that notes when something was read from it, even the answer to a call that nobody waits
/// for any more.
///
/// It reads nothing before something has been written. A server that is full or in protected mode says
/// so at once and closes the connection. That must be read as the answer to the first command, because
/// redis-rs drops what comes when nothing was asked.
pub(crate) struct Watched {
    stream: BoxStream,
    last_read: Arc<Latest>,
    runtime: Arc<dyn Runtime>,
    has_written: bool,
    reader: Option<Waker>,
}

impl Watched {
    pub(crate) const fn on(stream: BoxStream, last_read: Arc<Latest>, runtime: Arc<dyn Runtime>) -> Self {
        Self { stream, last_read, runtime, has_written: false, reader: None }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.has_written {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let before = into.filled().len();
        let read = self.stream.as_mut().poll_read(context, into);
        if into.filled().len() > before {
            self.last_read.note(self.runtime.now());
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.stream.as_mut().poll_write(context, bytes);
        if written.is_ready() && !self.has_written {
            self.has_written = true;
            self.reader.take().into_iter().for_each(Waker::wake);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.as_mut().poll_shutdown(context)
    }
}
