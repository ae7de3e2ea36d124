//! The proxy between a test's client and its server.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpStream},
    thread,
    time::{Duration, Instant},
};

use servers::{Connection, Flavor, Proxy, Reply, Server};

/// Long enough for a byte to cross this machine, many times over.
const A_WHILE: Duration = Duration::from_millis(200);

/// A server, and a connection to it through a proxy.
fn connected() -> (Server, Proxy, Connection) {
    let server = Server::start(Flavor::Valkey91);
    let proxy = Proxy::before(&server);
    let connection = Connection::open(proxy.port()).unwrap();
    (server, proxy, connection)
}

/// A connection on which the server has answered, and that answer.
fn answered(proxy: &Proxy) -> (TcpStream, [u8; 7]) {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    stream.set_read_timeout(Some(A_WHILE)).unwrap();
    let mut answer = [0; 7];
    stream.write_all(b"PING\r\n").unwrap();
    stream.read_exact(&mut answer).unwrap();
    (stream, answer)
}

#[test]
fn a_proxy_passes_everything_on() {
    let (_server, proxy, mut connection) = connected();
    assert_eq!(proxy.url(), format!("redis://127.0.0.1:{}", proxy.port()));
    // Far more than all buffers on the way can hold.
    let long = vec![b'x'; 8 << 20];
    assert_eq!(connection.command(&[b"SET", b"k", &long]).unwrap(), Reply::Simple("OK".into()));
    assert_eq!(connection.text(&["GET", "k"]).unwrap(), Reply::Bulk(Some(long)));
}

#[test]
fn a_black_hole_passes_nothing_and_late_when_healed() {
    let (server, proxy, mut connection) = connected();
    assert_eq!(connection.text(&["INCR", "n"]).unwrap(), Reply::Integer(1));

    proxy.black_hole();
    connection.send(&[b"INCR", b"n"]).unwrap();
    let mut newcomer = Connection::open(proxy.port()).expect("new connections are accepted");
    newcomer.send(&[b"INCR", b"n"]).unwrap();
    thread::sleep(A_WHILE);
    assert_eq!(server.text(&["GET", "n"]).as_text(), Some("1"), "a request got through");

    proxy.heal();
    let mut answers = [connection.receive().unwrap(), newcomer.receive().unwrap()].map(|n| n.as_integer());
    answers.sort();
    assert_eq!(answers, [Some(2), Some(3)]);
}

#[test]
fn a_mute_server_does_what_it_is_asked_and_its_answer_is_lost_with_the_connection() {
    let (server, proxy, mut connection) = connected();
    assert_eq!(connection.text(&["INCR", "n"]).unwrap(), Reply::Integer(1));
    assert_eq!(proxy.unanswered(), 0);

    proxy.mute();
    connection.send(&[b"INCR", b"n"]).unwrap();
    while server.text(&["GET", "n"]).as_text() != Some("2") {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(proxy.unanswered(), 1);
    proxy.cut();
    proxy.heal();
    assert!(connection.receive().is_err());
    assert_eq!(proxy.unanswered(), 0);
}

#[test]
fn an_answer_does_not_come_back_through_a_black_hole() {
    let server = Server::start(Flavor::Valkey91);
    let proxy = Proxy::before(&server);
    let (mut stream, mut answer) = answered(&proxy);

    // Sent before the black hole, answered inside it.
    stream.write_all(b"BLPOP list 0\r\n").unwrap();
    while !server.text(&["INFO", "clients"]).as_text().unwrap().contains("blocked_clients:1") {
        thread::sleep(Duration::from_millis(1));
    }
    proxy.black_hole();
    server.text(&["RPUSH", "list", "v"]);
    let silence = stream.read(&mut answer).unwrap_err().kind();
    assert!(matches!(silence, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silence}");

    proxy.heal();
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"*2\r\n$4\r");
}

#[test]
fn not_even_the_end_of_a_connection_passes_a_black_hole() {
    let server = Server::start(Flavor::Redis62);
    let proxy = Proxy::before(&server);
    let (mut stream, mut answer) = answered(&proxy);

    proxy.black_hole();
    server.kill_9();
    let silence = stream.read(&mut answer).unwrap_err().kind();
    assert!(matches!(silence, ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silence}");
    proxy.heal();
    assert_eq!(stream.read(&mut answer).unwrap(), 0);
}

#[test]
fn a_cut_ends_all_connections_and_lets_new_ones_in() {
    let server = Server::start(Flavor::Valkey91);
    let proxy = Proxy::before(&server);
    let mut connections: Vec<_> = (0..5).map(|_| Connection::open(proxy.port()).unwrap()).collect();
    for connection in &mut connections {
        connection.text(&["PING"]).unwrap();
    }
    proxy.cut();
    for connection in &mut connections {
        assert!(connection.text(&["PING"]).is_err());
    }
    assert_eq!(Connection::open(proxy.port()).unwrap().text(&["PING"]).unwrap().as_text(), Some("PONG"));
}

#[test]
fn a_cut_reaches_connections_that_hang_in_a_black_hole() {
    let (server, proxy, mut connection) = connected();
    connection.text(&["PING"]).unwrap();
    proxy.black_hole();
    connection.send(&[b"INCR", b"n"]).unwrap();
    thread::sleep(A_WHILE);
    proxy.cut();
    assert!(connection.receive().is_err());
    proxy.heal();
    thread::sleep(A_WHILE);
    assert_eq!(server.text(&["GET", "n"]), Reply::Bulk(None), "what was cut off came through");
}

#[test]
fn a_proxy_reaches_a_server_that_came_back() {
    let server = Server::start(Flavor::Redis62);
    let proxy = Proxy::before(&server);
    server.kill_9();
    assert!(Connection::open(proxy.port()).and_then(|mut connection| connection.text(&["PING"])).is_err());
    server.restart();
    let pong = Connection::open(proxy.port()).and_then(|mut connection| connection.text(&["PING"]));
    assert_eq!(pong.unwrap().as_text(), Some("PONG"));
}

#[test]
fn a_proxy_is_dropped_at_once_whatever_hangs_in_it() {
    let (server, proxy, mut connection) = connected();
    let port = proxy.port();
    connection.text(&["PING"]).unwrap();
    proxy.black_hole();
    connection.send(&[b"PING"]).unwrap();
    let _newcomer = Connection::open(port).unwrap();
    server.stop();
    let began = Instant::now();
    drop(proxy);
    assert!(began.elapsed() < Duration::from_secs(1), "it took {:?}", began.elapsed());
    assert!(connection.receive().is_err());
    assert!(Connection::open(port).is_err());
}

#[test]
fn a_slow_proxy_keeps_back_what_is_said_until_it_is_healed() {
    let (server, proxy, mut connection) = connected();
    proxy.slow_down(A_WHILE);
    let begun = Instant::now();
    assert_eq!(connection.text(&["INCR", "n"]).unwrap(), Reply::Integer(1));
    // Delayed once in each direction.
    assert!(begun.elapsed() >= 2 * A_WHILE, "{:?}", begun.elapsed());

    proxy.slow_down(100 * A_WHILE);
    connection.send(&[b"INCR", b"n"]).unwrap();
    thread::sleep(A_WHILE);
    assert_eq!(server.text(&["GET", "n"]).as_text(), Some("1"));
    proxy.heal();
    assert_eq!(connection.receive().unwrap(), Reply::Integer(2));
}

#[test]
fn a_request_that_is_broken_off_is_not_done() {
    let (_server, proxy, mut connection) = connected();
    proxy.break_off_request();
    assert!(proxy.is_to_break_off());
    connection.send(&[b"INCR", b"n"]).unwrap();
    assert!(connection.receive().is_err());
    assert!(!proxy.is_to_break_off());
    // The next connection is not cut.
    let mut connection = Connection::open(proxy.port()).unwrap();
    assert_eq!(connection.text(&["INCR", "n"]).unwrap(), Reply::Integer(1));
}

#[test]
fn a_request_whose_answer_is_broken_off_is_done() {
    let server = Server::start(Flavor::Valkey91);
    let proxy = Proxy::before(&server);
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    proxy.break_off_answer();
    stream.write_all(b"INCR n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b":1");
    assert_eq!(server.text(&["GET", "n"]).as_text(), Some("1"));
}
