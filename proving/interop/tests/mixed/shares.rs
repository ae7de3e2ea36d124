//! How turns on a busy key are shared between Leasehold and libraries that poll.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use interop::{Answer, Driver, Language, Peer};
use leasehold::{LockError, Locks, LocksBuilder};
use servers::{Flavor, Server};
use tokio::runtime::Handle;

use crate::{
    Test,
    pair::{LONG, with_runtime},
};

pub(crate) const ALL: [Test; 1] = named! {
    ours_that_poll_leave_polling_libraries_their_share_of_a_busy_key: &Language::ALL,
};

/// The full key on the server. It has pottery's prefix, which pottery cannot change.
const KEY: &str = "redlock:shared";
const PEERS: [Peer; 6] = [
    Peer::Redlock4,
    Peer::Redlock5,
    Peer::RedlockUniversal,
    Peer::RedisSemaphore,
    Peer::RedisPy,
    Peer::Pottery,
];
const OURS: usize = 6;
const HOLD: Duration = Duration::from_millis(3);
const PATIENCE: Duration = Duration::from_secs(1);
const LENGTH: Duration = Duration::from_secs(6);
/// The poll interval of most of them.
const INTERVAL: Duration = Duration::from_millis(100);

/// The turns of each of the others, and of all of Leasehold's together.
fn turns(ours: impl Fn() -> LocksBuilder + Sync) -> (Vec<u32>, u32) {
    let server = &Server::start(Flavor::Redis70);
    let url = &server.url();
    let (of_others, of_ours) = (PEERS.map(|_| AtomicU32::new(0)), AtomicU32::new(0));
    let directory = tempfile::tempdir().expect("a directory for the witness");
    let inside = &directory.path().join("inside");
    with_runtime(|runtime| {
        let drivers = PEERS.map(|peer| (peer.name_of(KEY), Driver::start(peer, &[url])));
        let end = Instant::now() + LENGTH;
        thread::scope(|scope| {
            for ((name, mut driver), turns) in drivers.into_iter().zip(&of_others) {
                scope.spawn(move || {
                    while Instant::now() < end {
                        match driver.visit(&name, LONG, PATIENCE, HOLD, inside) {
                            Answer::Visited { .. } => {
                                turns.fetch_add(1, Ordering::Relaxed);
                            }
                            Answer::Held => {}
                            other => panic!("{name}: {other:?}"),
                        }
                    }
                });
            }
            for _ in 0..OURS {
                // One connection each, as separate processes would have.
                let locks = runtime.block_on(ours().connect(url)).expect("a server that runs");
                let turns = &of_ours;
                scope.spawn(move || {
                    while Instant::now() < end {
                        turns.fetch_add(take_a_turn(runtime, &locks), Ordering::Relaxed);
                    }
                });
            }
        });
    });
    let of_others = of_others.into_iter().map(AtomicU32::into_inner).collect();
    (of_others, of_ours.into_inner())
}

fn take_a_turn(runtime: &Handle, locks: &Locks) -> u32 {
    match runtime.block_on(async { locks.mutex(KEY).lock().within(PATIENCE).await }) {
        Ok(guard) => {
            thread::sleep(HOLD);
            runtime.block_on(guard.release()).expect("held to the end");
            1
        }
        Err(LockError::TimedOut { .. }) => 0,
        Err(error) => panic!("{error}"),
    }
}

/// Six waiters of ours and six of others. With the queue, ours had 1,973 turns and the others 9.
fn ours_that_poll_leave_polling_libraries_their_share_of_a_busy_key() {
    let builder = || Locks::builder().ttl(LONG);
    let (others, ours) = turns(|| builder().poll_every(INTERVAL));
    println!("polling: {PEERS:?} {others:?}, ours {ours}");
    let all = others.iter().sum::<u32>();
    assert!(others.iter().all(|turns| *turns > 0), "somebody was starved: {others:?}");
    assert!(ours > 0 && all >= ours / 2, "the others had {all} turns, and ours {ours}");
    let (queued_others, queued) = turns(builder);
    println!("queued: {PEERS:?} {queued_others:?}, ours {queued}");
    let share = |others: u32, ours: u32| f64::from(others) / f64::from(others + ours);
    let (polling, in_line) = (share(all, ours), share(queued_others.iter().sum(), queued));
    assert!(polling > 4.0 * in_line, "of their turns, the others had {polling:.3} and before {in_line:.3}");
}
