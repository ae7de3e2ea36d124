//! Tenants of one server, whose keys and channels an ACL separates by prefix.

use std::time::Duration;

use leasehold_core::{
    AdminStore as _, BreakAnswer, GrantAnswer, HoldAnswer, InspectStore as _, Notice, Store, WaitMode, Wake,
};
use servers::{Flavor, Reply, Server};

use crate::login::MINIMAL;
use crate::queue::{BOTH, channels_like, commands, lock, until, waits};
use crate::world::{as_user, attempt, breaking, granted, key, login, store, value};

const SOON: Duration = Duration::from_secs(5);

/// A tenant's rules: those of `docs/wire.md`, with its own channels.
fn rules(prefix: &str) -> String {
    MINIMAL.replace("app:", prefix).replace("&leasehold:*", &format!("&leasehold:{prefix}*"))
}

fn two_tenants(flavor: Flavor) -> Server {
    Server::setup(flavor).acl_user("a", &rules("a:")).acl_user("b", &rules("b:")).start()
}

fn is_refused(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(why) if why.starts_with("NOPERM"))
}

#[test]
fn the_pages_for_operators_have_the_acl_rule_of_a_tenant() {
    let rule = "&leasehold:app:*";
    assert!(include_str!("../../../../docs/wire.md").contains(rule));
    assert!(include_str!("../../../../docs/operating.md").contains(rule));
}

/// A tenant that could write the last fence of another's keys could use up all of its fences. Keys
/// without a colon have one in common, which no tenant of a prefix may use.
#[tokio::test]
async fn a_tenant_has_fences_of_its_own() {
    for flavor in Flavor::ALL {
        let server = two_tenants(flavor);
        let at = |user: &str| store(&as_user(&server, user));
        for user in ["a", "b"] {
            granted(at(user).grant(&attempt(&[&format!("{user}:k")]), WaitMode::Try).await);
        }
        let mut hostile = login(&server, "b");
        let spend = |key| ["SET", key, "9007199254740991"];
        for fence_key in ["leasehold:c{-}a:", "leasehold:c{-}"] {
            let refused = hostile.text(&spend(fence_key)).unwrap();
            assert!(is_refused(&refused), "{flavor}: {refused:?}");
        }
        assert_eq!(hostile.text(&spend("leasehold:c{-}b:")).unwrap(), Reply::Simple("OK".into()));
        let spent = at("b").grant(&attempt(&["b:other"]), WaitMode::Try).await;
        assert_eq!(spent, Ok(GrantAnswer::FencesSpent { key: key("b:other") }), "{flavor}");
        granted(at("a").grant(&attempt(&["a:other"]), WaitMode::Try).await);
    }
}

/// A user of other keys could list, read and flood all channels: only a secret kept it from forging
/// a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_can_neither_subscribe_nor_publish_to_the_channels_of_another() {
    for flavor in Flavor::ALL {
        for protocol in BOTH {
            let server = two_tenants(flavor);
            let at = |user: &str| {
                let port = server.port();
                store(&format!("redis://{user}:secret@127.0.0.1:{port}?protocol={protocol}&channels={user}:"))
            };
            // Both tenants' locks are handed over by push.
            let of_each = ["a", "b"].map(|user| {
                let key = format!("{user}:k");
                [(); 2].map(|()| (at(user), attempt(&[&key])))
            });
            for [holds, next] in &of_each {
                granted(holds.0.grant(&holds.1, WaitMode::Try).await);
                waits(&next.0, &next.1).await;
            }
            let mut hostile = login(&server, "b");
            let Reply::Array(Some(all)) = hostile.text(&["PUBSUB", "CHANNELS", "leasehold:a:*"]).unwrap()
            else {
                panic!("{flavor}")
            };
            let channels =
                all.iter().filter_map(Reply::as_text).chain(["leasehold:a:broken", "leasehold:broken"]);
            let mut tried = 0;
            for channel in channels {
                let asked =
                    [&["PUBLISH", channel, "f"][..], &["SUBSCRIBE", channel], &["PSUBSCRIBE", "leasehold:*"]];
                for words in asked {
                    let words: Vec<_> = words.iter().map(|word| word.as_bytes()).collect();
                    hostile.send(&words).unwrap();
                    let refused = hostile.receive().unwrap();
                    assert!(is_refused(&refused), "{flavor} {protocol} {channel}: {refused:?}");
                }
                tried += 1;
            }
            assert!(tried > 2, "{flavor} {protocol}: nobody listens");
            for [holds, next] in &of_each {
                assert_eq!(holds.0.release(&holds.1).await, Ok(HoldAnswer::Done));
                let woken = tokio::time::timeout(SOON, next.0.woken(&next.1)).await;
                assert!(matches!(woken, Ok(Wake::Granted { .. })), "{flavor} {protocol}: {woken:?}");
                assert_eq!(next.0.push_unavailable(), None);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_notified_at_once_that_its_lease_was_broken() {
    for flavor in Flavor::ALL {
        let server = two_tenants(flavor);
        let at = || store(&format!("redis://a:secret@127.0.0.1:{}?channels=a:", server.port()));
        let (holds, ours) = (at(), attempt(&["a:k"]));
        let mut notices = holds.notices().unwrap();
        let fence = granted(holds.grant(&ours, WaitMode::Try).await);
        until("it listens", SOON, || !channels_like(&server, "leasehold:a:broken").is_empty()).await;
        let broken = at().break_lease(&key("a:k"), &breaking(fence)).await;
        assert!(matches!(broken, Ok(BreakAnswer::Broken { .. })), "{broken:?}");
        let heard = tokio::time::timeout(SOON, notices.next()).await;
        assert_eq!(heard.ok(), Some(Notice::Broken { holder: ours.holder }), "{flavor}");
    }
}

/// Another tenant may release such a key, and may not publish to this one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_without_the_prefix_of_the_channels_is_waited_for_without_push() {
    for flavor in Flavor::ALL {
        let server = two_tenants(flavor);
        for (user, prefix) in [("a", "a:"), ("b", "b:")] {
            // The user may use both prefixes of keys, but the channels of only one.
            let more = [&*format!("~{prefix}*"), "~c:*", "~leasehold:*}c:*"];
            server.text(&[&["ACL", "SETUSER", user][..], &more].concat());
        }
        let at = |user| store(&format!("redis://{user}:secret@127.0.0.1:{}?channels={user}:", server.port()));
        let (holds, next) = ((at("a"), attempt(&["c:k"])), (at("b"), attempt(&["c:k"])));
        granted(holds.0.grant(&holds.1, WaitMode::Try).await);
        let looks = store(&server.url());
        let released = async {
            while looks.inspect(&key("c:k")).await.unwrap().waiters.is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            let before = commands(&server);
            until("it asks by itself", SOON, || commands(&server) > before + 3).await;
            assert_eq!(holds.0.release(&holds.1).await, Ok(HoldAnswer::Done));
            std::time::Instant::now()
        };
        let (_, released) = tokio::join!(lock(&next.0, &next.1), released);
        let took = released.elapsed();
        assert!(took < Duration::from_millis(1500), "{flavor}: it was not told, and lay for {took:?}");
        assert!(value(&server, "c:k").unwrap().contains(&next.1.holder.digits()));
    }
}

/// A finding says so, and locks still work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_that_does_not_name_its_channels_gets_the_remedy() {
    for flavor in Flavor::ALL {
        let server = two_tenants(flavor);
        let at = |query: &str| store(&format!("redis://a:secret@127.0.0.1:{}{query}", server.port()));
        let (holds, next) = ((at("?channels=a:"), attempt(&["a:k"])), (at(""), attempt(&["a:k"])));
        granted(holds.0.grant(&holds.1, WaitMode::Try).await);
        waits(&next.0, &next.1).await;
        let why = next.0.push_unavailable().unwrap().to_string();
        assert!(why.contains("channels=PREFIX"), "{flavor}: {why}");
        assert_eq!(holds.0.release(&holds.1).await, Ok(HoldAnswer::Done));
        lock(&next.0, &next.1).await;
    }
}
