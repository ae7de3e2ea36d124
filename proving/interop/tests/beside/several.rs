//! The libraries that lock over several servers.

use std::time::Duration;

use interop::{Answer, Driver, Peer};
use leasehold::Locks;
use servers::{Flavor, Reply, Server};

use crate::pair::{LONG, took, with_runtime};

const FREE: Reply = Reply::Bulk(None);

pub(crate) fn redlock_holds_a_key_on_each_of_its_servers_and_one_of_ours_is_one_vote_against_it() {
    let servers = [Flavor::Redis70, Flavor::Valkey91, Flavor::Redis82].map(Server::start);
    let urls = servers.each_ref().map(Server::url);
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    let values = || servers.each_ref().map(|server| server.text(&["GET", "k"]));
    with_runtime(|runtime| {
        for peer in [Peer::Redlock4, Peer::Redlock5] {
            let mut driver = Driver::start(peer, &urls);
            took(driver.take("k", LONG, Duration::ZERO));
            let [first, second, third] = values();
            assert_ne!(first, FREE, "{peer}");
            assert_eq!((&first, &first), (&second, &third), "{peer}");
            assert!(matches!(driver.release(), Answer::Released { .. }), "{peer}");
            assert_eq!(values(), [FREE; 3], "{peer}");

            let ours = [0, 1].map(|server| {
                let locks = runtime.block_on(Locks::connect(urls[server])).unwrap();
                move || runtime.block_on(async { locks.mutex("k").try_lock().await.unwrap().unwrap() })
            });
            let one = ours[0]();
            took(driver.take("k", LONG, Duration::ZERO));
            assert!(matches!(driver.release(), Answer::Released { .. }), "{peer}");
            let two = ours[1]();
            assert_eq!(driver.take("k", LONG, Duration::ZERO), Answer::Held, "{peer}");
            for guard in [one, two] {
                runtime.block_on(guard.release()).unwrap();
            }
            assert_eq!(values(), [FREE; 3], "{peer} left something on a minority");
        }
    });
}
