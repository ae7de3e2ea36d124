//! Libraries that lock over several servers, together with Leasehold on the same servers.

use interop::{Language, Peer};
use servers::{Flavor, Server};

use crate::{
    Test,
    pair::{Pair, Promise, with_runtime},
    promises::{
        its_lock_keeps_us_out_until_it_releases, its_lock_keeps_us_out_until_its_end,
        our_lock_keeps_it_out_until_its_end, our_lock_keeps_it_out_until_we_release,
    },
};

/// Both count votes as Leasehold does, on keys of the same name.
pub(crate) const SEVERAL: [Peer; 2] = [Peer::Redlock4, Peer::Redlock5];

pub(crate) const ALL: [Test; 4] = [
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
];

/// The URL of a quorum of these servers. None of them is restarted, so none has to abstain.
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
