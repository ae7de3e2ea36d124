//! The data that an older build has left on a server is read, and the work continues with it.
//!
//! The records are those that the build of commit 3afda86d wrote, the last that had no keys with
//! several holders: one task of a process holds a lock, and two others of it wait. `cargo xtask
//! upgrade` runs that build itself together with this one.

use std::time::Duration;

use leasehold_core::{
    Attempt, Claim, GrantAnswer, HoldAnswer, Holder, InspectStore as _, Key, Label, Owner, Store, Ttl,
};
use servers::{Connection, Flavor, Reply, Server};

use crate::queue::WAIT;
use crate::world::{attempt, grant, granted, pttl, store, value};

const KEY: &str = "the lock";
const FENCE: u64 = 1_795_296_770_738_669;
const CHANNEL: &str = "leasehold:fdb7dd620527b8b9723bd3956c131481";
const HOLDER: &str = "aa1d1404859966f4683da901b2ffe13d";
const FIRST: &str = "f49b69b5075d00fe6c95748a2832b5f7";
const SECOND: &str = "365db5d5e901a3e3f97f190a1f18efd6";

/// Each with how long it lasts, in ms.
const WRITTEN: [(&[&str], &str); 4] = [
    (&["SET", KEY, "lh1+aa1d1404859966f4683da901b2ffe13d 14212"], "27239"),
    (&["SET", "leasehold:f{417}the lock", "1795296770738669"], "597241"),
    (&["ZADD", "leasehold:l{417}the lock", "1795296770740129", FIRST, "1795296770740500", SECOND], "12243"),
    (
        &[
            "HSET",
            "leasehold:w{417}the lock",
            FIRST,
            "30000 600000 0 leasehold:fdb7dd620527b8b9723bd3956c131481 14212",
            SECOND,
            "30000 600000 0 leasehold:fdb7dd620527b8b9723bd3956c131481 14212",
        ],
        "12243",
    ),
];

fn left_by_the_older_build(flavor: Flavor) -> Server {
    let server = Server::start(flavor);
    for (command, lasts) in WRITTEN {
        server.text(command);
        assert_eq!(server.text(&["PEXPIRE", command[1], lasts]), Reply::Integer(1));
    }
    server
}

fn of_the_older_build(digits: &str) -> Attempt {
    let holder = Holder::from_digits(digits.as_bytes()).unwrap();
    let claim = Claim::exclusive(Key::new(KEY).unwrap());
    Attempt::new(claim, holder, Label::new("14212").ok(), Ttl::new(Duration::from_secs(30)).unwrap())
}

#[tokio::test]
async fn data_of_an_older_build_is_read_as_it_meant_it() {
    for flavor in Flavor::ALL {
        let server = left_by_the_older_build(flavor);
        let store = store(&server.url());
        let state = store.inspect(&Key::new(KEY).unwrap()).await.unwrap();
        let [holding] = &state.holders[..] else { panic!("{state:?}") };
        let Owner::Holder { holder, label } = &holding.owner else { panic!("{holding:?}") };
        assert_eq!((holder.digits(), label.as_ref().map(Label::as_str)), (HOLDER.into(), Some("14212")));
        assert_eq!(holding.fence, None, "{flavor}: it was next to the lease");
        let line: Vec<_> = state.waiters.iter().map(|waiter| waiter.holder.digits()).collect();
        assert_eq!(line, [FIRST, SECOND], "{flavor}");
        assert!(matches!(grant(&store, &attempt(&[KEY])).await, Ok(GrantAnswer::Busy { .. })));
        assert_eq!(value(&server, KEY).as_deref(), Some("lh1+aa1d1404859966f4683da901b2ffe13d 14212"));
    }
}

/// Ours is queued behind those of the older build. The current scripts hand the lock to each, with
/// a push in the format of the older build.
#[tokio::test]
async fn the_queue_of_an_older_build_keeps_its_order_and_ours_joins_at_its_end() {
    for flavor in Flavor::ALL {
        let server = left_by_the_older_build(flavor);
        let store = store(&server.url());
        let mut hears = server.connect().unwrap();
        hears.text(&["SUBSCRIBE", CHANNEL]).unwrap();
        let ours = attempt(&[KEY]);
        let waits = store.grant(&ours, WAIT).await;
        let Ok(GrantAnswer::Busy { place: Some(place), .. }) = waits else { panic!("{waits:?}") };
        assert_eq!(place.before, 2, "{flavor}");

        let mut last = FENCE;
        let [holder, first, second] = [HOLDER, FIRST, SECOND].map(of_the_older_build);
        for (goes, comes) in [(&holder, &first), (&first, &second)] {
            assert_eq!(store.release(goes).await, Ok(HoldAnswer::Done), "{flavor}");
            let digits = comes.holder.digits();
            let told = granted_to(&mut hears);
            let words: Vec<_> = told.splitn(5, ' ').collect();
            let ["g", whom, fence, ms, KEY] = words[..] else { panic!("{told}") };
            assert_eq!((whom, ms), (&*digits, "2000"), "{flavor}");
            let fence = fence.parse::<u64>().unwrap();
            assert!(fence > last, "{flavor}: {fence} after {last}");
            last = fence;
            assert_eq!(value(&server, KEY), Some(format!("lh1+{digits}.{fence} 14212")), "{flavor}");
            assert_eq!(store.renew(std::slice::from_ref(comes)).await, [Ok(HoldAnswer::Done)], "{flavor}");
            assert!(pttl(&server, KEY) > 29_000, "{flavor}");
        }
        assert_eq!(store.release(&second).await, Ok(HoldAnswer::Done));
        let fence = granted(store.grant(&ours, WAIT).await);
        assert!(u64::from(fence) > last, "{flavor}: {fence} after {last}");
        assert_eq!(store.release(&ours).await, Ok(HoldAnswer::Done));
        assert_eq!(server.keys("*"), ["leasehold:c{-}", "leasehold:f{417}the lock"]);
    }
}

/// The next push that grants something. Before it, others of the process may be told when to ask.
fn granted_to(hears: &mut Connection) -> String {
    loop {
        let message = hears.receive().unwrap();
        let Reply::Array(Some(parts)) = &message else { panic!("{message:?}") };
        let told = parts.last().and_then(Reply::as_text).unwrap();
        if told.starts_with("g ") {
            return told.to_owned();
        }
    }
}
