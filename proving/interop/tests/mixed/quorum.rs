//! Libraries that lock over several servers, together with Leasehold on the same servers.

use interop::{Language, Peer};
use servers::{Flavor, Server};
use tokio::runtime::Handle;

use crate::{
    Test,
    pair::{LONG, Pair, Promise, with_runtime},
    promises::{
        its_lock_keeps_us_out_until_it_releases, its_lock_keeps_us_out_until_its_end,
        our_lock_keeps_it_out_until_its_end, our_lock_keeps_it_out_until_we_release,
    },
};

/// Both count votes as Leasehold does, on keys of the same name.
pub(crate) const SEVERAL: [Peer; 2] = [Peer::Redlock4, Peer::Redlock5];

pub(crate) const ALL: [Test; 5] = [
    ("redlock_over_three_servers_keeps_us_out_until_it_releases", &[Language::Node], || {
        each(its_lock_keeps_us_out_until_it_releases);
    }),
    ("redlock_over_three_servers_keeps_us_out_until_its_end", &[Language::Node], || {
        each(its_lock_keeps_us_out_until_its_end);
    }),
    ("our_quorum_keeps_redlock_out_until_we_release", &[Language::Node], || {
        each(our_lock_keeps_it_out_until_we_release);
    }),
    ("our_quorum_keeps_redlock_out_until_its_end", &[Language::Node], || {
        each(our_lock_keeps_it_out_until_its_end);
    }),
    ("redlock_takes_the_votes_of_servers_that_have_forgotten_our_lock", &[Language::Node], || {
        each(it_takes_the_votes_of_servers_that_have_forgotten_our_lock);
    }),
];

/// Leasehold abstains after such a restart, unless it is told not to.
fn it_takes_the_votes_of_servers_that_have_forgotten_our_lock(pair: &mut Pair, runtime: &Handle) {
    let guard = runtime.block_on(async { pair.ours().try_lock().await.unwrap() }).unwrap();
    pair.it_is_refused();
    pair.servers[..2].iter().for_each(Server::restart);
    pair.it_takes(LONG);
    assert!(guard.is_held());
}

/// The URL of a quorum of these servers, none of which abstains.
pub(crate) fn quorum_url(servers: &[Server; 3]) -> String {
    let members = servers.each_ref().map(|server| server.url() + "?quarantine=no");
    format!("quorum:{}", members.join(","))
}

pub(crate) fn three_servers() -> [Server; 3] {
    [Flavor::Redis70, Flavor::Valkey91, Flavor::Redis82].map(Server::start)
}

fn each(promise: Promise) {
    with_runtime(|runtime| {
        for peer in SEVERAL {
            let servers = three_servers();
            let url = quorum_url(&servers);
            promise(&mut Pair::over(servers.into(), &url, peer, runtime), runtime);
        }
    });
}
