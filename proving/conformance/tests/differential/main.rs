//! The scripts against the one semantics: the same random histories, the same answers, the same pushes, and the same things left
//! on the server.
//!
//! What is left out of the comparison is named at `Tolerance`. `mutants` breaks the scripts, line by line, and sees this find out.

mod costs;
mod mutants;
mod subject;

use std::ops::Range;

use leasehold_redis::script::DeleteIfEqual;
use servers::{Flavor, Server};

use crate::subject::Subject;

/// Of each server: histories of its own, and altogether enough for each pair of requests on each pair of states to have met many
/// times.
const HISTORIES: u64 = 500;

#[test]
fn redis_6_2_agrees_with_the_one_semantics() {
    agrees(Flavor::Redis62, 0);
}

#[test]
fn redis_7_0_agrees_with_the_one_semantics() {
    agrees(Flavor::Redis70, 1);
}

#[test]
fn redis_8_2_agrees_with_the_one_semantics() {
    agrees(Flavor::Redis82, 2);
}

#[test]
fn valkey_9_1_agrees_with_the_one_semantics() {
    agrees(Flavor::Valkey91, 3);
}

/// Whatever the server's own command deletes, the script would have deleted just that, and told nobody: with a line of writers,
/// readers and those who want permits, after breaks, and beside a quorum's requests.
#[test]
fn a_native_release_is_all_that_the_script_would_have_done() {
    let (server, histories) = (Server::start(Flavor::Valkey91), 4 * HISTORIES..6 * HISTORIES);
    let mut subject = Subject::on(&server);
    subject.release_natively(DeleteIfEqual::Delifeq);
    agree(&mut subject, Flavor::Valkey91, histories);
    assert!(subject.released_natively() > 200, "{}", subject.released_natively());
}

fn agrees(flavor: Flavor, nth: u64) {
    let server = Server::start(flavor);
    agree(&mut Subject::on(&server), flavor, nth * HISTORIES..(nth + 1) * HISTORIES);
}

fn agree(subject: &mut Subject, flavor: Flavor, histories: Range<u64>) {
    for seed in histories {
        if let Err(found) = subject.agrees(seed) {
            panic!("{flavor}, history {seed}: {found}");
        }
    }
}
