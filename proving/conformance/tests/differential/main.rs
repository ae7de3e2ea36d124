//! The scripts compared with `core::apply`: the same random histories must give the same answers,
//! pushes and data on the server. `postgres` does so with a database's tables. `Tolerance` lists
//! the ignored differences, `cases` has states that no history reaches, `costs` counts commands,
//! and `mutants` checks that these tests notice every small change of the scripts and functions.

mod cases;
mod constants;
mod costs;
mod mutants;
mod postgres;
mod scripts;
mod subject;

use servers::{Flavor, Server};

use crate::subject::Subject;

/// For each server, its own; together enough for each pair of requests to meet in most states.
const HISTORIES: u64 = 500;

servers::tests! {
    fn redis_5_0_agrees_with_the_one_semantics() = agrees(Flavor::Redis50, 5);
    fn redis_6_2_agrees_with_the_one_semantics() = agrees(Flavor::Redis62, 0);
    fn redis_7_0_agrees_with_the_one_semantics() = agrees(Flavor::Redis70, 1);
    fn redis_8_2_agrees_with_the_one_semantics() = agrees(Flavor::Redis82, 2);
    fn valkey_9_1_agrees_with_the_one_semantics() = agrees(Flavor::Valkey91, 3);
}

fn agrees(flavor: Flavor, nth: u64) {
    let server = Server::start(flavor);
    let mut subject = Subject::on(&server);
    for seed in nth * HISTORIES..(nth + 1) * HISTORIES {
        if let Err(found) = subject.agrees(seed) {
            panic!("{flavor}, history {seed}: {found}");
        }
    }
}
