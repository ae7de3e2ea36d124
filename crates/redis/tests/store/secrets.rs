//! Passwords never appear in output.

use leasehold_core::Store;
use servers::{Flavor, Server};

use crate::world::{attempt, grant, lasting, store};

#[tokio::test]
async fn no_text_has_the_password_in_it() {
    let server = Server::setup(Flavor::Redis82).acl_user("web", "on >s3cret ~* +@all").start();
    let port = server.port();
    for url in [
        format!("redis://web:s3cret@127.0.0.1:{port}"),
        format!("redis://web:s3cret@127.0.0.1:{port}?protocol=resp2"),
        format!("redis://web:s3cret-but-wrong@127.0.0.1:{port}"),
        format!("redis://web:s3cret-but-wrong@127.0.0.1:{port}?protocol=resp2"),
        format!("redis://web:s3cret@127.0.0.1:{port}/9999"),
        "redis://web:s3cret@127.0.0.1:1".to_owned(),
        "redis://web:s3cret@nobody.invalid".to_owned(),
        "rediss://web:s3cret@127.0.0.1:1?ca=/nowhere.pem".to_owned(),
        "redis+unix://web:s3cret@/nowhere.sock".to_owned(),
        "redis+unix:///nowhere.sock?user=web&password=s3cret".to_owned(),
        "redis+sentinel://web:s3cret@127.0.0.1:1,nobody.invalid/locks?sentinel-password=s3cret".to_owned(),
        format!(
            "redis+sentinel://web:s3cret@127.0.0.1:{port}/locks?sentinel-user=web&sentinel-password=s3cret"
        ),
    ] {
        let store = store(&url);
        let opened = store.open().await;
        let granted = grant(&store, &attempt(&["k"])).await;
        let mut texts = format!("{store:?} {store:#?} {} {opened:?} {granted:?}", store.name());
        for fault in [opened.err(), granted.err()].into_iter().flatten() {
            texts += &format!(" {fault}");
        }
        assert!(!texts.contains("s3c"), "{texts}");
        assert!(store.name().contains("web@"));
    }
}

/// Regression: a server that does not know a command repeats its arguments, and those of a login are
/// the user and the password.
#[tokio::test]
async fn a_server_that_does_not_know_the_login_does_not_show_the_password() {
    for (command, protocol) in [("HELLO", "resp3"), ("AUTH", "resp2")] {
        for flavor in Flavor::ALL {
            let server = Server::setup(flavor).arg("rename-command", &format!("{command} OTHER")).start();
            let url = format!("redis://web:s3cret@127.0.0.1:{}?protocol={protocol}", server.port());
            let fault = store(&url).open().await.unwrap_err();
            assert!(!fault.to_string().contains("s3c"), "{flavor}: {fault}");
            lasting(Err::<(), _>(fault), &[command]);
        }
    }
}
