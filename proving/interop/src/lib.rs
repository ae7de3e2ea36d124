//! Other languages' lock libraries, each in a separate process, together with Leasehold on one
//! server.
//!
//! A [`Peer`] is a library; a [`Driver`] is a process that runs that library and follows orders,
//! one line each.
//! `cargo xtask peers` fetches the libraries.

#![expect(
    missing_docs,
    clippy::exhaustive_enums,
    reason = "this crate is not published; a comment says what a name does not"
)]

mod answer;
mod driver;
mod history;
mod language;
mod peer;

pub use answer::{Answer, now};
pub use driver::Driver;
pub use history::{Belief, overlap};
pub use language::Language;
pub use peer::Peer;
