//! Other languages' lock libraries, together with Leasehold on one server. A [`Peer`] is a library,
//! which a [`Driver`] process runs, following orders of one line each. `cargo xtask peers` fetches
//! them.

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
