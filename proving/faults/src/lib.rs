//! Faults of the queue, with real processes. Each worker of a [`Crowd`] records what it believes in a
//! [`history`] that outlives it, in which a [`ParsedHistory`] finds violations afterwards. The tests
//! cause the faults of workers, network and server.

#![expect(
    missing_docs,
    clippy::exhaustive_enums,
    reason = "this crate is not published; a comment says what a name does not"
)]

mod crowd;
pub mod history;
pub mod judge;
mod parsed_history;
mod plan;
mod pulse;
pub mod soak;
mod visit;
pub mod wish;
pub mod worker;

pub use crowd::{Crowd, until};
pub use parsed_history::{Handover, ParsedHistory, ProcessFault, RequestSpan};
pub use plan::Plan;
