//! The queue on servers that misbehave.

use std::time::Duration;

use leasehold_core::{Answer, Attempt, HoldAnswer, Request, Wait};
use leasehold_redis::wire::channel_of;
use redis::aio::MultiplexedConnection;
use servers::{Flavor, Reply, Server};

use crate::world::{as_user, attempt, connect, value};

async fn ask(connection: &mut MultiplexedConnection, request: Request) -> Answer {
    crate::world::ask(connection, &request, Duration::from_secs(60)).await
}

/// A holder and two waiters, with their channels.
async fn line_at(connection: &mut MultiplexedConnection, channels: [Option<u128>; 2]) -> [Attempt; 3] {
    let all = [(); 3].map(|()| attempt(&["a"]));
    for (attempt, channel) in all.iter().zip([None].into_iter().chain(channels)) {
        let wait = Some(Wait { channel: channel.map(channel_of), ..Wait::default() });
        ask(connection, Request::Grant { attempt: attempt.clone(), wait, not_after: None }).await;
    }
    all
}

fn is_held_by(server: &Server, attempt: &Attempt) -> bool {
    value(server, "a").is_some_and(|value| value.contains(&attempt.holder.digits()))
}

#[tokio::test]
async fn a_holder_without_the_right_to_publish_hands_the_lock_over() {
    for flavor in Flavor::ALL {
        let server =
            Server::setup(flavor).acl_user("mute", "on >secret ~* resetchannels +@all -publish").start();
        let mut connection = connect(&as_user(&server, "mute")).await;
        let [first, second, third] = line_at(&mut connection, [None, Some(7)]).await;
        assert_eq!(ask(&mut connection, Request::Release(first)).await, Answer::Release(HoldAnswer::Done));
        assert!(is_held_by(&server, &second), "{flavor}");
        // Only the notification of the third, that it is now first, is missing.
        ask(&mut connection, Request::Release(third)).await;
        ask(&mut connection, Request::Release(second)).await;
        assert_eq!(server.text(&["DBSIZE"]), Reply::Integer(1), "{flavor}: the fence alone");
    }
}

/// The waiter is asked to ask again, and gets the error as the answer.
#[tokio::test]
async fn a_fence_that_is_no_number_keeps_nobody_from_letting_go() {
    for (flavor, channels) in
        Flavor::ALL.into_iter().flat_map(|flavor| [(flavor, [None, Some(7)]), (flavor, [Some(8); 2])])
    {
        let server = Server::start(flavor);
        let mut listener = redis::Client::open(server.url()).unwrap().get_async_pubsub().await.unwrap();
        listener.subscribe(channel_of(8).as_bytes()).await.unwrap();
        let mut connection = connect(&server.url()).await;
        let [first, ..] = line_at(&mut connection, channels).await;
        server.text(&["SET", "leasehold:c{-}", "no fence"]);
        assert_eq!(ask(&mut connection, Request::Release(first)).await, Answer::Release(HoldAnswer::Done));
        assert_eq!(value(&server, "a"), None, "{flavor}");
        assert_eq!(server.text(&["DBSIZE"]), Reply::Integer(1), "{flavor}: the fence alone");
    }
}
