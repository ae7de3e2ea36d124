//! The checks that every store must pass, run in full by each store's tests. A check fails by
//! panicking. Real stores are checked in real time, with short leases; exact times in virtual time,
//! in memory.

#![expect(
    missing_docs,
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    clippy::missing_errors_doc,
    reason = "this crate is not published; a comment says what a name does not"
)]

pub mod checks;
pub mod dump;
pub mod events;
pub mod faulty;
pub mod oracle;
pub mod poll;
pub mod sequence;
pub mod target;
pub mod virtual_time;
