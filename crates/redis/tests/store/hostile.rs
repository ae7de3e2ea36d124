//! A user of the same server with exactly the documented permissions on other keys: it subscribes
//! to all channels, and publishes on them.

use std::time::Duration;

use leasehold_core::{HoldAnswer, InspectStore, Store, WaitMode, Wake};
use servers::{Connection, Flavor, Reply, Server};

use crate::login::MINIMAL;
use crate::queue::{BOTH, lock, until, waits};
use crate::world::{as_user, attempt, granted, login, store, value};

const END: &str = "leasehold:end";

struct Hostile<'a> {
    server: &'a Server,
    says: Connection,
    hears: Connection,
    heard: Vec<String>,
}

fn with_a_hostile_user(flavor: Flavor) -> Server {
    let rules = MINIMAL.replace("app:", "other:");
    Server::setup(flavor).acl_user("lock", MINIMAL).acl_user("hostile", &rules).start()
}

impl<'a> Hostile<'a> {
    fn at(server: &'a Server) -> Self {
        let [says, hears] = [(); 2].map(|()| login(server, "hostile"));
        let mut all = Self { server, says, hears, heard: Vec::new() };
        for words in [&["GET", "app:k"][..], &["HGETALL", "leasehold:w{y9}app:k"], &["SET", "app:k", "x"]] {
            let refused = all.says.text(words).unwrap();
            assert!(matches!(refused, Reply::Error(_)), "{words:?}: {refused:?}");
        }
        all.listens();
        all
    }

    fn channels(&mut self) -> Vec<String> {
        let Reply::Array(Some(all)) = self.says.text(&["PUBSUB", "CHANNELS", "*"]).unwrap() else { panic!() };
        all.iter().filter_map(Reply::as_text).filter(|name| *name != END).map(str::to_owned).collect()
    }

    fn listens(&mut self) {
        let mut all = self.channels();
        all.push(END.into());
        let names: Vec<_> = all.iter().map(String::as_bytes).collect();
        self.hears.send(&[&[&b"SUBSCRIBE"[..]], &names[..]].concat()).unwrap();
        for _ in names {
            self.hears.receive().unwrap();
        }
    }

    /// All messages that it has received by now.
    fn hears(&mut self) -> &[String] {
        self.says.text(&["PUBLISH", END, "end"]).unwrap();
        loop {
            let Reply::Array(Some(parts)) = self.hears.receive().unwrap() else { panic!() };
            match parts.last().and_then(Reply::as_text) {
                Some("end") => return &self.heard,
                Some(heard) => self.heard.push(heard.to_owned()),
                None => {}
            }
        }
    }

    /// Waits until it has received a message that begins like this.
    async fn hears_of(&mut self, begins: &str) -> String {
        for _ in 0..1000 {
            if let Some(heard) = self.hears().iter().find(|heard| heard.starts_with(begins)) {
                return heard.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{begins} is not said on {}: {:?}", self.server.flavor(), self.heard);
    }

    fn says_everywhere(&mut self, what: &str) {
        for channel in self.channels() {
            self.says.text(&["PUBLISH", &channel, what]).unwrap();
        }
    }
}

/// Regression: it learned a waiter's digits from a hint, published a forged grant, and the waiter
/// accepted it: two commands ran at once. And a forged message about another's lease made a process
/// that did not know the lease release it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_may_publish_but_not_read_the_key_cannot_forge_a_grant() {
    for flavor in Flavor::ALL {
        for protocol in BOTH {
            let server = with_a_hostile_user(flavor);
            let at = || store(&format!("{}?protocol={protocol}", as_user(&server, "lock")));
            let [first, second, third] = [(); 3].map(|()| (at(), attempt(&["app:k"])));
            granted(first.0.grant(&first.1, WaitMode::Try).await);
            waits(&second.0, &second.1).await;
            waits(&third.0, &third.1).await;
            let mut hostile = Hostile::at(&server);

            // The second is handed the key, and the third is notified when to ask. From then on its
            // digits are known.
            assert_eq!(first.0.release(&first.1).await, Ok(HoldAnswer::Done));
            let woken = second.0.woken(&second.1).await;
            let heard = hostile.hears();
            assert!(matches!(woken, Wake::Granted { .. }), "{flavor} {protocol}: {woken:?} {heard:?}");
            assert_eq!(second.0.renew(std::slice::from_ref(&second.1)).await, [Ok(HoldAnswer::Done)]);
            let [holds, waits] = [&second.1, &third.1].map(|attempt| attempt.holder.digits());
            let granted = hostile.hears_of(&format!("g {holds} ")).await;
            hostile.hears_of(&format!("f {waits} ")).await;
            let words: Vec<_> = granted.split(' ').collect();
            let [_, _, fence, _, nonce] = words[..] else { panic!("{granted}") };
            let above = fence.parse::<u64>().unwrap() + 1_000_000;

            let before = server.calls("evalsha");
            let (began, mut said) = (std::time::Instant::now(), 0);
            while began.elapsed() < Duration::from_secs(1) {
                hostile.says_everywhere(&format!("g {waits} {above} 60000 app:k"));
                hostile.says_everywhere(&format!("g {waits} {above} 60000 {nonce}"));
                hostile.says_everywhere(&format!("g {holds} {above} 60000 app:k"));
                hostile.says_everywhere(&granted);
                hostile.says_everywhere(&format!("a {waits}"));
                hostile.says_everywhere(&format!("f {waits} 0"));
                said += 1;
                let woken = tokio::time::timeout(Duration::from_millis(1), third.0.woken(&third.1)).await;
                match woken {
                    Ok(Wake::Granted { .. }) => panic!("{flavor} {protocol}: believed"),
                    Ok(Wake::AskAgain) => self::waits(&third.0, &third.1).await,
                    Err(_) => {}
                }
            }
            let asked = server.calls("evalsha") - before;
            assert!(asked < 30, "{flavor} {protocol}: {said} floods had {asked} scripts run");
            assert!(value(&server, "app:k").unwrap().contains(&holds), "{flavor} {protocol}: taken back");

            // No message named a key.
            let mut told = hostile.heard.iter().filter(|heard| heard.contains("app:k"));
            assert!(told.all(|heard| heard.starts_with("g ") && heard.contains(" 60000 ")), "{told:?}");

            // The real hand-over still works.
            assert_eq!(second.0.release(&second.1).await, Ok(HoldAnswer::Done));
            lock(&third.0, &third.1).await;
            assert_eq!(third.0.release(&third.1).await, Ok(HoldAnswer::Done));
        }
    }
}

/// Regression: nothing proved its grant, and it accepted one that had no proof either.
#[tokio::test]
async fn a_waiter_that_may_not_subscribe_believes_no_published_grant() {
    let may_hear_breaks = MINIMAL.replace("&leasehold:*", "&leasehold:broken");
    for flavor in Flavor::ALL {
        let server = Server::setup(flavor).acl_user("deaf", &may_hear_breaks).start();
        let [held, waiting] = [(); 2].map(|()| attempt(&["app:k"]));
        let (near, deaf) = (store(&server.url()), store(&as_user(&server, "deaf")));
        granted(near.grant(&held, WaitMode::Try).await);
        let _notices = deaf.notices();
        waits(&deaf, &waiting).await;
        let forged = format!("g {} 9007199254740991 60000", waiting.holder.digits());
        let mut says = server.connect().unwrap();
        let heard = || says.text(&["PUBLISH", "leasehold:broken", &forged]).unwrap() == Reply::Integer(1);
        until("it hears of breaks", Duration::from_secs(5), heard).await;
        assert_eq!(deaf.woken(&waiting).await, Wake::AskAgain, "{flavor}");
    }
}

/// After a connection broke, a user that had subscribed to its channel repeats its messages on the
/// next one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_of_an_earlier_connection_grants_nothing_on_the_next() {
    for flavor in Flavor::ALL {
        for protocol in BOTH {
            let server = with_a_hostile_user(flavor);
            let proxy = servers::Proxy::before(&server);
            let through = format!("redis://lock:secret@127.0.0.1:{}?protocol={protocol}", proxy.port());
            let near = store(&as_user(&server, "lock"));
            let (far, [held, waiting]) = (store(&through), [(); 2].map(|()| attempt(&["app:k"])));
            granted(near.grant(&held, WaitMode::Try).await);
            waits(&far, &waiting).await;
            let mut hostile = Hostile::at(&server);
            // The waiter receives nothing any more, but others receive its messages.
            proxy.mute();
            assert_eq!(near.release(&held).await, Ok(HoldAnswer::Done));
            let granted = hostile.hears_of("g ").await;
            proxy.cut();
            let old = hostile.channels();
            proxy.heal();
            let began = std::time::Instant::now();
            loop {
                let mut new = hostile.channels();
                new.retain(|channel| !old.contains(channel));
                for channel in &new {
                    hostile.says.text(&["PUBLISH", channel, &granted]).unwrap();
                }
                let woken = tokio::time::timeout(Duration::from_millis(1), far.woken(&waiting)).await;
                match woken {
                    Ok(Wake::Granted { .. }) => panic!("{flavor} {protocol}: believed"),
                    Ok(Wake::AskAgain) if !new.is_empty() => break,
                    _ => assert!(began.elapsed() < Duration::from_secs(20), "no new channel"),
                }
            }
        }
    }
}
