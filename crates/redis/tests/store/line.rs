//! The line where a server does not do what it is told.

use std::time::Duration;

use leasehold_core::{Answer, Attempt, HoldAnswer, Request, Wait};
use leasehold_redis::script::{call_for, decode};
use leasehold_redis::wire::channel_of;
use redis::aio::MultiplexedConnection;
use servers::{Flavor, Reply, Server};

use crate::world::{attempt, value};

async fn ask(connection: &mut MultiplexedConnection, request: Request) -> Answer {
    let call = call_for(&request, Duration::from_secs(60));
    decode(&request, call.by_text().query_async(connection).await.unwrap()).unwrap().answer
}

/// A holder, and two who wait.
async fn line(connection: &mut MultiplexedConnection) -> [Attempt; 3] {
    let all = [(); 3].map(|()| attempt(&["a"]));
    for (attempt, channel) in all.iter().zip([None, None, Some(channel_of(7))]) {
        let wait = Some(Wait { channel, ..Wait::default() });
        ask(connection, Request::Grant { attempt: attempt.clone(), wait, not_after: None }).await;
    }
    all
}

async fn connect(url: &str) -> MultiplexedConnection {
    redis::Client::open(url).unwrap().get_multiplexed_async_connection().await.unwrap()
}

fn is_held_by(server: &Server, attempt: &Attempt) -> bool {
    value(server, "a").is_some_and(|value| value.contains(&attempt.holder.digits()))
}

#[tokio::test]
async fn a_server_whose_memory_is_full_hands_a_lock_on() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        let mut connection = connect(&server.url()).await;
        let [first, second, _] = line(&mut connection).await;
        server.text(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_eq!(ask(&mut connection, Request::Release(first)).await, Answer::Release(HoldAnswer::Done));
        assert!(is_held_by(&server, &second), "{flavor}");
    }
}

#[tokio::test]
async fn a_lock_is_handed_on_by_whoever_may_not_publish() {
    for flavor in Flavor::ALL {
        let server =
            Server::setup(flavor).acl_user("mute", "on >secret ~* resetchannels +@all -publish").start();
        let mut connection = connect(&format!("redis://mute:secret@127.0.0.1:{}", server.port())).await;
        let [first, second, third] = line(&mut connection).await;
        assert_eq!(ask(&mut connection, Request::Release(first)).await, Answer::Release(HoldAnswer::Done));
        assert!(is_held_by(&server, &second), "{flavor}");
        // The third would be told that it is first, and was not: nothing else is missing.
        ask(&mut connection, Request::Release(third)).await;
        ask(&mut connection, Request::Release(second)).await;
        assert_eq!(server.text(&["DBSIZE"]), Reply::Integer(1), "{flavor}: the fence alone");
    }
}

/// Who waited is told to ask again, and so hears what is wrong from the answer.
#[tokio::test]
async fn a_fence_that_is_no_number_keeps_nobody_from_letting_go() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        let mut connection = connect(&server.url()).await;
        let [first, ..] = line(&mut connection).await;
        server.text(&["SET", "leasehold:f{a}a", "no fence"]);
        assert_eq!(ask(&mut connection, Request::Release(first)).await, Answer::Release(HoldAnswer::Done));
        assert_eq!(value(&server, "a"), None, "{flavor}");
        assert_eq!(server.text(&["DBSIZE"]), Reply::Integer(1), "{flavor}: the fence alone");
    }
}

/// One of the line's two keys was evicted.
#[tokio::test]
async fn half_a_line_is_cleared_away() {
    for flavor in Flavor::ALL {
        for half in ["leasehold:l{a}a", "leasehold:w{a}a"] {
            let server = Server::start(flavor);
            let mut connection = connect(&server.url()).await;
            let [first, ..] = line(&mut connection).await;
            server.text(&["DEL", half]);
            assert_eq!(
                ask(&mut connection, Request::Release(first)).await,
                Answer::Release(HoldAnswer::Done)
            );
            assert_eq!(
                server.text(&["DBSIZE"]),
                Reply::Integer(1),
                "{flavor}, without {half}: the fence alone"
            );
        }
    }
}
