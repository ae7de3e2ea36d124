//! Passwords, users and their permissions.

use leasehold_core::{
    Answer, Attempt, Claim, Fence, HoldAnswer, InspectStore as _, MarkStore as _, MemberStore as _, Request,
    Store, Wait,
};
use leasehold_redis::wire::channel_of;
use servers::{Flavor, Server, Setup, Watched};
use std::os::unix::fs::PermissionsExt;
use std::slice::from_ref;
use std::time::Duration;

use crate::queue::{WAIT, left_behind, until, until_answered};
use crate::world::{
    a_minute_later, as_user, ask, at_member, attempt, claiming, connect, grant, granted, key, lasting,
    mark_of, store, value,
};

/// The line of `docs/wire.md`; a test checks that the page has it.
pub(crate) const MINIMAL: &str = "on >secret resetkeys ~app:* ~leasehold:*}app:* resetchannels &leasehold:* -@all +ping +eval +evalsha \
    +get +getrange +set +del +exists +pexpire +pexpireat +pttl +time +zadd +zcard +zrange +zrangebyscore +zrevrangebyscore +zrank +zrem +zscore +hdel \
    +hget +hmget +hset +mget +pubsub +publish +subscribe +unsubscribe";

const OF_A_MEMBER: &str = "~leasehold:member +info";

pub(crate) fn without(command: &str) -> String {
    let words: Vec<_> = MINIMAL.split(' ').filter(|word| word.strip_prefix('+') != Some(command)).collect();
    words.join(" ")
}

/// For each of these commands, a user `no-COMMAND` who may run all others.
fn with_a_user_without_each(flavor: Flavor, commands: &[&str]) -> Server {
    let add = |setup: Setup, command: &&str| setup.acl_user(&format!("no-{command}"), &without(command));
    commands.iter().fold(Server::setup(flavor), add).start()
}

#[test]
fn the_manual_has_the_acl_rule_that_is_tested() {
    for rules in [MINIMAL, OF_A_MEMBER] {
        assert!(include_str!("../../../../docs/wire.md").contains(rules));
    }
}

#[tokio::test]
async fn a_user_with_the_documented_permissions_can_do_everything() {
    for flavor in Flavor::ALL {
        let server = Server::setup(flavor).acl_user("lock", MINIMAL).start();
        for query in ["?protocol=resp2", "?protocol=resp3"] {
            let store = store(&format!("{}{query}", as_user(&server, "lock")));
            store.open().await.unwrap();
            let ours = attempt(&["app:{a", "app:b"]);
            granted(grant(&store, &ours).await);
            grant(&store, &attempt(&["app:b"])).await.unwrap();
            assert_eq!(store.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
            assert_eq!(store.inspect(&key("app:b")).await.unwrap().holders.len(), 1);
            let mark = mark_of(Fence::MAX);
            assert_eq!(store.mark(&ours, &mark, Duration::from_secs(1)).await, Ok(HoldAnswer::Done));
            assert_eq!(store.marked(&key("app:b")).await.unwrap().mark, Some(mark));
            assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
            store.give_up(&ours).await.unwrap();
            lasting(grant(&store, &attempt(&["elsewhere"])).await, &["lock", "~leasehold:"]);
        }
    }
}

/// While it abstains, and afterwards.
#[tokio::test]
async fn the_documented_permissions_are_enough_for_a_member_of_a_quorum() {
    for flavor in Flavor::ALL {
        let server = Server::setup(flavor)
            .acl_user("lock", &format!("{MINIMAL} {OF_A_MEMBER}"))
            .acl_user("no-info", &format!("{MINIMAL} ~leasehold:member"))
            .acl_user("no-key", &format!("{MINIMAL} +info"))
            .start();
        let at = |user: &str| store(&as_user(&server, user));
        let ours = at_member(&attempt(&["app:k"]));
        lasting(grant(&at("no-info"), &ours).await, &["user no-info", "+info"]);
        lasting(grant(&at("no-key"), &ours).await, &["user no-key"]);
        let store = at("lock");
        let fault = grant(&store, &ours).await.unwrap_err();
        assert_eq!(fault.kind, leasehold_core::FaultKind::Quarantined, "{flavor}: {fault}");
        a_minute_later(&server);
        granted(grant(&store, &ours).await);
        server.text(&["PEXPIRE", "leasehold:member", "1000000"]);
        assert_eq!(store.rejoin(from_ref(&ours)).await, [Ok(HoldAnswer::Done)], "{flavor}");
        store.raise(&ours).await.unwrap();
        assert_eq!(store.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)], "{flavor}");
        assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
    }
}

/// A lock goes from hand to hand, with every command that the scripts have.
#[tokio::test]
async fn the_documented_permissions_are_enough_for_a_queue() {
    let wait = |channel| Some(Wait { channel, ..Wait::default() });
    for flavor in Flavor::ALL {
        let server = Server::setup(flavor).acl_user("lock", MINIMAL).start();
        let mut connection = connect(&as_user(&server, "lock")).await;
        let mut ask =
            async |request: Request| ask(&mut connection, &request, Duration::from_millis(100)).await;
        let grant =
            |attempt: &Attempt, wait| Request::Grant { attempt: attempt.clone(), wait, not_after: None };
        let [first, second, third, fourth] = [(); 4].map(|()| attempt(&["app:a"]));
        ask(grant(&first, None)).await;
        ask(grant(&second, wait(None))).await;
        ask(grant(&third, wait(Some(channel_of(3))))).await;
        ask(grant(&fourth, wait(None))).await;
        // The second is handed the lock and does not claim it. The third is gone, so the fourth is
        // next.
        assert_eq!(ask(Request::Release(first)).await, Answer::Release(HoldAnswer::Done));
        let key = key("app:a");
        while value(&server, "app:a").is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        ask(Request::Advance(vec![key.clone()])).await;
        assert_eq!(ask(Request::Renew(fourth.clone())).await, Answer::Renew(HoldAnswer::Done));
        let Answer::Inspect(state) = ask(Request::Inspect(key)).await else { panic!() };
        assert!(state.waiters.is_empty());
    }
}

#[tokio::test]
async fn each_missing_permission_is_named_at_once() {
    for flavor in Flavor::ALL {
        let missing = ["eval", "evalsha", "time", "getrange", "set", "pttl"];
        let server = with_a_user_without_each(flavor, &missing);
        for command in missing {
            let store = store(&as_user(&server, &format!("no-{command}")));
            let user = format!("user no-{command}");
            let named = format!("+{command}");
            if ["eval", "evalsha", "time"].contains(&command) {
                server.text(&["SCRIPT", "FLUSH"]);
                lasting(store.open().await, &[&user, &named]);
            } else {
                store.open().await.unwrap();
                server.text(&["SET", "app:taken", "theirs"]);
                let name = if ["getrange", "pttl"].contains(&command) { "app:taken" } else { "app:k" };
                lasting(grant(&store, &attempt(&[name])).await, &[&user, &named]);
                assert_eq!(value(&server, "app:k"), None);
            }
        }
    }
}

/// Regression: a server refuses the one command of a script that a user may not run, and has executed
/// those before it. Nobody undid them: a queue, or the shares of a key, stayed without an expiry.
#[tokio::test]
async fn a_request_that_is_refused_in_the_middle_leaves_nothing() {
    for flavor in Flavor::ALL {
        let missing = ["zadd", "hset", "pexpireat", "zrank"];
        let server = with_a_user_without_each(flavor, &missing);
        server.text(&["SET", "app:taken", "theirs"]);
        for command in missing {
            let store = store(&as_user(&server, &format!("no-{command}")));
            let named = [&*format!("user no-{command}"), "+zadd"];
            lasting(store.grant(&attempt(&["app:taken"]), WAIT).await, &named);
            assert_eq!(left_behind(&server), ["app:taken"], "{flavor}: a waiter without {command}");
            if command != "zrank" {
                let reader = claiming(Claim::shared([key("app:k")]).unwrap());
                lasting(grant(&store, &reader).await, &named);
                assert_eq!(left_behind(&server), ["app:taken"], "{flavor}: a reader without {command}");
            }
        }
    }
}

/// Regression: if the server refused to undo it, too, it was not asked again.
#[tokio::test]
async fn a_request_that_was_refused_in_the_middle_is_undone_once_its_user_may() {
    let rules = format!("{MINIMAL} -hset -del");
    let server = Server::setup(Flavor::Valkey91).acl_user("lock", &rules).start();
    let store = store(&as_user(&server, "lock"));
    let reader = claiming(Claim::shared([key("app:k")]).unwrap());
    lasting(grant(&store, &reader).await, &["user lock", "+hset"]);
    assert!(!left_behind(&server).is_empty());
    server.text(&["ACL", "SETUSER", "lock", "+hset", "+del"]);
    until("nothing is left", Duration::from_secs(5), || left_behind(&server).is_empty()).await;
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

/// It has only one password, and other words for what is wrong with it. It does not know RESP3.
#[tokio::test]
async fn redis_5_0_says_what_is_wrong_with_a_login() {
    let server = Server::setup(Flavor::Redis50).password("right").start();
    let at = |login: &str, rest: &str| store(&format!("redis://{login}127.0.0.1:{}{rest}", server.port()));
    lasting(at(":wr0ng@", "").open().await, &["refuses", "password"]);
    lasting(at("", "").open().await, &["password", "URL"]);
    lasting(at("lock:right@", "").open().await, &["too old to have users"]);
    lasting(at(":right@", "?protocol=resp3").open().await, &["unknown command", "HELLO"]);
    let right = at(":right@", "");
    granted(grant(&right, &attempt(&["k"])).await);

    let open = Server::start(Flavor::Redis50);
    let needless = store(&format!("redis://:pw@127.0.0.1:{}", open.port()));
    lasting(needless.open().await, &["has no password"]);
}

/// The further permissions under sentinels, and where replicas must confirm.
const UNDER_SENTINELS: &str = "+role";
const WITH_REPLICAS: &str = "+wait";
const WITH_DISKS: &str = "+waitaof";

/// The line of `docs/wire.md` for a user of the sentinels.
const OF_SENTINELS: &str = "on >watch resetkeys resetchannels &+switch-master -@all +sentinel|get-master-addr-by-name \
    +sentinel|masters +subscribe +unsubscribe";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_documented_permissions_are_enough_under_sentinels_and_with_replicas() {
    for words in [UNDER_SENTINELS, WITH_REPLICAS, WITH_DISKS, OF_SENTINELS] {
        assert!(include_str!("../../../../docs/wire.md").contains(words), "{words}");
    }
    for flavor in Flavor::ALL {
        let rules = format!("{MINIMAL} {UNDER_SENTINELS} {WITH_REPLICAS}");
        let server = Server::setup(flavor)
            .acl_user("lock", &rules)
            .acl_user("no-role", &format!("{MINIMAL} {WITH_REPLICAS}"))
            .acl_user("no-wait", &format!("{MINIMAL} {UNDER_SENTINELS}"));
        let sentinel = Server::setup(flavor)
            .acl_user("default", "off")
            .acl_user("looker", OF_SENTINELS)
            .acl_user("admin", "on >admin ~* &* +@all")
            .login("admin", "admin")
            .acl_user("blind", "on >watch -@all +ping");
        let watched = Watched::with(server, sentinel);
        let url = |user: &str, sentinel: &str| {
            let url = watched.url().replace("://", &format!("://{user}:secret@"));
            format!("{url}?replicas=1&sentinel-user={sentinel}&sentinel-password=watch")
        };
        for protocol in ["", "&protocol=resp2"] {
            let store = store(&format!("{}{protocol}", url("lock", "looker")));
            let ours = attempt(&["app:k"]);
            granted(grant(&store, &ours).await);
            assert_eq!(store.renew(from_ref(&ours)).await, [Ok(HoldAnswer::Done)]);
            assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
        }
        let ours = attempt(&["app:k"]);
        lasting(grant(&store(&url("no-role", "looker")), &ours).await, &["user no-role", "+role"]);
        lasting(grant(&store(&url("no-wait", "looker")), &ours).await, &["user no-wait", "+wait"]);
        let blind = grant(&store(&url("lock", "blind")), &ours).await;
        lasting(blind, &["user blind", "+sentinel|get-master-addr-by-name", "&+switch-master"]);
        let wrong = url("lock", "looker").replace("=watch", "=wr0ng");
        lasting(grant(&store(&wrong), &ours).await, &["user looker or its password", "sentinel-user"]);
        let nobody = watched.url().replace("://", "://lock:secret@");
        lasting(grant(&store(&nobody), &ours).await, &["sentinel-password-file"]);
        let wrong = url("lock", "looker").replace(":secret@", ":wr0ng@");
        let words = ["user lock or its password", "(the master, 127.0.0.1:"];
        lasting(grant(&store(&wrong), &ours).await, &words);
    }
}

#[tokio::test]
async fn a_password_may_be_in_a_file_that_no_other_user_can_read() {
    let server = Server::setup(Flavor::Valkey91).password("r1ght").start();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, "r1ght\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let store = store(&format!("{}?password-file={}", server.url(), file.display()));
    let name = file.display().to_string();
    lasting(store.open().await, &["password-file=", &name, "mode 0644", "chmod 600"]);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    store.open().await.unwrap();
    // The password is changed on the server and in the file while the store is in use.
    server.text(&["CONFIG", "SET", "requirepass", "an0ther"]);
    std::fs::write(&file, "an0ther\n").unwrap();
    let mut connection = server.connect().unwrap();
    connection.text(&["AUTH", "an0ther"]).unwrap();
    connection.text(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
    until_answered(Duration::from_secs(5), || store.open()).await;
    std::fs::remove_file(&file).unwrap();
    connection.text(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).unwrap();
    let began = std::time::Instant::now();
    while store.open().await.err().is_none_or(|fault| !fault.is_lasting()) {
        assert!(began.elapsed() < Duration::from_secs(5), "nothing is missed");
    }
    lasting(store.open().await, &["password-file=", "No such file"]);
}

/// Regression: it was reported as that of the servers, `password-file`.
#[tokio::test]
async fn the_password_file_of_the_sentinels_is_named_as_theirs() {
    let sentinel = Server::start(Flavor::Redis70);
    let query = "sentinel-password-file=/nowhere/password";
    let url = format!("redis+sentinel://127.0.0.1:{}/locks?{query}", sentinel.port());
    lasting(store(&url).open().await, &["sentinel-password-file=/nowhere/password: No such file"]);
}

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
