//! Checks: listing all held locks.

use std::collections::BTreeSet;
use std::time::Duration;

use leasehold::Locks;
use leasehold_core::{Claim, Fence, Holder, Key, KeyState, Label, Owner, ScanPage, ScanPosition, Store};
use servers::Reply;

use super::{LONG, SHORT, attempt, holders, key, queues, state_of, take};
use crate::target::Target;

/// The keys of a listing, which must equal those of a scan.
async fn names(store: &dyn Store, prefix: &[u8]) -> Vec<Vec<u8>> {
    let states = store.inspector().unwrap().list(prefix).await.unwrap();
    assert_eq!(scanned(store, prefix).await, what(&states), "a walk comes by something else than a listing");
    states.iter().map(|state| state.key.as_bytes().to_vec()).collect()
}

/// The keys in use that a scan finds, in order.
async fn scanned(store: &dyn Store, prefix: &[u8]) -> Vec<(Key, Vec<Option<Fence>>, Vec<Holder>)> {
    let (mut keys, mut next, mut behind) = (BTreeSet::new(), Some(ScanPosition::default()), 0);
    while let Some(from) = next {
        let page = store.inspector().unwrap().scan(prefix, from).await.unwrap();
        assert!(page.scanned >= behind && page.scanned <= ScanPage::WHOLE, "{page:?}");
        (next, behind) = (page.next, page.scanned);
        keys.extend(page.keys);
    }
    assert_eq!(behind, ScanPage::WHOLE);
    let keys: Vec<_> = keys.into_iter().collect();
    let mut states = store.inspector().unwrap().inspect_all(&keys).await.unwrap();
    assert!(states.iter().map(|state| &state.key).eq(&keys), "in the order of the keys");
    let ours =
        |state: &KeyState| state.holders.iter().any(|holding| matches!(holding.owner, Owner::Holder { .. }));
    states.retain(|state| !state.waiters.is_empty() || ours(state));
    what(&states)
}

/// Everything that does not change with time.
fn what(states: &[KeyState]) -> Vec<(Key, Vec<Option<Fence>>, Vec<Holder>)> {
    let fences = |state: &KeyState| state.holders.iter().map(|holding| holding.fence).collect();
    let line = |state: &KeyState| state.waiters.iter().map(|waiter| waiter.holder).collect();
    states.iter().map(|state| (state.key.clone(), fences(state), line(state))).collect()
}

async fn take_all(store: &dyn Store, names: &[&[u8]]) {
    for name in names {
        let mut one = attempt(&["x"], LONG);
        one.claim = Claim::exclusive(key(name));
        take(store, &one).await;
    }
}

/// The same as looking at the key shows; no expired or released locks, nor other programs' keys.
pub async fn a_listing_has_what_is_held_and_nothing_else(target: &Target) {
    let (here, there) = (target.store(), target.store());
    assert_eq!(there.inspector().unwrap().list(b"").await.unwrap(), []);
    let mut one = attempt(&["held"], LONG);
    one.label = Some(Label::new("web-3: größe").unwrap());
    let fence = take(&*here, &one).await;
    let (short, released) = (attempt(&["short"], SHORT), attempt(&["released"], LONG));
    take(&*here, &short).await;
    take(&*here, &released).await;
    here.release(&released).await.unwrap();
    if let Some(server) = target.server() {
        // Values of other programs: strings, one that begins like ours, and one that is no string.
        for value in ["x", "", "lh1", "lh1-0123", "lh2-0123456789abcdef0123456789abcdef"] {
            server.text(&["SET", &format!("theirs:{value}"), value]);
        }
        for words in
            [&["RPUSH", "list", "lh1"][..], &["HSET", "hash", "f", "lh1"], &["ZADD", "set", "1", "lh1"]]
        {
            server.text(words);
        }
    }
    tokio::time::timeout(LONG, async {
        while !holders(&*there, "short").await.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .expect("a lease ends");
    let listed = there.inspector().unwrap().list(b"").await.unwrap();
    assert_eq!(scanned(&*there, b"").await, what(&listed));
    let [KeyState { key: held, holders, waiters, .. }] = &*listed else { panic!("{listed:?}") };
    assert_eq!((held, holders.len(), waiters.len()), (&key("held"), 1, 0), "{listed:?}");
    assert_eq!(holders[0].owner, Owner::Holder { holder: one.holder, label: one.label.clone() });
    assert_eq!(holders[0].fence, Some(fence));
    let left = holders[0].remaining.unwrap();
    assert!(left <= LONG && left > LONG / 2, "{left:?} left");
    for state in [&listed[0], &state_of(&*there, "held").await] {
        let held_for = state.held_for(&state.holders[0]);
        assert!(held_for.is_some_and(|held_for| held_for < LONG), "held for {held_for:?}");
    }
}

/// A prefix is bytes, like a key, even those that are special elsewhere.
pub async fn a_prefix_means_itself(target: &Target) {
    let store = target.store();
    let words = |text: &'static [u8]| text.split(|byte| *byte == b' ');
    let all: Vec<_> =
        words(b"a a* a*b aXb a? a[b a[b-c] a\\b a] a^ b \xff \xff\xff \xff\0z {a} }a a\n").collect();
    assert_eq!(all.len(), 17);
    take_all(&*store, &all).await;
    let others = words(b"a[ a[b- * ? [ab] \\ c \xfe \0 leasehold:");
    let prefixes = all.iter().copied().chain(others).chain([&b""[..], b"a*b and more"]);
    for prefix in prefixes {
        let mut expected: Vec<_> =
            all.iter().filter(|name| name.starts_with(prefix)).map(|name| name.to_vec()).collect();
        expected.sort();
        assert_eq!(names(&*store, prefix).await, expected, "{}", prefix.escape_ascii());
    }
    let locks = Locks::builder().prefix("a[").over(target.store()).unwrap();
    let listed = locks.list("b-").await.unwrap();
    assert_eq!(listed.iter().map(|state| state.key.clone()).collect::<Vec<_>>(), [key("a[b-c]")]);
}

/// 3,000 keys among as many of others, each once, by bytes. A cluster locks those of a slot together.
pub async fn a_long_listing_is_complete_and_in_order(target: &Target) {
    const KEYS: usize = 3_000;
    let store = target.store();
    if let Some(server) = target.server() {
        let fill = "for n = 1, 3000 do redis.call('SET', 'job:' .. n .. ':theirs', n) end";
        assert_eq!(server.text(&["EVAL", fill, "0"]), Reply::Bulk(None));
    }
    let mut expected: Vec<_> = (0..KEYS).map(|n| format!("job:{{{}}}:{n}", n / 100)).collect();
    for part in expected.chunks(100) {
        let part: Vec<_> = part.iter().map(String::as_str).collect();
        take(&*store, &attempt(&part, LONG)).await;
    }
    take_all(&*store, &[b"joa", b"job", b"joc"]).await;
    expected.sort();
    let listed = names(&*store, b"job:").await;
    assert_eq!(listed.len(), KEYS);
    assert!(listed.iter().eq(expected.iter().map(String::as_bytes)), "another order, or other keys");
}

/// With the same queue as looking shows, and another program's key if one of ours waits for it.
pub async fn a_listing_has_what_is_waited_for(target: &Target) {
    let store = target.store();
    let (holder, waiter) = (attempt(&["k:ours"], LONG), attempt(&["k:ours"], LONG));
    take(&*store, &holder).await;
    queues(&*store, &waiter).await;
    let mut expected = vec![(key("k:ours"), waiter.holder)];
    if let Some(server) = target.server() {
        for name in ["k:theirs", "k:theirs, and nobody waits"] {
            server.text(&["SET", name, "x", "PX", "60000"]);
        }
        let waiter = attempt(&["k:theirs"], LONG);
        queues(&*store, &waiter).await;
        expected.push((key("k:theirs"), waiter.holder));
    }
    let listed = store.inspector().unwrap().list(b"k").await.unwrap();
    assert_eq!(scanned(&*store, b"k").await, what(&listed));
    let waiting = listed.iter().map(|state| {
        assert_eq!((state.holders.len(), state.waiters.len()), (1, 1), "{state:?}");
        (state.key.clone(), state.waiters[0].holder)
    });
    assert_eq!(waiting.collect::<Vec<_>>(), expected);
}
