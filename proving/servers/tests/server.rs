//! Servers that tests start: they answer, restart, stop and end.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use servers::{Connection, Flavor, Reply, Server};

fn ok() -> Reply {
    Reply::Simple("OK".into())
}

#[test]
fn a_server_of_each_flavor_answers_and_says_its_version() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        let info = server.text(&["INFO", "server"]);
        let info = info.as_text().expect("INFO is text");
        let version = format!("{}_version:{}.", flavor.name().split('-').next().unwrap(), flavor.version());
        assert!(info.contains(&version), "no {version} in {info}");
        assert!(info.contains(&format!("process_id:{}\r\n", server.pid())), "not this process: {info}");
        assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
    }
}

#[test]
fn every_kind_of_reply_is_read() {
    let server = Server::start(Flavor::Redis62);
    assert_eq!(server.text(&["SET", "k", ""]), ok());
    assert_eq!(server.text(&["GET", "k"]), Reply::Bulk(Some(Vec::new())));
    assert_eq!(server.text(&["GET", "none"]), Reply::Bulk(None));
    assert_eq!(server.text(&["INCR", "n"]).as_integer(), Some(1));
    assert_eq!(server.command(&[b"SET", b"b", b"\0\r\n\xff"]), ok());
    assert_eq!(server.command(&[b"GET", b"b"]), Reply::Bulk(Some(b"\0\r\n\xff".to_vec())));
    assert_eq!(
        server.text(&["EVAL", "return {1, {'a', false}, redis.status_reply('S')}", "0"]),
        Reply::Array(Some(vec![
            Reply::Integer(1),
            Reply::Array(Some(vec![Reply::Bulk(Some(b"a".to_vec())), Reply::Bulk(None)])),
            Reply::Simple("S".into()),
        ]))
    );
    assert_eq!(server.text(&["BLPOP", "none", "0.01"]), Reply::Array(None));
    assert!(
        matches!(server.text(&["NONSENSE"]), Reply::Error(message) if message.starts_with("ERR unknown"))
    );
}

#[test]
fn a_stopped_server_can_be_restarted_and_dropped() {
    let server = Server::start(Flavor::Valkey91);
    server.stop();
    server.restart();
    assert_eq!(server.text(&["PING"]).as_text(), Some("PONG"));
    server.stop();
    let port = server.port();
    drop(server);
    assert!(Connection::open(port).is_err());
}

#[test]
fn servers_started_at_the_same_time_do_not_meet() {
    thread::scope(|scope| {
        let started: Vec<_> =
            (0..12).map(|n| scope.spawn(move || Server::start(Flavor::ALL[n % 4]))).collect();
        let servers: Vec<_> = started.into_iter().map(|server| server.join().unwrap()).collect();
        for server in &servers {
            let info = server.text(&["INFO", "server"]);
            assert!(info.as_text().unwrap().contains(&format!("process_id:{}\r\n", server.pid())));
        }
    });
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let server = thread::spawn(|| Server::start(Flavor::Redis62)).join().unwrap();
    thread::sleep(Duration::from_millis(50));
    assert_eq!(server.text(&["PING"]).as_text(), Some("PONG"));
}

#[test]
#[should_panic(expected = "Bad directive")]
fn a_server_that_does_not_start_shows_its_log() {
    let _ = Server::setup(Flavor::Redis62).arg("no-such-setting", "1").start();
}

#[test]
fn a_server_dies_with_a_test_that_panics() {
    let port = thread::spawn(|| {
        let server = Server::start(Flavor::Redis62);
        std::panic::panic_any(server.port());
    })
    .join()
    .unwrap_err();
    let port = *port.downcast::<u16>().expect("the panic carries the port");
    assert!(Connection::open(port).is_err());
}

/// Not a test by itself: the next test runs it in another process and kills that.
#[test]
#[ignore = "the other half of the test below"]
fn a_server_is_held_until_the_process_is_killed() {
    let server = Server::start(Flavor::Redis70);
    println!("listening on {} in {}", server.port(), server.directory().display());
    thread::sleep(Duration::from_secs(60));
}

#[cfg(target_os = "linux")]
#[test]
fn a_server_dies_with_a_test_process_that_is_killed_with_9() {
    let mut process = Command::new(env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "a_server_is_held_until_the_process_is_killed"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (port, directory) = BufReader::new(process.stdout.take().unwrap())
        .lines()
        .find_map(|line| {
            let line = line.unwrap();
            let (port, directory) = line.split_once("listening on ")?.1.split_once(" in ")?;
            Some((port.parse().unwrap(), PathBuf::from(directory)))
        })
        .expect("it says where its server listens");
    assert!(Connection::open(port).is_ok());
    process.kill().unwrap();
    process.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(5);
    while Connection::open(port).is_ok() {
        assert!(Instant::now() < deadline, "the server still listens");
        thread::sleep(Duration::from_millis(5));
    }
    // Nobody else is left to do it.
    fs::remove_dir_all(directory).unwrap();
}
