//! The forms of our leases: scripts and the client read every value in the same way.

use std::time::Duration;

use leasehold_core::{GrantAnswer, InspectStore as _, Owner, Store, WaitMode};
use leasehold_redis::wire;
use servers::{Flavor, Reply, Server};

use crate::queue::WAIT;
use crate::world::{attempt, key, store};

const DIGITS: &str = "0123456789abcdef0011223344556677";

/// Our values and values close to them, each with whether it is ours.
fn values() -> Vec<(Vec<u8>, bool)> {
    let labels: [(&[u8], bool); 38] = [
        (b"", true),
        (b" ", true),
        (b"web-3", true),
        (b"~!\"#$%&'()*+,-./ [\\]^_`{|}", true),
        ("größe 鍵 🔒 \u{a0}\u{7ff}\u{800}\u{ffff}\u{10000}\u{10ffff}".as_bytes(), true),
        ("\u{d7ff}\u{e000}\u{202e}\u{feff}".as_bytes(), true),
        ("\u{a0}".as_bytes(), true),
        (b"a\nb", false),
        (b"a\0b", false),
        (b"\t", false),
        (b"\x1f", false),
        (b"\x7f", false),
        (b"\xc2\x80", false),
        (b"\xc2\x85", false),
        (b"a\xc2\x9fb", false),
        (b"\x80", false),
        (b"\xbf", false),
        (b"\xc3", false),
        (b"\xc3a\xa4", false),
        (b"\xc3\xa4\xa4", false),
        (b"\xc0\x80", false),
        (b"\xc1\xbf", false),
        (b"\xe0\x80\x80", false),
        (b"\xe0\x9f\xbf", false),
        (b"\xe0\xa0", false),
        (b"\xe1\x80", false),
        (b"\xed\xa0\x80", false),
        (b"\xed\xbf\xbf", false),
        (b"\xf0\x80\x80\x80", false),
        (b"\xf0\x8f\xbf\xbf", false),
        (b"\xf0\x90\x80", false),
        (b"\xf4\x90\x80\x80", false),
        (b"\xf5\x80\x80\x80", false),
        (b"\xf8\x88\x80\x80\x80", false),
        (b"\xff", false),
        (b"\xfe", false),
        (b"\xe9\x8d\xb5\xe9\x8d", false),
        (b"\xf1\x80\x80\x80\xf3\xbf\xbf\xbf\xf4\x8f\xbf\xbf", true),
    ];
    let lock = "🔒".as_bytes();
    let long = [
        (b"x".repeat(256), true),
        (b"x".repeat(257), false),
        (b"x".repeat(100_000), false),
        ("ä".as_bytes().repeat(128), true),
        ("ä".as_bytes().repeat(129), false),
        (lock.repeat(64), true),
        (lock.repeat(64)[..255].to_vec(), false),
    ];
    let labels = labels.map(|(label, is)| (label.to_vec(), is)).into_iter().chain(long);
    let labelled = labels.map(|(label, is)| ([format!("lh1-{DIGITS} ").as_bytes(), &label].concat(), is));
    let forms = [
        (format!("lh1-{DIGITS}"), true),
        (format!("lh1+{DIGITS}"), true),
        (format!("lh1?{DIGITS} a"), true),
        (format!("lh1-{DIGITS}.7"), true),
        (format!("lh1-{DIGITS}.9007199254740991 a"), true),
        (format!("lh1-{DIGITS}."), false),
        (format!("lh1-{DIGITS}.x"), false),
        (format!("lh1-{DIGITS}.7.7"), false),
        (format!("lh1-{DIGITS}.9007199254740992"), false),
        (format!("lh1-{DIGITS}.00000000000000007"), false),
        (format!("lh1-{DIGITS}\n"), false),
        (format!("lh1-{DIGITS}0"), false),
        (format!("lh1-{DIGITS}\u{a0}"), false),
        (format!("lh1!{DIGITS}"), false),
        (format!("lh2-{DIGITS}"), false),
        (format!(" lh1-{DIGITS}"), false),
        (format!("lh1-{}", &DIGITS[1..]), false),
        (format!("lh1-{}", DIGITS.to_uppercase()), false),
        (String::new(), false),
    ];
    labelled.chain(forms.map(|(value, is)| (value.into_bytes(), is))).collect()
}

/// Regression: the first waiter marked a value with an invalid label as if it were a lease.
#[tokio::test]
async fn scripts_and_the_client_agree_on_what_is_ours_and_nothing_else_is_ever_changed() {
    for flavor in Flavor::ALL {
        let server = Server::start(flavor);
        let store = store(&server.url());
        for (value, is_ours) in values() {
            let shown = value.escape_ascii().to_string();
            let read_as_ours = matches!(wire::read(&value).0, Owner::Holder { .. });
            assert_eq!(read_as_ours, is_ours, "{shown}");
            server.text(&["FLUSHALL"]);
            server.command(&[b"SET", b"k", &value, b"PX", b"60000"]);
            let waits = attempt(&["k"]);
            let answer = store.grant(&waits, WAIT).await.unwrap();
            let GrantAnswer::Busy { held_by, .. } = answer else { panic!("{flavor} {shown}: {answer:?}") };
            assert_eq!((held_by.owner, held_by.fence), wire::read(&value), "{flavor} {shown}");
            // A waiter marks a lease, so that its holder uses the script to release it.
            let expected = if is_ours { [&b"lh1+"[..], &value[4..]].concat() } else { value.clone() };
            let is_there = |when| {
                let there = server.text(&["GET", "k"]);
                assert_eq!(there, Reply::Bulk(Some(expected.clone())), "{flavor} {when} {shown}");
            };
            is_there("marked by a waiter");
            store.grant(&attempt(&["k"]), WaitMode::Try).await.unwrap();
            let seen = store.inspect(&key("k")).await.unwrap();
            assert_eq!(
                (seen.holders[0].owner.clone(), seen.holders[0].fence),
                wire::read(&value),
                "{flavor} {shown}"
            );
            store.release(&waits).await.unwrap();
            store.give_up(&waits).await.unwrap();
            is_there("left by who gave up");
            assert!(seen.holders[0].remaining > Some(Duration::from_secs(50)));
        }
    }
}
