//! The real core and driver in a simulated world: clients, stores that misbehave, and time.
//!
//! The real code is [`leasehold::Locks`] over a store or a quorum, with everything but the network.
//! Time is virtual and every process has its own clocks; randomness comes only from the seed, which
//! also decides which one task runs. Nodes are `core::apply` over records, behind connections that
//! delay, lose, repeat, break and become half-open.
//!
//! A seed decides the processes, their actions and the faults. After every step the promises are
//! checked (see `watch`); `cargo xtask simulate --seed N` replays a seed with its trace. [`Flaw`]
//! names rules that can be left out: tests show that each omission is found.

mod breaking;
mod calling;
mod campaign;
mod client;
mod clock;
mod connection;
mod delivery;
mod dice;
mod executor;
mod faults;
mod flaw;
mod machine;
mod message;
mod network;
mod node;
mod plan;
mod run;
mod store;
mod watch;
mod words;
mod world;

pub use campaign::Campaign;
pub use flaw::Flaw;
pub use plan::FaultKind;
pub use run::{Report, run};
