//! Holders that share a key, and their records on the server.

use std::slice::from_ref;
use std::time::Duration;

use leasehold_core::{Answer, Attempt, Claim, GrantAnswer, HoldAnswer, Request, Store, Ttl, Wait, Wake};
use leasehold_redis::wire::channel_of;
use servers::{Connection, Flavor, Reply, Server};

use crate::login::MINIMAL;
use crate::queue::WAIT;
use crate::world::{
    as_user, ask, attempt, claiming, connect, every_server, grant, granted, key, pttl, started, value,
};

const HOLDERS: &str = "leasehold:h{1ps}invoice:42";
const SHARES: &str = "leasehold:i{1ps}invoice:42";

/// A request to hold `invoice:42` together with others.
fn reader() -> Attempt {
    claiming(Claim::shared([key("invoice:42")]).unwrap())
}

fn permits(weight: u32, of: u32) -> Attempt {
    claiming(Claim::permits([key("invoice:42")], weight, of).unwrap())
}

fn writer() -> Attempt {
    attempt(&["invoice:42"])
}

#[tokio::test]
async fn shares_are_stored_in_these_bytes_and_the_marker_ends_with_the_last_share() {
    for (flavor, server, store) in every_server() {
        let (one, two) = (permits(2, 4), permits(1, 4).with_ttl(Ttl::new(Duration::from_secs(30)).unwrap()));
        let fence = granted(grant(&store, &one).await);
        granted(grant(&store, &two).await);
        assert_eq!(value(&server, "invoice:42").as_deref(), Some("lh1 permits 4"));
        let field = |name: &str| server.text(&["HGET", SHARES, name]).as_text().map(str::to_owned);
        assert_eq!(field(&one.holder.digits()), Some(format!("2 {fence} - web-3")), "{flavor}");
        assert_eq!(field("n").as_deref(), Some("3"));
        let ends = |attempt: &Attempt| {
            let score = server.text(&["ZSCORE", HOLDERS, &attempt.holder.digits()]);
            score.as_text().unwrap().parse::<i64>().unwrap()
        };
        let last = |attempt: &Attempt| {
            // Servers before 7.0 report only how long after the marker the shares expire.
            assert!((14_900..=15_100).contains(&(pttl(&server, HOLDERS) - pttl(&server, "invoice:42"))));
            assert!((pttl(&server, HOLDERS) - pttl(&server, SHARES)).abs() < 100);
            if let Some(at) = server.text(&["PEXPIRETIME", "invoice:42"]).as_integer() {
                assert_eq!(at, ends(attempt), "{flavor}");
            }
        };
        last(&two);
        assert_eq!(store.renew(from_ref(&one)).await, [Ok(HoldAnswer::Done)]);
        last(&two);
        // The share that is released last may be the one that ends first.
        assert_eq!(store.release(&two).await, Ok(HoldAnswer::Done));
        last(&one);
        assert_eq!(field("n").as_deref(), Some("2"));
        assert!(server.keys("*").iter().all(|key| pttl(&server, key) > 0), "{flavor}");
        assert_eq!(store.release(&one).await, Ok(HoldAnswer::Done));
        assert_eq!(server.keys("*"), ["leasehold:c{-}invoice:"], "{flavor}");
    }
}

/// The patterns by which builds from before markers know a lease and a waiter.
#[tokio::test]
async fn an_older_build_takes_a_marker_for_somebody_elses_lock_and_finds_the_waiters_that_it_knows() {
    const LEASE: &str = "^lh1[-+?](%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x%x)(.?)";
    const WAITER: &str = "^(%d+) (%d+) ([01]) ([^ ]*)(.*)$";
    let (server, store) = started(Flavor::Valkey91);
    let matches = |text: &str, pattern: &str| {
        let found = "return string.find(ARGV[1], ARGV[2]) and 1 or 0";
        server.text(&["EVAL", found, "0", text, pattern]).as_integer() == Some(1)
    };
    let in_line = |attempt: &Attempt| {
        let record = server.text(&["HGET", "leasehold:w{1ps}invoice:42", &attempt.holder.digits()]);
        record.as_text().unwrap().to_owned()
    };
    let (one, two, three) = (reader(), writer(), reader());
    granted(grant(&store, &one).await);
    let marker = value(&server, "invoice:42").unwrap();
    assert!(!matches(&marker, LEASE));
    assert_eq!(server.text(&["SET", "invoice:42", "theirs", "NX", "PX", "1000"]), Reply::Bulk(None));
    store.grant(&two, WAIT).await.unwrap();
    store.grant(&three, WAIT).await.unwrap();
    assert!(matches(&in_line(&two), WAITER));
    assert!(!matches(&in_line(&three), WAITER), "it would be handed a lease of its own");
    assert_eq!(store.release(&one).await, Ok(HoldAnswer::Done));
    assert!(matches(&value(&server, "invoice:42").unwrap(), LEASE));
}

/// A full memory must prevent neither a hand-over nor a renewal.
#[tokio::test]
async fn a_server_whose_memory_is_full_renews_takes_back_and_hands_on_shares() {
    for (flavor, server, store) in every_server() {
        let (one, two, three, four) = (reader(), reader(), writer(), reader());
        granted(grant(&store, &one).await);
        granted(grant(&store, &two).await);
        for waits in [&three, &four] {
            store.grant(waits, WAIT).await.unwrap();
        }
        server.text(&["CONFIG", "SET", "maxmemory", "1"]);
        crate::world::lasting(grant(&store, &attempt(&["other"])).await, &["maxmemory"]);
        assert_eq!(store.renew(from_ref(&one)).await, [Ok(HoldAnswer::Done)], "{flavor}");
        assert_eq!(store.release(&one).await, Ok(HoldAnswer::Done), "{flavor}");
        assert_eq!(store.release(&two).await, Ok(HoldAnswer::Done), "{flavor}");
        assert!(matches!(store.woken(&three).await, Wake::Granted { .. }), "{flavor}");
        assert_eq!(store.release(&three).await, Ok(HoldAnswer::Done), "{flavor}");
        assert!(matches!(store.woken(&four).await, Wake::Granted { .. }), "{flavor}");
        assert_eq!(value(&server, "invoice:42").as_deref(), Some("lh1 shared"), "{flavor}");
        assert_eq!(store.release(&four).await, Ok(HoldAnswer::Done), "{flavor}");
        assert_eq!(server.keys("*"), ["leasehold:c{-}invoice:"], "{flavor}");
    }
}

/// Every command that the scripts have for shares is used; some shares among them have ended.
#[tokio::test]
async fn the_documented_permissions_are_enough_for_shared_holders() {
    for flavor in Flavor::ALL {
        let server = Server::setup(flavor).acl_user("lock", &MINIMAL.replace("app:", "invoice:")).start();
        let url = as_user(&server, "lock");
        let mut connection = connect(&url).await;
        let mut ask =
            async |request: Request| ask(&mut connection, &request, Duration::from_millis(100)).await;
        let grant = |attempt: &Attempt, channel| {
            let wait = Some(Wait { channel: Some(channel_of(channel)), ..Wait::default() });
            Request::Grant { attempt: attempt.clone(), wait, not_after: None }
        };
        let mut listener = Connection::open(server.port()).unwrap();
        let channel = String::from_utf8(channel_of(1).as_bytes().to_vec()).unwrap();
        listener.text(&["SUBSCRIBE", &channel]).unwrap();
        let (one, two, three) = (permits(3, 4), permits(2, 4), permits(2, 4));
        ask(grant(&one, 1)).await;
        ask(grant(&two, 1)).await;
        ask(grant(&three, 1)).await;
        // The second and third are handed the key, and do not claim it.
        assert_eq!(ask(Request::Release(one.clone())).await, Answer::Release(HoldAnswer::Done), "{flavor}");
        assert_eq!(server.text(&["ZCARD", HOLDERS]), Reply::Integer(2), "{flavor}");
        while value(&server, "invoice:42").is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let Answer::Grant(GrantAnswer::Granted { .. }) = ask(grant(&one, 1)).await else {
            panic!("{flavor}")
        };
        assert_eq!(server.text(&["ZCARD", HOLDERS]), Reply::Integer(1), "{flavor}");
        assert_eq!(ask(Request::Renew(one.clone())).await, Answer::Renew(HoldAnswer::Done), "{flavor}");
        let Answer::Inspect(state) = ask(Request::Inspect(key("invoice:42"))).await else {
            panic!("{flavor}")
        };
        assert_eq!(state.holders.len(), 1, "{flavor}");
        assert_eq!(ask(Request::Release(one)).await, Answer::Release(HoldAnswer::Done), "{flavor}");
    }
}
