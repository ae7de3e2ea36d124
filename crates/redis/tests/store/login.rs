//! Passwords, users and what they may do.

use leasehold_core::{HoldAnswer, Store};
use servers::{Flavor, Server};
use std::slice::from_ref;

use crate::world::{attempt, grant, granted, key, lasting, store, value};

/// The line of `docs/wire.md`, and it is checked to stand there.
const MINIMAL: &str =
    "on >secret resetkeys ~app:* ~leasehold:*}app:* -@all +eval +evalsha +get +set +del +pexpire +pttl +time";

fn without(command: &str) -> String {
    let words: Vec<_> = MINIMAL.split(' ').filter(|word| word.strip_prefix('+') != Some(command)).collect();
    words.join(" ")
}

fn as_user(server: &Server, user: &str, query: &str) -> String {
    format!("redis://{user}:secret@127.0.0.1:{}{query}", server.port())
}

#[test]
fn the_manual_has_the_line_that_is_tested() {
    assert!(include_str!("../../../../docs/wire.md").contains(MINIMAL));
}

#[tokio::test]
async fn a_user_with_the_documented_permissions_can_do_everything() {
    for flavor in Flavor::ALL {
        let server = Server::setup(flavor).acl_user("lock", MINIMAL).start();
        for query in ["?protocol=resp2", "?protocol=resp3"] {
            let store = store(&as_user(&server, "lock", query));
            store.open().await.unwrap();
            let ours = attempt(&["app:{a", "app:b"]);
            granted(grant(&store, &ours).await);
            grant(&store, &attempt(&["app:b"])).await.unwrap();
            assert_eq!(store.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
            assert_eq!(store.inspect(&key("app:b")).await.unwrap().tenancies.len(), 1);
            assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
            store.give_up(&ours).await.unwrap();
            lasting(grant(&store, &attempt(&["elsewhere"])).await, &["lock", "~leasehold:"]);
        }
    }
}

#[tokio::test]
async fn each_missing_permission_is_named_at_once() {
    for flavor in Flavor::ALL {
        let mut setup = Server::setup(flavor);
        let missing = ["eval", "evalsha", "time", "get", "set", "pttl"];
        for command in missing {
            setup = setup.acl_user(&format!("no-{command}"), &without(command));
        }
        let server = setup.start();
        for command in missing {
            let store = store(&as_user(&server, &format!("no-{command}"), ""));
            let user = format!("user no-{command}");
            let named = format!("+{command}");
            if ["eval", "evalsha", "time"].contains(&command) {
                server.text(&["SCRIPT", "FLUSH"]);
                lasting(store.open().await, &[&user, &named]);
            } else {
                store.open().await.unwrap();
                server.text(&["SET", "app:taken", "theirs"]);
                let name = if command == "pttl" { "app:taken" } else { "app:k" };
                lasting(grant(&store, &attempt(&[name])).await, &[&user, &named]);
                assert_eq!(value(&server, "app:k"), None);
            }
        }
    }
}

#[tokio::test]
async fn a_wrong_password_and_a_missing_one_are_lasting() {
    for flavor in Flavor::ALL {
        let server = Server::setup(flavor).password("right").start();
        let port = server.port();
        for protocol in ["resp2", "resp3"] {
            for user in ["", "nobody"] {
                let wrong = store(&format!("redis://{user}:wr0ng@127.0.0.1:{port}?protocol={protocol}"));
                lasting(wrong.open().await, &["password"]);
                lasting(grant(&wrong, &attempt(&["k"])).await, &["password"]);
            }
            let none = store(&format!("redis://127.0.0.1:{port}?protocol={protocol}"));
            lasting(none.open().await, &["password", "URL"]);
            store(&format!("redis://:right@127.0.0.1:{port}?protocol={protocol}")).open().await.unwrap();
        }
        lasting(store(&format!("redis://:wr0ng@127.0.0.1:{port}")).open().await, &["password"]);
        lasting(store(&format!("redis://:right@127.0.0.1:{port}/9999")).open().await, &["database"]);
    }
}
