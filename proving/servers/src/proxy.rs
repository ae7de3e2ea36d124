//! A network that fails on request.

use std::{
    collections::HashMap,
    io::{self, Read},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{SendFlags, send},
};

use crate::Server;

/// A server accepts at once unless its backlog is full; then the client is disconnected.
const CONNECTS_WITHIN: Duration = Duration::from_secs(1);

/// A proxy that disturbs a connection on request; dropping it closes all connections.
///
/// As a black hole, it accepts and keeps connections, but passes nothing, not even an end or a
/// reset. While it is mute, only the client's bytes pass: requests are executed, their answers
/// lost. [`heal`](Self::heal) delivers what was sent meanwhile, as TCP would. It can also delay
/// everything, and cut a connection in the middle of a request or an answer. When a call returns,
/// no byte passes that should not.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    gate: Arc<Gate>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// A proxy in front of this server; it survives the server's restarts.
    #[track_caller]
    pub fn before(server: &Server) -> Self {
        Self::to_port(server.port())
    }

    /// A proxy in front of a port of 127.0.0.1, whether or not anything listens there.
    #[track_caller]
    pub fn to_port(upstream: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("127.0.0.1 has a free port");
        let port = listener.local_addr().expect("a listener has an address").port();
        let gate = Arc::new(Gate::default());
        let acceptor = thread::spawn({
            let gate = Arc::clone(&gate);
            move || accept(&listener, &gate, upstream)
        });
        Self { port, gate, acceptor: Some(acceptor) }
    }

    /// The port on 127.0.0.1 to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:PORT` of the proxy.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Drops everything from now on.
    pub fn black_hole(&self) {
        self.gate.state().shut = [true; 2];
    }

    /// Drops everything that the server sends from now on.
    pub fn mute(&self) {
        self.gate.state().shut = [false, true];
        self.gate.changed.notify_all();
    }

    /// Delays everything by this time from now on, in both directions.
    pub fn slow_down(&self, by: Duration) {
        self.gate.state().delay = by;
    }

    /// Passes the first half of the client's next bytes, and then closes that connection.
    pub fn break_off_request(&self) {
        self.gate.state().breaks_off = Some(Towards::Server);
    }

    /// Passes the first half of the server's next bytes, and then closes that connection.
    pub fn break_off_answer(&self) {
        self.gate.state().breaks_off = Some(Towards::Client);
    }

    /// True if a requested cut has not happened yet.
    pub fn is_to_break_off(&self) -> bool {
        self.gate.state().breaks_off.is_some()
    }

    /// Passes everything again, complete and without delay.
    pub fn heal(&self) {
        let mut state = self.gate.state();
        (state.shut, state.delay, state.breaks_off) = ([false; 2], Duration::ZERO, None);
        drop(state);
        self.gate.changed.notify_all();
    }

    /// Closes all connections, on both sides. New ones are treated as before.
    pub fn cut(&self) {
        self.gate.cut_all();
    }

    /// The number of connections whose last bytes were the client's: an answer is pending.
    pub fn unanswered(&self) -> usize {
        self.gate.state().links.values().filter(|link| link.unanswered).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.gate.state().closing = true;
        self.gate.cut_all();
        // The acceptor blocks in `accept`; a connection wakes it.
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

/// The state that every thread of the proxy checks before it does anything visible from outside.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// True for each direction in which nothing passes, by [`Towards`].
    shut: [bool; 2],
    delay: Duration,
    /// The direction in which the next bytes are cut off in the middle.
    breaks_off: Option<Towards>,
    closing: bool,
    made: u64,
    /// Each connection that has not been cut.
    links: HashMap<u64, Link>,
}

#[derive(Debug)]
struct Link {
    /// The client's socket, and the server's once it is connected.
    ends: Vec<Arc<TcpStream>>,
    unanswered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Towards {
    Server,
    Client,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, State> {
        // No thread panics halfway through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while the gate is shut. `None` if the connection was cut.
    fn open_for(&self, link: u64, towards: Towards) -> Option<MutexGuard<'_, State>> {
        let waits = |state: &mut State| state.shut[towards as usize] && state.links.contains_key(&link);
        let state = self.changed.wait_while(self.state(), waits).unwrap_or_else(PoisonError::into_inner);
        state.links.contains_key(&link).then_some(state)
    }

    /// Waits for the delay, unless it is removed earlier or the connection is cut.
    fn linger(&self, link: u64) {
        let state = self.state();
        let delay = state.delay;
        let waits = |state: &mut State| !state.delay.is_zero() && state.links.contains_key(&link);
        drop(self.changed.wait_timeout_while(state, delay, waits));
    }

    /// Passes `bytes` on; false if the connection is cut or broken.
    fn pass(&self, link: u64, towards: Towards, to: &TcpStream, mut bytes: &[u8]) -> bool {
        self.linger(link);
        // Half of one byte is nothing, which would be a plain cut.
        let breaks_off = bytes.len() > 1 && self.state().breaks_off.take_if(|so| *so == towards).is_some();
        if breaks_off {
            bytes = &bytes[..bytes.len() / 2];
        }
        while !bytes.is_empty() {
            let Some(mut open) = self.open_for(link, towards) else { return false };
            // The lock keeps the gate open between check and write, so the write must not block.
            match send(to, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(sent) => {
                    bytes = &bytes[sent..];
                    if let Some(link) = open.links.get_mut(&link) {
                        link.unanswered = towards == Towards::Server;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {
                    drop(open);
                    thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return false,
            }
        }
        !breaks_off
    }

    /// A new connection; `None` if the proxy is closing.
    fn admit(&self, client: Arc<TcpStream>) -> Option<u64> {
        let mut state = self.state();
        if state.closing {
            return None;
        }
        state.made += 1;
        let link = state.made;
        state.links.insert(link, Link { ends: vec![client], unanswered: false });
        Some(link)
    }

    /// Adds the server's socket, to be cut, too; false if the connection is cut already.
    fn join(&self, link: u64, server: Arc<TcpStream>) -> bool {
        match self.state().links.get_mut(&link) {
            Some(link) => {
                link.ends.push(server);
                true
            }
            None => false,
        }
    }

    fn cut(&self, link: u64) {
        let link = self.state().links.remove(&link);
        shut_down(link.into_iter().flat_map(|link| link.ends));
        self.changed.notify_all();
    }

    fn cut_all(&self) {
        let links: Vec<_> = self.state().links.drain().collect();
        shut_down(links.into_iter().flat_map(|(_, link)| link.ends));
        self.changed.notify_all();
    }
}

/// Wakes the threads that read from these sockets, and tells the other side.
fn shut_down(ends: impl Iterator<Item = Arc<TcpStream>>) {
    for end in ends {
        // Fails if the other side closed first, which has the same effect.
        let _ = end.shutdown(Shutdown::Both);
    }
}

fn accept(listener: &TcpListener, gate: &Gate, upstream: u16) {
    // The scope waits for all connections' threads, so the proxy has ended when this thread has.
    thread::scope(|scope| {
        for client in listener.incoming() {
            let Ok(client) = client else { continue };
            let client = Arc::new(client);
            match gate.admit(Arc::clone(&client)) {
                Some(link) => drop(scope.spawn(move || serve(gate, link, &client, upstream))),
                None => return,
            }
        }
    });
}

fn serve(gate: &Gate, link: u64, client: &TcpStream, upstream: u16) {
    // Not connected through a black hole: the server would notice the client.
    if gate.open_for(link, Towards::Server).is_some()
        && let Ok(server) = reach(upstream).map(Arc::new)
        && gate.join(link, Arc::clone(&server))
    {
        // Without this, a test would measure Nagle's algorithm.
        let _ = client.set_nodelay(true);
        thread::scope(|scope| {
            scope.spawn(|| pump(gate, link, Towards::Server, client, &server));
            pump(gate, link, Towards::Client, &server, client);
        });
    }
    gate.cut(link);
}

fn reach(upstream: u16) -> io::Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, upstream));
    let server = TcpStream::connect_timeout(&address, CONNECTS_WITHIN)?;
    server.set_nodelay(true)?;
    Ok(server)
}

fn pump(gate: &Gate, link: u64, towards: Towards, mut from: &TcpStream, to: &TcpStream) {
    let mut chunk = [0; 16 * 1024];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => {
                if let Some(_open) = gate.open_for(link, towards) {
                    // Only this direction has ended; an answer may still be on its way back.
                    let _ = to.shutdown(Shutdown::Write);
                }
                return;
            }
            Ok(read) => {
                if !gate.pass(link, towards, to, &chunk[..read]) {
                    return gate.cut(link);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => {
                // A reset must not pass a black hole either.
                drop(gate.open_for(link, towards));
                return gate.cut(link);
            }
        }
    }
}
