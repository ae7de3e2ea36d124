//! Libraries that lock over several servers.

use std::{
    thread,
    time::{Duration, Instant},
};

use interop::{Answer, Driver};
use leasehold::Locks;
use servers::{Reply, Server};

use crate::pair::{LONG, SLACK, took, with_runtime};
use crate::quorum::{SEVERAL, three_servers};

const FREE: Reply = Reply::Bulk(None);

pub(crate) fn redlock_holds_a_key_on_each_of_its_servers_and_one_of_ours_is_one_vote_against_it() {
    let servers = three_servers();
    let urls = servers.each_ref().map(Server::url);
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let values = || servers.each_ref().map(|server| server.text(&["GET", "k"]));
    // redlock 5 answers once it has a majority; the other servers follow.
    let until = |what: &str, is_so: fn(&[Reply; 3]) -> bool| {
        let end = Instant::now() + SLACK;
        while !is_so(&values()) {
            assert!(Instant::now() < end, "not {what}: {:?}", values());
            thread::sleep(Duration::from_millis(2));
        }
    };
    let until_free = |what: &str| until(what, |values| values.iter().all(|value| *value == FREE));
    with_runtime(|runtime| {
        for peer in SEVERAL {
            let mut driver = Driver::start(peer, &urls);
            took(driver.take("k", LONG, Duration::ZERO));
            until("held on all three", |[first, second, third]| {
                *first != FREE && first == second && first == third
            });
            assert!(matches!(driver.release(), Answer::Released { .. }), "{peer}");
            until_free("released on all three");

            let ours = [0, 1].map(|server| {
                let locks = runtime.block_on(Locks::connect(urls[server])).unwrap();
                move || runtime.block_on(async { locks.mutex("k").try_lock().await.unwrap().unwrap() })
            });
            let one = ours[0]();
            took(driver.take("k", LONG, Duration::ZERO));
            assert!(matches!(driver.release(), Answer::Released { .. }), "{peer}");
            until("released on the other two", |[_, second, third]| *second == FREE && *third == FREE);
            let two = ours[1]();
            assert_eq!(driver.take("k", LONG, Duration::ZERO), Answer::Held, "{peer}");
            for guard in [one, two] {
                runtime.block_on(guard.release()).unwrap();
            }
            until_free("given back on the minority");
        }
    });
}
