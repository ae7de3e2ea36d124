//! The line's bad days, on real processes.
//!
//! A [`Crowd`] of workers waits for one lock, several tasks in each. Each writes down what it believes in a [`history`] that outlives it; what may
//! not be is found there afterwards by an [`Account`]. What befalls the workers, their network and their server is the tests'.

mod account;
mod crowd;
pub mod history;
pub mod judge;
mod plan;
mod pulse;
pub mod sharing;
pub mod soak;
mod visit;
pub mod worker;

pub use account::{Account, Blow, Handover, Stay};
pub use crowd::{Crowd, until};
pub use plan::Plan;
