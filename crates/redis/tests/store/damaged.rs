//! Foreign values next to a lock: reported at once, with key and remedy, and only for that lock.

use leasehold_core::{
    AdminStore as _, Attempt, Claim, Fault, FaultCause, FaultKind, Fence, GrantAnswer, InspectStore as _,
    KeyState, MarkStore as _, Store, WaitMode,
};
use leasehold_redis::RedisStore;
use leasehold_redis::slot::{Side, side_key};
use servers::{Flavor, Server};
use std::slice::from_ref;
use std::time::Duration;

use crate::queue::{BOTH, WAIT};
use crate::world::{
    attempt, breaking, every_server, grant, granted, info, key, lasting, mark_of, started, store,
};

const FLAVORS: [Flavor; 3] = [Flavor::Redis62, Flavor::Redis70, Flavor::Valkey91];
/// The first one makes the key count as contended: a batch does not look at the others.
const SIDES: [Side; 4] = [Side::Waiters, Side::Queue, Side::Holders, Side::Shares];

fn side(side: Side, name: &str) -> String {
    String::from_utf8(side_key(side, &key(name))).unwrap()
}

fn shared(of: &Attempt) -> Attempt {
    let claim = Claim::shared(of.claim.keys().cloned()).unwrap();
    Attempt::new(claim, of.holder, of.label.clone(), of.ttl)
}

/// The faults of all kinds of requests for a key.
async fn faults(store: &RedisStore, holder: &Attempt, name: &str) -> Vec<Fault> {
    let other = attempt(&[name]);
    let all = [
        store.grant(&other, WaitMode::Try).await.map(drop),
        store.grant(&attempt(&[name]), WAIT).await.map(drop),
        store.grant(&shared(&attempt(&[name])), WaitMode::Try).await.map(drop),
        store.grant(&shared(&attempt(&[name])), WAIT).await.map(drop),
        store.renew(from_ref(holder)).await.remove(0).map(drop),
        store.inspect(&key(name)).await.map(drop),
        store.mark(holder, &mark_of(Fence::MAX), Duration::from_secs(1)).await.map(drop),
        store.break_lease(&key(name), &breaking(Fence::MAX)).await.map(drop),
        store.release(holder).await.map(drop),
        store.give_up(&other).await.map(drop),
    ];
    all.into_iter().filter_map(Result::err).collect()
}

/// Regression: the answer to each request contained the whole value. The requests failed as unanswered,
/// and so did those for other keys, which share their connection.
#[tokio::test]
async fn a_value_of_megabytes_is_another_programs_lock_and_is_not_sent_whole() {
    let sent = |server: &Server| info(server, "stats", "total_net_output_bytes");
    for (flavor, server, store) in every_server() {
        server.text(&["SET", "k", &"x".repeat(5 << 20)]);
        let before = sent(&server);
        assert_eq!(faults(&store, &attempt(&["k"]), "k").await, [], "{flavor}");
        assert!(sent(&server) - before < 100_000, "{flavor}: {} bytes", sent(&server) - before);
    }
}

/// Regression: a script copied the whole value before it cut it.
#[tokio::test]
async fn a_huge_value_at_a_key_is_not_copied_by_the_server() {
    // The first version that notes the memory that each command needs at most.
    for flavor in [Flavor::Redis62, Flavor::Redis82, Flavor::Valkey91] {
        let (server, store) = started(flavor);
        server.text(&["SETRANGE", "k", &(64 << 20).to_string(), "x"]);
        let peak = || info(&server, "memory", "used_memory_peak");
        let before = peak();
        assert!(matches!(grant(&store, &attempt(&["k"])).await, Ok(GrantAnswer::Busy { .. })), "{flavor}");
        store.inspect(&key("k")).await.unwrap();
        assert!(peak() - before < 32 << 20, "{flavor}: {} bytes", peak() - before);
    }
}

/// Regression: such a fault counted as passing, so even a try took as long as the outage limit.
#[tokio::test]
async fn a_wrong_type_next_to_a_key_is_told_at_once_with_the_name_of_that_key() {
    for flavor in FLAVORS {
        let server = Server::start(flavor);
        for protocol in BOTH {
            let store = store(&format!("{}?protocol={protocol}", server.url()));
            for wrong in SIDES {
                for is_held in [false, true] {
                    server.text(&["FLUSHALL"]);
                    let ours = attempt(&["k\n"]);
                    if is_held {
                        granted(grant(&store, &ours).await);
                    }
                    let wrong = side(wrong, "k\n");
                    server.text(&["DEL", &wrong]);
                    server.text(&["RPUSH", &wrong, "x"]);
                    if !is_held {
                        lasting(grant(&store, &ours).await, &["delete it"]);
                    }
                    for fault in faults(&store, &ours, "k\n").await {
                        let kind = (fault.kind, fault.cause);
                        let expected = (FaultKind::Lasting, FaultCause::WrongType);
                        assert_eq!(kind, expected, "{flavor} {wrong:?}: {fault}");
                        let named = wrong.escape_default().to_string();
                        assert!(fault.reason.contains(&named), "{flavor} {wrong:?}: {fault}");
                        assert!(fault.reason.contains("delete it"), "{flavor} {wrong:?}: {fault}");
                    }
                    assert_eq!(server.text(&["TYPE", &wrong]).as_text(), Some("list"), "{wrong:?}");
                }
            }
        }
    }
}

/// Regression: each of the keys was then inspected by a script of its own, and a watch sent more than
/// ninety commands a second instead of fourteen.
#[tokio::test]
async fn a_survey_of_many_keys_goes_on_past_a_damaged_one() {
    for flavor in FLAVORS {
        let (server, store) = started(flavor);
        let keys: Vec<_> = (0..50).map(|n| key(&format!("k{n}"))).collect();
        for key in &keys {
            granted(grant(&store, &attempt(&[&key.to_string()])).await);
        }
        server.text(&["RPUSH", &side(Side::Queue, "k7"), "x"]);
        let before = server.calls("evalsha");
        let states = store.inspect_all(&keys).await.unwrap();
        assert!(server.calls("evalsha") - before <= 3, "{flavor}");
        for (nth, (state, key)) in states.iter().zip(&keys).enumerate() {
            assert_eq!((&state.key, state.damage.is_some()), (key, nth == 7), "{flavor}: {state:?}");
            assert_eq!(state.holders.is_empty(), nth == 7, "{flavor}: {state:?}");
        }
    }
}

/// Records that no build of ours writes. Each once made a script fail halfway, or was unreadable.
const STRANGE: [&[&str]; 14] = [
    &["ZADD", "l", "1", "strange"],
    &["ZADD", "l", "inf", "00000000000000000000000000000007"],
    &["ZADD", "l", "-1.5", "00000000000000000000000000000007"],
    &["HSET", "w", "u", "strange"],
    &["HSET", "w", "u", ""],
    &["ZADD", "h", "99999999999999", "strange"],
    &["ZADD", "h", "inf", "00000000000000000000000000000007"],
    &["ZADD", "h", "-inf", "00000000000000000000000000000007"],
    &["ZADD", "h", "1e300", "00000000000000000000000000000007"],
    &["ZADD", "h", "99999999999999", "00000000000000000000000000000007"],
    &["HSET", "i", "n", "strange"],
    &["HSET", "i", "00000000000000000000000000000007", "x y z"],
    &["HSET", "w", "00000000000000000000000000000007", "0 600000 0 "],
    &["HSET", "w", "00000000000000000000000000000007", "30000 99999999999999999999 0 "],
];

fn write(server: &Server, strange: &[&str], name: &str) {
    let kind = match strange[1] {
        "l" => Side::Queue,
        "w" => Side::Waiters,
        "h" => Side::Holders,
        _ => Side::Shares,
    };
    let mut words = strange.to_vec();
    let side = side(kind, name);
    words[1] = &side;
    server.text(&words);
    if strange[2].starts_with('0') && kind == Side::Waiters {
        server.text(&["ZADD", &self::side(Side::Queue, name), "1", strange[2]]);
    }
}

/// Regression: a script tried a million ways to read each of them, a tenth of a second, and the server
/// answered nobody else meanwhile.
#[tokio::test]
async fn waiters_with_unknown_records_are_skipped_at_once() {
    for (_, server, store) in every_server() {
        for nth in 0..50 {
            let digits = format!("{nth:032x}");
            write(&server, &["HSET", "w", &digits, "3000000 99999999999999999999 0 "], "k");
        }
        granted(grant(&store, &attempt(&["k"])).await);
    }
}

#[tokio::test]
async fn an_unknown_record_is_ignored_or_reported_at_once() {
    for flavor in FLAVORS {
        let (server, store) = started(flavor);
        for strange in STRANGE {
            for (is_held, together) in [(false, false), (true, false), (true, true)] {
                server.text(&["FLUSHALL"]);
                let ours = attempt(&["k"]);
                let ours = if together { shared(&ours) } else { ours };
                if is_held {
                    granted(grant(&store, &ours).await);
                }
                write(&server, strange, "k");
                for fault in faults(&store, &ours, "k").await {
                    assert_eq!(fault.kind, FaultKind::Lasting, "{flavor} {strange:?}: {fault}");
                    assert!(fault.reason.contains("{k}k"), "{flavor} {strange:?}: {fault}");
                    assert!(!fault.reason.contains("user_script"), "{flavor} {strange:?}: {fault}");
                }
                // Regression: a script that failed after a write left a lease without a fence.
                let lock = server.text(&["GET", "k"]);
                let fence = server.text(&["EXISTS", "leasehold:c{-}"]).as_integer().unwrap();
                assert!(lock.as_text().is_none() || fence == 1, "{flavor} {strange:?}: {lock:?}");
            }
        }
    }
}

/// The other scripts do not count such a share.
#[tokio::test]
async fn a_share_with_a_later_end_than_any_of_ours_is_damage() {
    let server = Server::start(Flavor::Redis70);
    let (store, ours) = (store(&server.url()), shared(&attempt(&["k"])));
    granted(grant(&store, &ours).await);
    for end in ["inf", "1e300", "10000000000000"] {
        write(&server, &["ZADD", "h", end, "00000000000000000000000000000007"], "k");
        let state = store.inspect(&key("k")).await.unwrap();
        let damage = "leasehold:h{k}k has 1 member that is not ours: find out who wrote there, and delete it";
        assert_eq!((state.holders.len(), state.damage.as_deref()), (1, Some(damage)), "{end}");
    }
}

fn named(states: &[KeyState]) -> Vec<(String, Option<&str>)> {
    states.iter().map(|state| (state.key.to_string(), state.damage.as_deref())).collect()
}

/// Regression: one foreign entry in one queue made every listing fail.
#[tokio::test]
async fn unreadable_data_of_one_key_does_not_hide_other_keys() {
    for flavor in FLAVORS {
        let (server, store) = started(flavor);
        let [a, b, c] = ["a", "b", "c"].map(|name| attempt(&[name]));
        for ours in [&a, &b, &c] {
            granted(grant(&store, ours).await);
        }
        write(&server, &["ZADD", "l", "1", "strange"], "b");
        server.text(&["RPUSH", &side(Side::Queue, "c"), "x"]);
        let members =
            "leasehold:l{b}b has 1 member that is not ours: find out who wrote there, and delete it";
        let wrong = "leasehold:l{c}c has another type than ours: find out who wrote there, and delete it";
        let seen = [("a".into(), None), ("b".into(), Some(members)), ("c".into(), Some(wrong))];
        let listed = store.list(b"").await.unwrap();
        assert_eq!(named(&listed), seen, "{flavor}");
        let asked = store.inspect_all(&["a", "b", "c"].map(key)).await.unwrap();
        assert_eq!(named(&asked), seen, "{flavor}");
        // The holder is visible, although a waiter is unreadable.
        assert_eq!((listed[1].holders.len(), listed[1].waiters.len()), (1, 0));
        lasting(store.inspect(&key("c")).await, &["leasehold:l{c}c", "delete it"]);
    }
}
