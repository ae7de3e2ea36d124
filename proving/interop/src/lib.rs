//! Other languages' lock libraries, each in a process of its own, beside ours on one server.
//!
//! A [`Peer`] is a library; a [`Driver`] is a process in which that library does what it is told, a line at a time.
//! `cargo xtask peers` fetches the libraries.

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
