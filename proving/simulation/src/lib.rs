//! The real core and the real driver in a simulated world: clients, stores that misbehave, and time, all decided by a seed.
//!
//! What runs is [`leasehold::Locks`] over a single store or a quorum, with everything above and below that is not the network: the
//! machines of the core, the keeper, the line. What is simulated is what they take from outside. Time is virtual and every
//! process has its own clocks; chance comes from the seed alone; one task goes on at a time, and the seed decides which. Nodes are
//! `core::apply` over records, behind connections that delay, lose, repeat, break and turn half-open.
//!
//! A seed decides who there is, what they do, and what goes wrong when. After every step it is looked whether what is promised
//! holds (see `watch`); a seed in which it does not is replayed, with its trace, by `cargo xtask simulate --seed N`.
//!
//! That the invariants can fail is tested as well: [`Flaw`] names rules that can be left out, and each is found within 500 seeds.

mod breaking;
mod calling;
mod campaign;
mod client;
mod clock;
mod dice;
mod executor;
mod faults;
mod flaw;
mod machine;
mod network;
mod node;
mod plan;
mod reading;
mod run;
mod store;
mod watch;
mod words;
mod world;

pub use campaign::Campaign;
pub use flaw::Flaw;
pub use plan::FaultKind;
pub use run::{Report, run};
