//! Leasehold's store on one Redis, Valkey or KeyDB server.
//!
//! [`RedisStore`] is the store, and [`ClusterStore`] the one on a cluster of them. What they say to a server is written by [`script`], [`wire`] and [`slot`], which do no I/O:
//! whoever wants to speak the same protocol, or to test it, takes those. `docs/wire.md` describes every byte of it.
//!
//! Programs use the `leasehold` crate.

mod access;
mod address;
mod bare;
#[cfg(feature = "fred")]
mod by_fred;
mod client;
mod clock;
mod confirm;
mod connect;
mod contended;
mod deadline;
mod dial;
mod ear;
mod examine;
mod fault;
mod hearing;
mod in_line;
mod link;
mod member;
mod native;
mod parameters;
mod place;
mod release;
mod reply;
pub mod script;
mod settle;
mod signs_of_life;
pub mod slot;
mod store;
mod tend;
#[cfg(feature = "tls")]
mod tls;
mod topology;
pub mod wire;

pub use store::RedisStore;
pub use topology::cluster::ClusterStore;
