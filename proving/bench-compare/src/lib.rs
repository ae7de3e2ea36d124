//! Benchmarks of Leasehold and other lock libraries, each in separate processes, with the same
//! workloads on the same server, in turns. Each has its defaults, and all the same TTL. A rate is
//! compared with the bare loop of its own process, because languages and clients differ more than
//! locks do.

#![expect(
    missing_docs,
    clippy::exhaustive_enums,
    clippy::missing_errors_doc,
    reason = "this crate is not published; a comment says what a name does not"
)]

pub mod competitors;
pub mod hand_off;
pub mod ours;
pub mod page;
pub mod play;
pub mod settings;
pub mod targets;
pub mod uncontended;
