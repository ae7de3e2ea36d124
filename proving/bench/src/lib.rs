//! Leasehold's benchmarks, each alternating with a bare loop on the same client in the same process. A
//! target for a time is set on the ratio to that loop; one for a count (commands, turns, bytes) depends
//! on nothing that other load on the machine could change.

#![expect(
    missing_docs,
    clippy::exhaustive_enums,
    clippy::missing_errors_doc,
    reason = "this crate is not published; a comment says what a name does not"
)]

pub mod backend;
pub mod bare;
mod bare_sql;
pub mod callgrind;
pub mod child;
pub mod clock;
pub mod figure;
pub mod machine;
pub mod order;
pub mod page;
pub mod path;
pub mod sample;
pub mod settings;
pub mod tap;
pub mod targets;
pub mod transactions;
pub mod turn;
pub mod vitals;
pub mod worker;
pub mod workers;
pub mod workloads;

pub use competitor::AnyError;
