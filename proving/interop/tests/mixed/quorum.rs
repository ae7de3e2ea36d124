//! Libraries that lock over several servers, together with Leasehold on the same servers.

use std::time::Duration;

use interop::{Language, Peer};
use leasehold::{AnyStore, Locks, LocksBuilder};
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

/// Longer than the longest lease of these tests.
const MAX_TTL: Duration = Duration::from_secs(60);

/// None of the servers is restarted, so none has to abstain.
pub(crate) fn quorum(builder: LocksBuilder, urls: &[&str]) -> Locks {
    let stores: Result<Vec<_>, _> =
        urls.iter().map(|url| AnyStore::from_url(&format!("{url}?quarantine=no"))).collect();
    builder.quorum(stores.expect("good URLs"), MAX_TTL).expect("three different servers")
}

pub(crate) fn three_servers() -> [Server; 3] {
    [Flavor::Redis70, Flavor::Valkey91, Flavor::Redis82].map(Server::start)
}

fn each(promise: Promise) {
    with_runtime(|runtime| {
        for peer in SEVERAL {
            let connect = async |builder: LocksBuilder, urls: &[&str]| quorum(builder, urls);
            promise(&mut Pair::over(three_servers().into(), peer, runtime, connect), runtime);
        }
    });
}
