//! Leasehold's store on one Redis, Valkey or KeyDB server.
//!
//! [`RedisStore`] is the store. What it says to the server is written by [`script`], [`wire`] and [`slot`], which do no I/O:
//! whoever wants to speak the same protocol, or to test it, takes those. `docs/wire.md` describes every byte of it.
//!
//! Programs use the `leasehold` crate.

mod address;
mod client;
mod clock;
mod connect;
mod contended;
mod deadline;
mod ear;
mod fault;
mod in_line;
mod link;
mod member;
mod native;
mod parameters;
mod release;
mod reply;
pub mod script;
mod settle;
pub mod slot;
mod store;
mod tend;
#[cfg(feature = "tls")]
mod tls;
pub mod wire;

pub use store::RedisStore;
